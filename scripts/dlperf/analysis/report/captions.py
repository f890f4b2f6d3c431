"""Figures in words: the caption below one, and what it shows for those who do not see it.

In: rows of cells.tsv. Out: text.
"""

from collections.abc import Sequence

from dlperf import workloads
from dlperf.analysis.report import tables
from dlperf.analysis.round import flags, labels, metrics, names, origins
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell


def describe(cells: Sequence[Cell], kind: str) -> str:
    """What a figure shows, in words, for those who do not see it."""
    if kind == names.BATCHES:
        return _over_batches(cells)
    if kind == names.ECDF:
        return _distribution(cells)
    if kind == names.CURVE:
        name = workloads.of(cells[0]["workload"]).quality.score.name
        return f"Curves of {name} over samples and over seconds. At the end: {_ends(cells)}."
    if kind == names.LAYOUTS:
        return f"Bars of step time and of memory for each layout: {_of_layouts(cells)}."
    parts = []
    for key in labels.series(cells):
        ok = [row for row in cells if labels.series_key(row) == key and row["status"] == "ok"]
        if kind != names.SCALING:
            said = [
                f"{forms.number(row['median'])} on {labels.short_place(row)}{_mark(row)}"
                for row in ok
            ]
        else:
            said = [
                f"{forms.percent(row['efficiency'])} on {labels.short_place(row)}{_mark(row)}"
                for row in ok
                if row["efficiency"] is not None and labels.is_scaled(row)
            ]
        parts.append(f"{names.series_title(*key)} {', '.join(said) or 'no value'}")
    title, unit = metrics.of_row(cells[0]).title.lower(), labels.unit(cells[0])
    what = f"Bars of median {title} in {unit}"
    if kind == names.SCALING:
        what = f"Curves of {title} in {unit} over devices, and scaling efficiency"
    return f"{what}: {'; '.join(parts)}."


def _over_batches(cells: Sequence[Cell]) -> str:
    parts = []
    for key in labels.series(cells):
        own = [row for row in cells if labels.series_key(row) == key and row["status"] == "ok"]
        said = [
            f"{forms.number(row['median'])} {labels.unit(row)} at batch {row['batch_size']}"
            + _mark(row)
            for row in own
        ]
        parts.append(f"{names.series_title(*key)} {', '.join(said) or 'no value'}")
    return f"Curves of throughput and of median latency over batch sizes: {'; '.join(parts)}."


def _of_layouts(cells: Sequence[Cell]) -> str:
    return "; ".join(
        f"{labels.implementation(row)} on {labels.place(row)}: {metrics.of_row(row).title.lower()} "
        f"{forms.number(row['median'])} {labels.unit(row)}{_mark(row)}"
        for row in cells
        if row["status"] == "ok"
    )


def _ends(cells: Sequence[Cell]) -> str:
    return "; ".join(
        f"{labels.implementation(row)} {forms.number(row['median'])} {labels.unit(row)}{_mark(row)}"
        if row["status"] == "ok"
        else f"{labels.implementation(row)} no value"
        for row in cells
    )


def _distribution(cells: Sequence[Cell]) -> str:
    parts = []
    for key in labels.series(cells):
        own = [row for row in cells if labels.series_key(row) == key and row["status"] == "ok"]
        said = [
            f"{metrics.of_row(row).title.rpartition(' ')[2]} {forms.number(row['median'])}"
            f" {labels.unit(row)}{_mark(row)}"
            for row in own
        ]
        parts.append(f"{names.series_title(*key)} {', '.join(said) or 'no value'}")
    return f"Curves of the share of answers over latency: {'; '.join(parts)}."


def _mark(row: Cell) -> str:
    return f" ({mark})" if (mark := flags.mark(row)) else ""


def caption(cells: Sequence[Cell], kind: str) -> str:
    origin = origins.of(cells)
    if kind == names.BATCHES:
        row = cells[0]
        parts = [f"{labels.workload(row)} {labels.scenario(row)}", row["precision"]]
        return f"{', '.join([*parts, *labels.sizes(row)])}: over batch sizes. {origin.bars}"
    if kind == names.ECDF:
        what = ", ".join([tables.of_case(cells[0]), *labels.sizes(cells[0])])
        return (
            f"{what}: the share of answers that took no longer, of all repetitions together "
            f"(empirical distribution). Marks: p50 and p99 as in the tables, each the {origin.bars}"
        )
    if kind == names.CURVE:
        name = workloads.of(cells[0]["workload"]).quality.score.name
        what = ", ".join([tables.of_case(cells[0]), *labels.sizes(cells[0])])
        return (
            f"{what}: {name} on the test set over the samples trained on, and over seconds (with "
            "the tests). A thin line is a repetition, which is a seed; a thick one their median."
        )
    if kind == names.LAYOUTS:
        what = ", ".join([tables.of_case(cells[0]), *labels.sizes(cells[0])])
        return (
            f"{what}: how a model is spread over the same devices, and what that takes: median "
            "step time, and memory of the rank that takes most. Whiskers are the interval of the "
            f"median ({labels.interval(cells[0]['n_asked'])})."
        )
    what = ", ".join([tables.title(cells[0]), *labels.sizes(cells[0])])
    if kind != names.SCALING:
        return f"{what}: {origin.bars}"
    return f"{what}: {origin.scaling}{_other_baselines(cells)}"


def _other_baselines(cells: Sequence[Cell]) -> str:
    """Whose efficiency is over a baseline that is another program."""
    unlike = [row for row in cells if flags.OTHER_BASELINE in (row["flags"] or "").split()]
    named = dict.fromkeys(names.series_title(*labels.series_key(row)) for row in unlike)
    return f" {labels.listed(list(named))}: {flags.FLAGS[flags.OTHER_BASELINE]}." if named else ""
