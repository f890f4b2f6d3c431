"""Imported rounds beside a measured one: their tables of the same workload, scenario and precision.

In: the round's config (`beside`), and of those rounds cells.tsv and, where something was inferred
here, values.tsv. Out: tables for a section of the
report that is theirs alone. No number of theirs is in any other table, figure or sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlperf import plan, scenarios
from dlperf.analysis.publications import config as configs
from dlperf.analysis.report import published_tables, tables
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Cell, read_cells


@dataclass(frozen=True)
class Beside:
    """One imported round: its title, its folder under results/, and those tables."""

    title: str
    folder: str
    tables: list[tables.Table]


def beside(config: plan.Config, cells: Sequence[Cell], shared: Path) -> list[Beside]:
    """What `config.beside` names, for the workloads and precisions of `cells`.

    `shared` has the folders of all rounds. Raises AnalysisError where one was not imported yet.
    """
    wanted = {_of(row) for row in cells}
    found = []
    for name in config.beside:
        folder = shared / f"imported-{name}"
        if not (folder / "cells.tsv").exists():
            raise AnalysisError(
                f"{folder}/cells.tsv: does not exist, and the round's `beside` names '{name}'; "
                f"`snakemake --profile local {folder}/cells.tsv` makes it"
            )
        imported = configs.load(folder / "config.yaml")
        own = [row for row in read_cells(folder / "cells.tsv") if _of(row) in wanted]
        names = list(dict.fromkeys(row["table"] for row in own))
        made = [tables.build(table, tables.select(own, table)) for table in names]
        made += [
            published_tables.table(grid, imported)
            for grid in published_tables.grids(
                folder / "values.tsv",
                lambda row: _of(row) in wanted and bool(scenarios.marked(row["scenario"])),
            )
        ]
        found.append(Beside(imported.title, f"results/{imported.round}", made))
    return found


def _of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["workload"], row["scenario"], row["precision"]
