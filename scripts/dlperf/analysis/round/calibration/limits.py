"""Limits beside figures: what the round's devices can do at most, stated and measured.

In: the round's config, measurements.tsv.gz (which devices there were), config/peaks.yaml, and the
calibrations of its nodes. Out: limits.tsv, a row a limit of one device; and, for cells, the peaks
beside which MFU is shown. What nobody stated or measured is absent, never guessed.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dlperf import plan, workloads
from dlperf.analysis.round.calibration import nodes
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, read_table, write_table
from dlperf.analysis.schema.rows import Limit
from dlperf.plan import peaks

#: Where a device has no peak in a precision, what it computes in instead: TF32 came with Ampere.
INSTEAD = {"tf32": "fp32"}


def limits(config_path: Path, measurements: Path, folder: Path, stated: Path, out: Path) -> None:
    """Write limits.tsv; `folder` has the nodes' calibrations, `stated` is the file of peaks.

    Raises AnalysisError for a calibration, ConfigError for the config or the file of peaks.
    """
    config = plan.load(config_path)
    devices = dict.fromkeys(map(device, read_table(measurements, ("device", "cpu", "gpu"))))
    rows = [row for name in devices if name for row in _stated(name, config, stated)]
    for path in sorted(folder.glob("*.json")):
        rows += _measured(nodes.read(path), f"{folder.name}/{path.name}", config)
    write_table(out, columns.LIMIT, rows)


def device(row: Mapping[str, Any]) -> str:
    """The device's name as a record's host has it; of GPUs of several kinds, all their names."""
    return str(row["gpu" if row["device"] == "cuda" else "cpu"] or "")


def _stated(name: str, config: plan.Config, path: Path) -> Iterable[Row]:
    found = peaks.stated(name, config, path)
    for precision, tflops in found.tflops.items() if found else ():
        yield {
            "basis": "stated",
            "device_name": name,
            "what": "gemm",
            "precision": precision,
            "limit": tflops,
            "limit_unit": nodes.UNITS["gemm"],
            "source": found.source if found else "",
        }


def _measured(document: Mapping[str, Any], source: str, config: plan.Config) -> Iterable[Row]:
    """The fastest turn, as STREAM has it (McCalpin 1995): the mean over a node's devices.

    None of a calibration that failed, was disturbed, or is of other devices than the round's.
    """
    geometry = (document["device"], document["cores_per_device"])
    fits = geometry == (config.device, config.cores_per_device)
    if document["status"] != "ok" or not fits or nodes.disturbed(document):
        return
    hosts = {host["hostname"]: host for host in document["nodes"]}
    for row in reached(document):
        yield {
            **row,
            "device_name": _name(hosts.get(row["node"], {}), config),
            "source": source,
            "source_sha256": document["sha256"],
        }


def reached(document: Mapping[str, Any]) -> Iterable[Row]:
    """What a device of each of a calibration's nodes reached: rows as limits.tsv has them."""
    found: dict[tuple[str, str, str, int], list[float]] = {}
    for rank in document["ranks"]:
        for entry in rank["measured"]:
            key = (rank["node"], entry["what"], entry["precision"], entry["at_once"])
            found.setdefault(key, []).append(nodes.rate(entry, min))
    for (node, what, precision, at_once), rates in found.items():
        yield {
            "basis": "measured",
            "node": node,
            "what": what,
            "precision": precision,
            "at_once": at_once,
            "limit": statistics.mean(rates),
            "limit_unit": nodes.UNITS[what],
        }
    yield from _sustained(document)


def _sustained(document: Mapping[str, Any]) -> Iterable[Row]:
    """What a device held for seconds: beside its best turns, and no peak that MFU is of."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for rank in document["ranks"]:
        for entry in rank.get("sustained", ()):
            at = (rank["node"], entry["precision"], entry["at_once"])
            found.setdefault(at, []).append(nodes.sustained(entry))
    for (node, precision, at_once), rates in found.items():
        yield {
            "basis": "sustained",
            "node": node,
            "what": "gemm",
            "precision": precision,
            "at_once": at_once,
            "limit": statistics.mean(rates),
            "limit_unit": nodes.UNITS["gemm"],
        }


def _name(host: Mapping[str, Any], config: plan.Config) -> str:
    if config.device == "cpu":
        return str(host.get("cpu", ""))
    names = dict.fromkeys(str(gpu.get("name")) for gpu in host.get("gpus_before") or [])
    return "; ".join(names)


def flops_per_sample(cell: Row) -> float:
    """Floating-point operations of the workload's formulas for one sample."""
    own = tuple((name, cell[name]) for name in workloads.of(cell["workload"]).dimensions)
    return _flops_per_sample(cell["workload"], own, cell["scenario"])


@cache
def _flops_per_sample(
    workload: str, dimensions: tuple[tuple[str, Any], ...], scenario: str
) -> float:
    """Counted once for all cells of a table: a model has hundreds of tensors."""
    return float(workloads.of(workload).flops_per_sample(dict(dimensions), scenario))


def utilisation(cell: Row, repetitions: Sequence[Row], found: Sequence[Limit]) -> Row:
    """Of a cell with a throughput: its FLOPs a sample, the peaks of one device, and MFU.

    MFU (Chowdhery et al. 2022, PaLM, appendix B) = samples/s x FLOPs a sample / (devices x peak).
    """
    flops = flops_per_sample(cell)
    row: Row = {"flops_per_sample": flops}
    precision = only(each["peak_precision"] for each in repetitions)
    if not precision:
        return row
    achieved = cell["median"] * flops / 1e12 / (cell["nodes"] * cell["devices_per_node"])
    row["peak_precision"] = precision
    names = sorted({node for each in repetitions for node in each["nodes_used"].split()})
    of_devices = {
        "stated": _stated_peak(repetitions, precision, found),
        "measured": measured_peak(names, cell["devices_per_node"], precision, found),
    }
    for basis, peak in of_devices.items():
        if peak:
            row |= {f"peak_{basis}_tflops": peak, f"mfu_{basis}": achieved / peak}
    return row


def only(values: Iterable[str]) -> str:
    """The one value that all have, or ""."""
    each = set(values)
    return each.pop() if len(each) == 1 else ""


def _stated_peak(
    repetitions: Sequence[Row], precision: str, found: Sequence[Limit]
) -> float | None:
    name = only(device(row) for row in repetitions)
    own = [row for row in found if row["basis"] == "stated" and row["device_name"] == name]
    return _in_precision({row["precision"]: row["limit"] for row in own}, precision)


def measured_peak(
    names: Iterable[str], devices: int, precision: str, found: Sequence[Limit]
) -> float | None:
    """TFLOP/s of a device while so many of each of these nodes worked: the mean over the nodes.

    None where one of them has no calibration. Where so many were not measured at once, those of
    fewer are taken: so it may be overestimated, and MFU underestimated.
    """
    each = [_in_precision(_of_node(node, devices, ("gemm",), found), precision) for node in names]
    return _mean(each)


def memory(names: Iterable[str], devices: int, found: Sequence[Limit]) -> float | None:
    """GB/s of a device's memory, likewise: the faster of copy and triad."""
    each = [_of_node(node, devices, ("copy", "triad"), found).get("") for node in names]
    return _mean(each)


def _mean(each: Sequence[float | None]) -> float | None:
    known = [value for value in each if value]
    return statistics.mean(known) if known and len(known) == len(each) else None


def _of_node(
    node: str, devices: int, kinds: Sequence[str], found: Sequence[Limit]
) -> dict[str, float]:
    """Precision -> what a device reached while as many of the node worked, or else fewer."""
    own = [
        row
        for row in found
        if (row["basis"], row["node"]) == ("measured", node)
        and row["what"] in kinds
        and row["at_once"] <= devices
    ]
    most = max((row["at_once"] for row in own), default=0)
    fastest: dict[str, float] = {}
    for row in own:
        if row["at_once"] == most:
            fastest[row["precision"]] = max(row["limit"], fastest.get(row["precision"], 0.0))
    return fastest


def _in_precision(known: Mapping[str, float], precision: str) -> float | None:
    return known.get(precision) or known.get(INSTEAD.get(precision, ""))
