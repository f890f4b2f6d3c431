"""Who measured the cells of a table, in the words of tables, captions and figures.

In: rows of cells.tsv, of one table. Out: what is said of numbers that were measured here, or of
imported ones. Nothing else asks which they are: what differs otherwise are columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dlperf.analysis.round import labels, metrics, names
from dlperf.analysis.schema import forms

Rows = Sequence[Mapping[str, Any]]

IMPORTED = "imported, not measured here"
NO_INTERVAL = "interval: none, as each value is one published number"
NO_CERTIFICATE = "certificate of equal work: none"


class Origin(NamedTuple):
    """Lines above a table, the first and the last of them; what is said below its figures."""

    first: list[str]
    last: list[str]
    note: str
    bars: str
    scaling: str


def of(cells: Rows) -> Origin:
    if cells[0].get("kind") == "imported":
        return _imported(cells)
    return _ratios(cells) if cells[0].get("over") else _measured(cells)


def _measured(cells: Rows) -> Origin:
    row, title = cells[0], metrics.of_row(cells[0]).title.lower()
    many, interval = labels.plural(row["n_asked"], "repetition"), labels.interval(row["n_asked"])
    what = {"infer": "batches", "server": "requests"}.get(row["scenario"], "steps")
    steps = f"{row['measured_steps']} {what} after {row['warmup_steps']} of warm-up"
    if least := row.get("minimum_seconds"):
        steps = f"at least {steps}, for about {least:g} s or more"
    fewer = any(row["n_ok"] < row["n_asked"] for row in cells if row["status"] == "ok")
    return Origin(
        first=[],
        last=[f"median of {many} of {steps}", f"interval: {interval}"],
        note=f"Median of {many}; whiskers: {interval}."
        + (" Some have fewer ok: see the table." if fewer else ""),
        bars=f"median {title}. Whiskers are the interval of the median ({interval}).",
        scaling=f"{title} over devices with the ideal from one device (dotted, both axes "
        "logarithmic), and scaling efficiency with its conservative interval (dashed: ideal).",
    )


def _ratios(cells: Rows) -> Origin:
    """Of a table of one precision over another."""
    row, title = cells[0], metrics.of_row(cells[0]).title.lower()
    medians = f"medians of {labels.plural(row['n_asked'], 'repetition')}"
    coverages = [row["coverage"] for row in cells if row["status"] == "ok"]
    sure = f", with a coverage of at least {forms.percent(min(coverages))}" if coverages else ""
    interval = f"conservative, from those of both medians{sure}"
    return Origin(
        first=[],
        last=[f"each is the ratio of two {medians}", f"interval: {interval}"],
        note=f"Ratio of two {medians}; whiskers: the interval, {interval}.",
        bars=f"ratio of the median {title}. Whiskers are the interval ({interval}).",
        scaling="",
    )


def _imported(cells: Rows) -> Origin:
    headings, estimators = (
        list(dict.fromkeys(row[key] for row in cells if row.get(key)))
        for key in ("published_table", "estimator")
    )
    how = labels.listed(estimators) or "how it was computed is not known"
    interval = _interval({row["n_ok"] for row in cells if row["n_ok"]})
    said = f"{IMPORTED.capitalize()}; {labels.device(cells[0])}."
    spread = labels.ways(cells[0])
    return Origin(
        first=[IMPORTED],
        last=[
            *([f"layout: {spread}"] if spread else []),
            *filter(None, [labels.micro_steps(cells)]),
            *([f"published as: {'; '.join(headings)}"] if headings else []),
            f"{how}; {interval}",
            NO_CERTIFICATE,
        ],
        note=f"{IMPORTED.capitalize()}. {interval.capitalize()}.",
        bars=f"{cells[0]['metric']}. {said}",
        scaling=f"{names.SCALING}. {said}",
    )


def _interval(counts: set[int]) -> str:
    several = sorted(counts - {1})
    if not several:
        return NO_INTERVAL
    said = labels.interval(several[0]) if len(several) == 1 else "of each cell's own repetitions"
    return f"interval: {said}" + ("; none where there is one number" if 1 in counts else "")
