"""What steps for a GPU have in them, as they were compiled or driven without one.

In: config/gpu_programs.tsv, which tests/gpu/matrix.py writes. Out: its rows of a round's workloads,
frameworks and precisions, if the round is on GPUs. Nothing of it was measured, so it stands beside
the rooflines, and no cell's number depends on it.
"""

from dataclasses import dataclass
from pathlib import Path

from dlperf.analysis.round import labels
from dlperf.analysis.schema.files import Row, read_table
from dlperf.plan.config import Config

PROGRAMS = Path(__file__).resolve().parents[4] / "config/gpu_programs.tsv"
#: The numbers of a step, and their headings.
NUMBERS = {
    "kernels": "Kernels",
    "launches": "Launches of the host",
    "gb": "GB",
    "least_gb": "Least, GB",
    "separate_gb": "Separate kernels, GB",
    "memory_gb": "Memory, GB",
    "exchanges": "Exchanges",
    "waited_for": "Waited for",
}


@dataclass(frozen=True)
class Programs:
    """The rows of one workload."""

    workload: str
    title: str
    rows: list[Row]

    @property
    def numbers(self) -> dict[str, str]:
        """Those of NUMBERS that a row has: JAX's and PyTorch's have not the same ones."""
        there = {name for row in self.rows for name in NUMBERS if row[name]}
        return {name: heading for name, heading in NUMBERS.items() if name in there}


def of_round(config: Config, path: Path = PROGRAMS) -> list[Programs]:
    """The rows of what a round asks for, by workload."""
    if config.device != "cuda":
        return []
    asked = {
        (name, precision.partition("_")[0])  # amp_fp16: amp's program, but for the type
        for name, section in config.workloads.asked().items()
        for precision in section.precisions
    }
    found: dict[str, list[Row]] = {}
    for row in read_table(path):
        own = row["workload"], row["precision"]
        if own in asked and row["framework"] in config.all_frameworks:
            found.setdefault(row["workload"], []).append(row)
    return [Programs(name, labels.workload(rows[0]), rows) for name, rows in found.items()]
