"""What each round plans, and what it cannot, as tables: of the tests, and of the documentation.

    PYTHONPATH=scripts:tests/support python -m round_tables

writes tests/unit/plan/rounds.tsv and the tables of docs/published-rounds.md anew. Read their
changes line by line: a case that becomes unsupported is one that operators no longer measure.
"""

import csv
import re
from collections import Counter
from pathlib import Path

from published_cells import PUBLICATIONS, cells
from round_files import ROOT, ROUNDS

from dlperf import frameworks
from dlperf.analysis.publications import config as publications
from dlperf.plan import expand, load

ROWS = ROOT / "tests/unit/plan/rounds.tsv"
NOT_PLANNED = ROOT / "tests/unit/plan/not_planned.tsv"
DOCUMENT = ROOT / "docs/published-rounds.md"
COLUMNS = ("round", "framework", "cases", "unsupported")


def planned(paths: tuple[Path, ...]) -> list[dict[str, str]]:
    """A row for each framework and each reason; those of cases that run have none."""
    config = load(paths)
    found = Counter((case.framework, case.unsupported) for case in expand(config))
    return [
        dict(zip(COLUMNS, (config.round, framework, str(count), reason), strict=True))
        for (framework, reason), count in sorted(found.items())
    ]


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def with_tables(text: str) -> str:
    """The document with its tables made anew."""
    rows = [row for paths in ROUNDS for row in planned(paths)]
    reasons = list(dict.fromkeys(row["unsupported"] for row in rows if row["unsupported"]))
    tables = {"rounds": _rounds(rows, reasons), "reasons": _reasons(reasons), "cells": _cells()}
    for name, lines in tables.items():
        pattern = rf"(<!-- {name}[^>]*-->\n).*?(<!-- end of {name} -->)"
        made = "".join(f"{line}\n" for line in lines)
        text, count = re.subn(pattern, lambda m, made=made: m[1] + made + m[2], text, flags=re.S)
        assert count == 1, name
    return text


def _rounds(rows: list[dict[str, str]], reasons: list[str]) -> list[str]:
    """A row a round: its files, what it is held against, its cases."""
    found = [
        "| files in `config/` | beside | cases | unsupported | of these |",
        "|---|---|---|---|---|",
    ]
    for paths in ROUNDS:
        config = load(paths)
        own = [row for row in rows if row["round"] == config.round]
        refused = [row for row in own if row["unsupported"]]
        found.append(
            "| "
            + " | ".join(
                (
                    " + ".join(f"`{path.relative_to(ROOT / 'config')}`" for path in paths),
                    ", ".join(config.beside),
                    f"{sum(int(row['cases']) for row in own):,}",
                    f"{sum(int(row['cases']) for row in refused):,}",
                    ", ".join(
                        f"{row['framework']} {row['cases']} "
                        f"[{reasons.index(row['unsupported']) + 1}]"
                        for row in refused
                    ),
                )
            )
            + " |"
        )
    return [re.sub(r" +\|", " |", line) for line in found]


def _reasons(reasons: list[str]) -> list[str]:
    return [f"{number}. {reason}" for number, reason in enumerate(reasons, start=1)]


def _cells() -> list[str]:
    """A row a publication: how many cells are planned, and why others are not."""
    found = ["| publication | cells | planned | others |", "|---|---|---|---|"]
    for publication in PUBLICATIONS:
        others = [row for row in read(NOT_PLANNED) if row["publication"] == publication.stem]
        count = len(cells(publication))
        missing = sum(int(row["cells"]) for row in others)
        said = [
            f"{row['cells']} of {frameworks.of(row['framework']).title}: {row['reason']}"
            for row in others
        ]
        title = publications.load(publication).title
        found.append(
            f"| `{publication.stem}` ({title}) | {count} | {count - missing} | {'; '.join(said)} |"
        )
    return [re.sub(r" +\|", " |", line) for line in found]


def main() -> None:
    with open(ROWS, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for paths in ROUNDS for row in planned(paths))
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
