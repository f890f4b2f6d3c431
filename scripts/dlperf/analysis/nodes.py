"""Probed nodes side by side: what each can do, how far it is from the others, what is wrong there.

In: results/nodes/<node>.json (dlperf.node/1, from dlperf.measure.probe). Out: a row a node.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

METRICS = ("gemm_tflops", "copy_gbytes_per_second", "allreduce_gbytes_per_second")
#: A node that is slower than the others' median by this share is named.
SLOW = 0.05
FREE_BYTES = 10e9
IDLE_SHARE = 0.9


def rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """A row a node: its figures (of its slowest rank), deviations from the others, warnings."""
    found = [_row(json.loads(path.read_text()), path) for path in sorted(paths)]
    for row in found:
        for metric in METRICS:
            others = [
                each[metric] for each in found if each is not row and each[metric] is not None
            ]
            if others and row[metric] is not None:
                deviation = row[metric] / statistics.median(others) - 1
                row[f"{metric}_deviation"] = deviation
                if deviation < -SLOW:
                    what = metric.split("_")[0]
                    row["warnings"].append(f"{what} {-deviation:.0%} below the others' median")
    return found


def _row(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"node": path.stem, "start_utc": document["start_utc"], "warnings": []}
    for metric in METRICS:
        values = [rank[metric] for rank in document["ranks"] if rank[metric] is not None]
        row[metric] = min(values, default=None)
        row[f"{metric}_deviation"] = None
    if document["status"] != "ok":
        row["warnings"].append(f"{document['status']}: {document['reason']}")
    for host in document["nodes"]:
        row["warnings"] += _wrong(host)
    return row


def _wrong(host: Mapping[str, Any]) -> Iterable[str]:
    """What of a host's state would disturb a measurement."""
    idle = host.get("idle_share_before")
    if idle is not None and idle < IDLE_SHARE:
        busy = ", ".join(f"{name} ({share:.0%})" for name, share in host["busy_processes_before"])
        yield f"only {idle:.0%} idle before{': ' + busy if busy else ''}"
    free = host.get("disk_free_bytes_before")
    if free is not None and free < FREE_BYTES:
        yield f"{free / 1e9:.1f} GB free on the disk of results"
    for index, gpu in enumerate(host.get("gpus_before") or []):
        if gpu.get("processes"):
            yield f"GPU {index}: {gpu['processes']} foreign processes"
        if gpu.get("ecc_errors"):
            yield f"GPU {index}: {gpu['ecc_errors']} uncorrected memory errors"
        if any((gpu.get("remapped_rows") or (0, 0, 0, 0))[2:]):
            yield f"GPU {index}: rows of memory wait to be remapped, or could not be"
    for index, gpu in enumerate(host.get("gpus_after") or []):
        if (gpu.get("throttle_reasons") or 0) & THROTTLED:
            yield f"GPU {index}: throttled (reasons {gpu['throttle_reasons']:#x})"


#: NVML's reasons that slow a GPU against its owner's will: power brake, hardware and software
#: slowdown by heat, hardware slowdown. Idle, application clocks and the power cap are none of them.
THROTTLED = 0x80 | 0x40 | 0x20 | 0x08


def show(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text, the worst first."""
    lines = []
    for row in sorted(found, key=lambda row: (-len(row["warnings"]), row["node"])):
        values = [
            f"{_spell(row, metric)} {unit}" for metric, unit in zip(METRICS, UNITS, strict=True)
        ]
        lines.append(f"{row['node']}: {', '.join(values)}")
        lines += [f"    {warning}" for warning in row["warnings"]]
    bad = [row["node"] for row in found if row["warnings"]]
    if bad:
        lines.append(f"To leave them out: slurm-exclude-failed-nodes: {','.join(sorted(bad))}")
    return "\n".join(lines)


UNITS = ("TFLOP/s", "GB/s copied", "GB/s exchanged")


def _spell(row: Mapping[str, Any], metric: str) -> str:
    value, deviation = row[metric], row[f"{metric}_deviation"]
    if value is None:
        return "–"
    return f"{value:.3g}" + (f" ({deviation:+.1%})" if deviation is not None else "")
