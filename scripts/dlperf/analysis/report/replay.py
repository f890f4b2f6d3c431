"""An imported round -> all of its tables, figures and its page, by the code of measured rounds.

In: config.yaml, cells.tsv and values.tsv of the round. Out: tables/, figures/ and report.html.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import markupsafe

from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications import records, speedups
from dlperf.analysis.publications.rows import read_beside
from dlperf.analysis.report import (
    captions,
    figures,
    page,
    published_figures,
    published_tables,
    tables,
)
from dlperf.analysis.round.names import SCALING
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, read_table, write_table
from dlperf.analysis.schema.rows import Cell, read_cells
from dlperf.contract.files import write


@dataclass(frozen=True)
class Section:
    """One table with its figures: (name, svg, caption) each."""

    table: tables.Table
    figures: list[tuple[str, markupsafe.Markup, str]]


def replay(folder: Path, published: Path) -> None:
    """Write tables/, figures/ and report.html of the imported round in `folder`.

    `published` has the YAML files of other publications by the same publisher, whose numbers are
    compared with these.
    """
    config = configs.load(folder / "config.yaml")
    for made in ("tables", "figures"):  # there may be nothing to draw, and no more of what was
        shutil.rmtree(folder / made, ignore_errors=True)
        (folder / made).mkdir()
    cells = read_cells(folder / "cells.tsv")
    sections = [_section(folder, name, cells) for name in _tables(cells)]
    sections += [
        _grid(folder, grid, config) for grid in published_tables.grids(folder / "values.tsv")
    ]
    numbers = records.read_round(folder / "runs", config.round)
    listed, counted = _contradictions(config, published)
    content = {
        "config": config,
        "sections": sections,
        "cells": cells,
        "values": read_table(folder / "values.tsv"),
        "sources": _sources(numbers),
        "inferred": _inferred(numbers),
        "contradictions": listed,
        "counted": counted,
        "kinds": speedups.KINDS,
        "style": markupsafe.Markup((tables.TEMPLATES / "style.css").read_text(encoding="utf-8")),
    }
    page = tables.templates().get_template("imported.html.j2").render(content)
    write(folder / "report.html", page)


def _tables(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(row["table"] for row in cells))


def kinds(own: list[Cell]) -> list[str]:
    """The figures of a table, as a measured round has them."""
    several = len({(row["nodes"], row["devices_per_node"]) for row in own}) > 1
    return [own[0]["metric"], *([SCALING] if several else [])]


def _section(folder: Path, name: str, cells: list[Cell]) -> Section:
    own = tables.select(cells, name)
    made = tables.build(name, own)
    _write_table(folder, made)
    write_table(folder / f"tables/{name}.tsv", columns.of_rows(own), own)
    drawn = []
    for kind in kinds(own):
        figure = f"{name}-{kind}"
        files = figures.draw(own, kind, figure)
        _write_figure(folder, figure, files)
        svg = page.inline(files["svg"].decode(), figure, captions.describe(own, kind))
        drawn.append((figure, svg, captions.caption(own, kind)))
    return Section(made, drawn)


def _grid(folder: Path, grid: published_tables.Grid, config: configs.Import) -> Section:
    made = published_tables.table(grid, config)
    _write_table(folder, made)
    rows = [row for own in grid.values.values() for row in own]
    names = [*records.HEAD, *(k for k in grid.varying if k not in records.HEAD), *records.TAIL]
    write_table(folder / f"tables/{grid.name}.tsv", names, rows)
    drawn = []
    if published_figures.drawable(grid):
        files = published_figures.draw(grid, config.title)
        _write_figure(folder, grid.name, files)
        svg = page.inline(files["svg"].decode(), grid.name, f"{grid.title}, as in the table")
        drawn.append((grid.name, svg, f"{grid.title}. Imported, not measured here."))
    return Section(made, drawn)


def _write_table(folder: Path, made: tables.Table) -> None:
    html = tables.templates().get_template("table.html.j2").render(table=made)
    write(folder / f"tables/{made.name}.md", tables.markdown(made))
    write(folder / f"tables/{made.name}.html", html)


def _write_figure(folder: Path, name: str, files: dict[str, bytes]) -> None:
    for kind, content in files.items():
        write(folder / f"figures/{name}.{kind}", content)


def _sources(numbers: Iterable[Row]) -> list[tuple[str, str, int]]:
    """(file, sha256 when it was imported, numbers) of each CSV file, from the records."""
    found: dict[tuple[str, str], int] = {}
    for row in numbers:
        key = row["source_file"], row["source_sha256"]
        found[key] = found.get(key, 0) + 1
    return [(*key, count) for key, count in found.items()]


def _inferred(numbers: Iterable[Row]) -> list[tuple[str, int, list[str]]]:
    """(column, how many numbers, their tables) of what the publication does not print."""
    found: dict[str, list[str]] = {}
    for row in numbers:
        for column in row["inferred"].split():
            found.setdefault(column, []).append(row["published_table"])
    return [(name, len(own), list(dict.fromkeys(own))) for name, own in found.items()]


def _contradictions(config: configs.Import, published: Path) -> tuple[list[dict[str, str]], str]:
    """What is found in this publication, and a sentence on its printed ratios."""
    rows = read_beside(config, published)
    ratios = speedups.ratios(rows)
    own = [
        each
        for each in speedups.contradictions(rows, ratios, published / speedups.KNOWN)
        if each["round"] == config.round
        or (each["round"] == "" and each["publication"] == config.title)
    ]
    of_this = [each for each in ratios if each.row["round"] == config.round]
    return own, speedups.summary(of_this, own)
