"""Publications and other rounds beside a measured one: verdicts on their cells, and the tables of a
publication of the same workload, scenario and precision.

In: the round's config (`beside`), beside.tsv and figures/; of publications cells.tsv and
values.tsv. Out: a figure of the verdicts for each of them, and what stands in a section of the
report that is theirs alone. No number of theirs is in any other table, figure or sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlperf import plan, scenarios
from dlperf.analysis.publications import config as configs
from dlperf.analysis.report import published_tables, tables, verdicts
from dlperf.analysis.round import names
from dlperf.analysis.round.verdicts import TESTED, figures, folder_of
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Cell, read_beside, read_cells
from dlperf.contract.files import write


@dataclass(frozen=True)
class Beside:
    """One publication or round: its title, where it lies, verdicts on its cells, their figure (its
    name, SVG, and in words; "" where nothing was tested), and the publication's tables."""

    title: str
    folder: str
    published: bool
    verdicts: verdicts.Verdicts
    name: str
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
    for name, entry in figures(config.beside).items():
        where, imported, title = _titled(entry, folder / names.BESIDE, shared)
        own = [row for row in rows if row["baseline"] == entry]
        tested = [row for row in own if row["verdict"] in TESTED]
        file = folder / f"figures/{name}.svg"
        heading = title[:1].upper() + title[1:]
        found.append(
            Beside(
                heading,
                f"results/{where.name}" if imported else entry,
                imported is not None,
                verdicts.verdicts(own, config.beside_margin, heading),
                name,
                file.read_text(encoding="utf-8") if tested and file.exists() else "",
                verdicts.describe(tested) if tested else "",
                _tables(where, imported, wanted) if imported else [],
            )
        )
    return found


def figure(
    config_path: Path,
    beside: Path,
    shared: Path,
    others: Path,
    other: str,
    svg: Path | None,
    png: Path | None,
    pdf: Path | None,
) -> None:
    """Draw the verdicts beside one publication or round, in the kinds whose files are named.

    `other` is what its figure is called behind 'beside-'. Raises AnalysisError where there is none.
    """
    config = plan.load(config_path)
    known, name = figures(config.beside), f"{names.BESIDE}-{other}"
    try:
        entry = known[names.known(name, [*known], "figure")]
    except LookupError as error:
        raise AnalysisError(str(error.args[0])) from None
    rows = [
        row for row in read_beside(beside) if row["baseline"] == entry and row["verdict"] in TESTED
    ]
    files = {kind: path for kind, path in (("svg", svg), ("png", png), ("pdf", pdf)) if path}
    _, _, title = _titled(entry, others, shared)
    drawn = verdicts.draw(rows, config.beside_margin, title, name, [*files])
    for kind, path in files.items():
        write(path, drawn[kind])


def _titled(entry: str, others: Path, shared: Path) -> tuple[Path, configs.Import | None, str]:
    """(the folder of what an entry of `beside` names, its config if it is a publication, title)."""
    where, published = folder_of(entry, others, shared)
    if not (where / "cells.tsv").exists():
        raise AnalysisError(
            f"{where}/cells.tsv: does not exist, and the round's `beside` names '{entry}'; "
            f"`snakemake --profile local {where}/cells.tsv` makes it"
        )
    if not published:
        return where, None, f"round {plan.label_beside(entry)}"
    imported = configs.load(where / "config.yaml")
    return where, imported, imported.title


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
