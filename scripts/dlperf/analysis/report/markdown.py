"""cells.tsv and measurements.tsv.gz -> tables.md: all tables of a round, ready for a README.

First what won where, then every table of medians as in tables/<table>.md.
"""

from collections.abc import Sequence
from pathlib import Path

from dlperf.analysis.report import tables
from dlperf.analysis.report.summary import Standing, standings
from dlperf.analysis.round import flags, labels, metrics
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell, read_cells, read_measurements
from dlperf.analysis.statistics import ERROR
from dlperf.contract.files import write


def markdown(cells: Path, measurements: Path, out: Path) -> None:
    """Write the tables of the round in one file."""
    measured = read_cells(cells)
    write(out, text(measured, standings(metrics.select(measured), read_measurements(measurements))))


def text(cells: Sequence[Cell], found: Sequence[Standing]) -> str:
    parts = [won(found)] if found else []
    parts += [tables.markdown(tables.build(name, own)) for name, own in metrics.shown(cells)]
    return "\n".join(parts)


def won(found: Sequence[Standing]) -> str:
    """What won where, a line each."""
    head = ["", "best", "its median", "significantly different from", "over the next"]
    head.append("over the last")
    lines = [head, [":---", ":---", "---:", ":---", "---:", "---:"]]
    for each in found:
        row = each.best
        doubt = " (suspect)" if flags.suspect(row) else ""
        interval = f"[{forms.number(row['median_low'])}, {forms.number(row['median_high'])}]"
        told = f"not from {each.tied_with}" if each.tied else "all others"
        lines.append(
            [
                each.where,
                f"{labels.implementation(row)}{doubt}",
                f"{forms.number(row['median'])} {interval} {labels.unit(row)}",
                told,
                f"{each.over_second:.2f} ({each.interval})",
                f"{each.over_last:.2f}",
            ]
        )
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    sure = (
        "If all of a line were equal, a significant difference would still be found with a "
        f"probability of {forms.percent(ERROR)}. The interval over the next excludes 1 where the "
        "two are significantly different."
    )
    return f"### What won where\n\n{body}\n\n{sure}\n"
