"""cells.tsv, measurements.tsv.gz, limits.tsv -> roofline.tsv: measured steps beside their limits.

A row for each cell of a training whose kernels are counted, where all nodes that it ran on were
calibrated: what a device reached there, and how long a step takes at those speeds.
"""

from collections.abc import Sequence
from pathlib import Path

from dlperf.analysis.round import metrics, roofline
from dlperf.analysis.round.calibration import limits
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, write_table
from dlperf.analysis.schema.rows import (
    Cell,
    Limit,
    Measurement,
    read_cells,
    read_limits,
    read_measurements,
    value_of,
)
from dlperf.contract.traffic import COUNTS
from dlperf.workloads.cases import case_of_row

RAN = ("workload", "framework", "case", "status", "nodes_used", "peak_precision")


def distances(cells: Path, measurements: Path, limited: Path, out: Path) -> None:
    """Write roofline.tsv. Of a round without such cells it has no rows."""
    ran: dict[tuple[str, ...], list[Measurement]] = {}
    for row in read_measurements(measurements, RAN):
        if row["status"] == "ok":
            ran.setdefault(_key(row), []).append(row)
    known = read_limits(limited)
    found = (
        _distance(cell, ran[_key(cell)], known)
        for cell in metrics.select(read_cells(cells), "step_time")
        if cell["status"] == "ok"
    )
    write_table(out, columns.ROOFLINE, [row for row in found if row])


def _key(row: Cell | Measurement) -> tuple[str, ...]:
    return row["workload"], row["framework"], row["case"]


def _distance(cell: Cell, repetitions: Sequence[Measurement], known: Sequence[Limit]) -> Row | None:
    """A cell's step beside its limits; None where these are unknown."""
    case = case_of_row(cell)
    precision = limits.only(each["peak_precision"] for each in repetitions)
    names = {node for row in repetitions for node in row["nodes_used"].split()}
    tflops = limits.measured_peak(names, cell["devices_per_node"], precision, known)
    gigabytes = limits.memory(names, cell["devices_per_node"], known)
    step = roofline.of_case(case)
    if not (step and tflops and gigabytes):
        return None
    seconds = step.seconds(tflops, gigabytes)
    row = {name: value_of(cell, name) for name in columns.ROOFLINE if name in cell}
    return {
        **row,
        "step_ms": cell["median"],
        "peak_precision": precision,
        "peak_measured_tflops": tflops,
        "memory_measured": gigabytes,
        "flops_per_step": step.flops,
        **{f"{count}_bytes": step.bytes(count) for count in COUNTS},
        **{f"{name}_ms": 1e3 * each for name, each in seconds.items()},
        **{f"over_{name}": cell["median"] / 1e3 / each for name, each in seconds.items()},
    }
