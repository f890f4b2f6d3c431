"""Calibrated nodes side by side: what each can do, how far it is from the others, what is wrong.

In: results/<round>/nodes/<node>.json (dlperf.node/2, from dlperf.measure.probe). Out: a row a node.
"""

import hashlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf.analysis.round.throttling import THROTTLED
from dlperf.analysis.schema import documents
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import storage, strict_json

UNITS = {"gemm": "TFLOP/s", "copy": "GB/s", "triad": "GB/s", "allreduce": "GB/s"}
UNITS["sustained"] = UNITS["gemm"]
#: A node that is slower than the others' median by this share is named.
SLOW = 0.05
FREE_BYTES = 10e9
IDLE_SHARE = 0.9
FOREIGN_SHARE = 0.1
#: How many mistakes of a file a message names.
SHOWN = 3


def read(path: Path) -> dict[str, Any]:
    """A node's calibration, with its file's sha256. Raises AnalysisError for anything else."""
    fix = "probe it again: snakemake --profile <profile> --forcerun probe -- screen"
    try:
        content = path.read_bytes()
        document = strict_json.parse(content)
    except (OSError, ValueError) as error:
        if storage.is_lacking(error):
            raise
        raise AnalysisError(f"{path}: cannot be read as a calibration ({error}); {fix}") from None
    if wrong := documents.problems(document, documents.NODE) or [*_contradictions(document)]:
        raise AnalysisError(f"{path}: is not a calibration: {'; '.join(wrong[:SHOWN])}; {fix}")
    return {**document, "sha256": hashlib.sha256(content).hexdigest()}


def _contradictions(document: Mapping[str, Any]) -> Iterable[str]:
    """What a calibration says in two places must agree."""
    ranks, devices = document["ranks"], document["devices"]
    if ranks and sorted(rank["rank"] for rank in ranks) != list(range(len(ranks))):
        yield "ranks: not each of them once"
    if len(ranks) % devices:
        yield f"ranks: {len(ranks)} of nodes with {devices} devices"
    entries = [entry for rank in ranks for entry in rank["measured"]]
    # The probe times a product once if its first turn, which is not kept, is a long one: on all
    # ranks, and on a busy machine whatever the next turn takes.
    turns: dict[tuple[Any, ...], set[int]] = {}
    for each in entries:
        key = each["what"], each["precision"], each["at_once"]
        turns.setdefault(key, set()).add(len(each["seconds"]))
    usual = {
        count
        for (_, precision, _), own in turns.items()
        for count in own
        if not (precision == "bf16" and own == {1})
    }
    if len(usual) > 1:
        yield "ranks: not as many turns everywhere"
    hosts = {host["hostname"] for host in document["nodes"]}
    for rank in ranks:
        if rank["node"] not in hosts:
            yield f"ranks: {rank['node']!r} is none of nodes"
        for entry in rank["measured"]:
            if entry["at_once"] > devices:
                yield f"ranks: {entry['at_once']} at once of {devices} devices"
        for entry in rank.get("sustained", ()):
            if entry["at_once"] > devices:
                yield f"ranks: {entry['at_once']} at once of {devices} devices"
            spent, done = (sum(part[which] for part in entry["parts"]) for which in (0, 1))
            if (
                abs(spent - entry["seconds"]) > 0.01 * spent
                or abs(done - entry["flops"]) > 1e-6 * done
            ):
                yield "ranks: what was sustained is not the sum of its parts"


def rate(entry: Mapping[str, Any], of: Callable[[Iterable[float]], float]) -> float:
    """TFLOP/s or GB/s of one rank's turns: of the fastest (min) or the median one."""
    amount = entry["flops"] / 1e12 if "flops" in entry else entry["bytes"] / 1e9
    return float(amount / of(entry["seconds"]))


def sustained(entry: Mapping[str, Any]) -> float:
    """TFLOP/s of products in one piece."""
    return float(entry["flops"] / 1e12 / entry["seconds"])


def label(entry: Mapping[str, Any]) -> str:
    """'gemm fp32', 'copy'."""
    return f"{entry['what']} {entry['precision']}".strip()


def rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """A row a node: its figures (of its slowest rank), deviations from the others, warnings."""
    found = [_row(read(path), path) for path in sorted(paths)]
    for row in found:
        for metric, value in row["figures"].items():
            others = [
                each["figures"][metric]
                for each in found
                if each is not row and metric in each["figures"]
            ]
            if others:
                deviation = value / statistics.median(others) - 1
                row["deviations"][metric] = deviation
                if deviation < -SLOW:
                    row["warnings"].append(f"{metric} {-deviation:.0%} below the others' median")
    return found


def _row(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The median turn of the slowest rank, while all devices of the node work."""
    row: dict[str, Any] = {"node": path.stem, "start_utc": document["start_utc"], "warnings": []}
    row |= {"figures": {}, "deviations": {}}
    for rank in document["ranks"]:
        for entry in rank["measured"]:
            if entry["at_once"] == document["devices"]:
                own = rate(entry, statistics.median)
                row["figures"][label(entry)] = min(own, row["figures"].get(label(entry), own))
        for entry in rank.get("sustained", ()):
            if entry["at_once"] == document["devices"]:
                own, name = sustained(entry), f"sustained {entry['precision']}"
                row["figures"][name] = min(own, row["figures"].get(name, own))
    if document["status"] != "ok":
        row["warnings"].append(f"{document['status']}: {document['reason']}")
    for host in document["nodes"]:
        row["warnings"] += _wrong(host)
    return row


def disturbed(document: Mapping[str, Any]) -> list[str]:
    """What else went on while a node was calibrated: then its figures are no limit of anything."""
    return [text for host in document["nodes"] for text in _disturbed(host)]


def _disturbed(host: Mapping[str, Any]) -> Iterable[str]:
    idle = host.get("idle_share_before")
    if idle is not None and idle < IDLE_SHARE:
        busy = ", ".join(f"{name} ({share:.0%})" for name, share in host["busy_processes_before"])
        yield f"only {idle:.0%} idle before{': ' + busy if busy else ''}"
    foreign = host.get("foreign_cpu_share")
    if foreign is not None and foreign > FOREIGN_SHARE:
        yield f"other processes used {foreign:.0%} of the CPU meanwhile"
    for index, gpu in enumerate(host.get("gpus_before") or []):
        if gpu.get("processes"):
            yield f"GPU {index}: {gpu['processes']} foreign processes"
    for index, gpu in enumerate(host.get("gpus_after") or []):
        if (gpu.get("throttle_reasons") or 0) & THROTTLED:
            yield f"GPU {index}: throttled (reasons {gpu['throttle_reasons']:#x})"


def _wrong(host: Mapping[str, Any]) -> Iterable[str]:
    """What of a host's state would disturb a measurement, or stop it."""
    yield from _disturbed(host)
    free = host.get("disk_free_bytes_before")
    if free is not None and free < FREE_BYTES:
        yield f"{free / 1e9:.1f} GB free on the disk of results"
    for index, gpu in enumerate(host.get("gpus_before") or []):
        if gpu.get("ecc_errors"):
            yield f"GPU {index}: {gpu['ecc_errors']} uncorrected memory errors"
        if any((gpu.get("remapped_rows") or (0, 0, 0, 0))[2:]):
            yield f"GPU {index}: rows of memory wait to be remapped, or could not be"


def show(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text, the worst first."""
    lines = []
    for row in sorted(found, key=lambda row: (-len(row["warnings"]), row["node"])):
        values = [
            f"{metric} {spell(row, metric)} {UNITS[metric.split()[0]]}" for metric in row["figures"]
        ]
        lines.append(f"{row['node']}: {', '.join(values) or 'no figures'}")
        lines += [f"    {warning}" for warning in row["warnings"]]
    bad = [row["node"] for row in found if row["warnings"]]
    if bad:
        lines.append(f"To leave them out: slurm-exclude-failed-nodes: {','.join(sorted(bad))}")
    return "\n".join(lines)


def spell(row: Mapping[str, Any], metric: str) -> str:
    """'0.8 (-20.0%)': a figure with its deviation from the other nodes."""
    if metric not in row["figures"]:
        return "–"
    deviation = row["deviations"].get(metric)
    shown = f" ({deviation:+.1%})" if deviation is not None else ""
    return f"{row['figures'][metric]:.3g}{shown}"
