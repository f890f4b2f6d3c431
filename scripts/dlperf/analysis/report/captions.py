"""Figures in words: the caption below one, and what it shows for those who do not see it.

In: rows of cells.tsv. Out: text.
"""

from collections.abc import Sequence

from dlperf.analysis.report import tables
from dlperf.analysis.round import flags, labels, names
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.files import Row


def describe(cells: Sequence[Row], kind: str) -> str:
    """What a figure shows, in words, for those who do not see it."""
    parts = []
    for key in labels.series(cells):
        ok = [row for row in cells if labels.series_key(row) == key and row["status"] == "ok"]
        if kind == "throughput":
            said = [
                f"{row['throughput']:.2f} on {labels.short_topology(row)}{_mark(row)}" for row in ok
            ]
        else:
            said = [
                f"{forms.percent(row['efficiency'])} on {labels.short_topology(row)}{_mark(row)}"
                for row in ok
                if row["efficiency"] is not None and labels.devices(row) > 1
            ]
        parts.append(f"{names.series_title(*key)} {', '.join(said) or 'no value'}")
    unit = labels.unit(cells[0])
    what = {
        "throughput": f"Bars of median throughput in {unit}",
        "scaling": f"Curves of throughput in {unit} over devices, and scaling efficiency",
    }[kind]
    return f"{what}: {'; '.join(parts)}."


def _mark(row: Row) -> str:
    return " (not equivalent)" if flags.not_equivalent(row) else ""


def caption(cells: Sequence[Row], kind: str) -> str:
    what = ", ".join([tables.title(cells[0]), *labels.sizes(cells[0])])
    if labels.imported(cells[0]):
        return f"{what}: {kind}. Imported, not measured here; {labels.device(cells[0])}."
    if kind == "throughput":
        return (
            f"{what}: median throughput. Whiskers are the interval of the median "
            f"({labels.interval(cells[0]['n_asked'])})."
        )
    return (
        f"{what}: throughput over devices with the ideal from one device (dotted, both axes "
        "logarithmic), and scaling efficiency with its conservative interval (dashed: ideal)."
    )
