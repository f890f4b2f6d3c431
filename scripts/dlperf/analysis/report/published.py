"""Publications and other rounds beside a measured one: verdicts on their cells, and the tables of a
publication of the same workload, scenario and precision.

In: the round's config (`beside`) and beside.tsv; of publications cells.tsv and, where something was
inferred here, values.tsv. Out: what stands in a section of the report that is theirs alone. No
number of theirs is in any other table, figure or sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlperf import plan, scenarios
from dlperf.analysis.publications import config as configs
from dlperf.analysis.report import published_tables, tables, verdicts
from dlperf.analysis.round import names
from dlperf.analysis.round.verdicts import TESTED, folder_of
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Cell, read_beside, read_cells


@dataclass(frozen=True)
class Beside:
    """One publication or round: its title, where it lies, verdicts on its cells, their figure (SVG,
    and in words; "" where nothing was tested), and the publication's tables."""

    title: str
    folder: str
    published: bool
    verdicts: verdicts.Verdicts
    figure: str
    described: str
    tables: list[tables.Table]


def beside(config: plan.Config, cells: Sequence[Cell], folder: Path, shared: Path) -> list[Beside]:
    """What `config.beside` names, for the workloads and precisions of `cells`.

    `folder` is the round's, with beside.tsv and copies of other rounds' tables; `shared` has the
    folders of all rounds. Raises AnalysisError where one is missing.
    """
    wanted = {_of(row) for row in cells}
    rows = read_beside(folder / names.VERDICTS) if config.beside else []
    found = []
    for index, entry in enumerate(config.beside, 1):
        where, published = folder_of(entry, folder / names.BESIDE, shared)
        if not (where / "cells.tsv").exists():
            raise AnalysisError(
                f"{where}/cells.tsv: does not exist, and the round's `beside` names '{entry}'; "
                f"`snakemake --profile local {where}/cells.tsv` makes it"
            )
        title, shown = f"round {plan.label_beside(entry)}", list[tables.Table]()
        if published:
            imported = configs.load(where / "config.yaml")
            title, shown = imported.title, _tables(where, imported, wanted)
        own = [row for row in rows if row["baseline"] == entry]
        tested = [row for row in own if row["verdict"] in TESTED]
        margin, name = config.beside_margin, f"beside-{index}"
        heading = title[:1].upper() + title[1:]
        found.append(
            Beside(
                heading,
                f"results/{where.name}" if published else entry,
                published,
                verdicts.verdicts(own, margin, heading),
                verdicts.draw(tested, margin, title, name) if tested else "",
                verdicts.describe(tested) if tested else "",
                shown,
            )
        )
    return found


def _tables(
    folder: Path, imported: configs.Import, wanted: set[tuple[str, str, str]]
) -> list[tables.Table]:
    """The publication's own tables, of what was measured here too."""
    own = [row for row in read_cells(folder / "cells.tsv") if _of(row) in wanted]
    by_name = list(dict.fromkeys(row["table"] for row in own))
    return [
        *(tables.build(table, tables.select(own, table)) for table in by_name),
        *(
            published_tables.table(grid, imported)
            for grid in published_tables.grids(
                folder / "values.tsv",
                lambda row: _of(row) in wanted and bool(scenarios.marked(row["scenario"])),
            )
        ),
    ]


def _of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["workload"], row["scenario"], row["precision"]
