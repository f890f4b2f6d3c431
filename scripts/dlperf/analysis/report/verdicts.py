"""Rows of beside.tsv, of one publication or round -> what the report says of them, and a figure,
with a file of its own for each of them.

A verdict stands in words and with a sign; what was not tested has no ratio, as that would say
something.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlperf import scenarios
from dlperf.analysis.report import published_tables
from dlperf.analysis.round import flags, labels, names
from dlperf.analysis.round.verdicts import (
    FASTER,
    LESS,
    MORE,
    NO_COUNTERPART,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    SLOWER,
    TESTED,
    UNDECIDED,
    VERDICTS,
)
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Beside, value_of

SIGNS = {REPRODUCED: "✓", FASTER: "▲", SLOWER: "▼", LESS: "−", MORE: "+"}
SIGNS |= {NOT_REPRODUCED: "≠", UNDECIDED: "?"}
#: Inches of a figure: of a row, above the rows, and below them.
ROW, ABOVE, BELOW = 0.27, 0.82, 0.62
#: Ratios beyond these are off the figure, which says so by an arrow.
LEAST, MOST = 0.25, 4.0


#: In a figure of no row.
NOTHING = "no cell is testable: the report and beside.tsv say why"


@dataclass(frozen=True)
class Line:
    """One row for readers."""

    cell: str
    what: str
    where: str
    there: str
    whose: str
    here: str
    ratio: str
    interval: str
    verdict: str
    sign: str
    notes: list[str]


@dataclass(frozen=True)
class Verdicts:
    """All of one publication or round. `shared`: reasons that hold for all that is not testable."""

    summary: list[str]
    tested: list[Line]
    untested: list[Line]
    shared: list[str]
    meanings: list[tuple[str, str]]


def verdicts(rows: Sequence[Beside], margin: float, title: str) -> Verdicts:
    tested = [row for row in rows if row["verdict"] in TESTED]
    untested = [row for row in rows if row["verdict"] == NOT_TESTABLE]
    what = _what([*tested, *untested])
    reasons = [_parts(row["reason"]) for row in untested]
    shared = [each for each in reasons[0] if all(each in own for own in reasons)] if reasons else []
    shared = shared if len(untested) > 1 else []
    within = forms.percent(margin)
    found = Counter(row["verdict"] for row in rows)
    return Verdicts(
        summary(rows, title),
        [_line(row, [*_parts(row["differs"]), *_flags(row)], what(row)) for row in tested],
        [
            _line(row, [each for each in own if each not in shared], what(row))
            for row, own in zip(untested, reasons, strict=True)
        ],
        shared,
        [(name, VERDICTS[name].format(margin=within)) for name in TESTED if found[name]],
    )


def summary(rows: Sequence[Beside], title: str) -> list[str]:
    """'DLPerf v1.0 has 96 cells, and 8 of them have a counterpart here: 8 not testable.' …"""
    counts = Counter(row["verdict"] for row in rows)
    matched = len(rows) - counts[NO_COUNTERPART]
    named = [verdict for verdict in VERDICTS if counts[verdict] and verdict != NO_COUNTERPART]
    said = [f"{counts[verdict]} {verdict}" for verdict in named]
    many = labels.plural(len(rows), "cell")
    share = "none" if not matched else "all" if matched == len(rows) else str(matched)
    which = "it" if len(rows) == matched == 1 else f"{share} of them"
    verb = "has" if matched < 2 else "have"
    found = [
        f"{title} has {many}, and {which} {verb} a counterpart here"
        f"{': ' if said else ''}{labels.listed(said)}."
    ]
    if lacking := counts[NO_COUNTERPART]:
        which = f"The other {labels.plural(lacking, 'cell')}" if matched else "All of them"
        verb = "is" if matched and lacking == 1 else "are"
        found.append(
            f"{which} {verb} of a workload, framework, scenario, precision, topology, layout or "
            "variant of the model that was not measured here."
        )
    return found


def _parts(text: str) -> list[str]:
    return [each for each in (text or "").split("; ") if each]


def _flags(row: Beside) -> list[str]:
    """Flags of both cells, which exclude nothing: those that do are reasons."""
    found = []
    for name, where in (("flags", "here"), ("baseline_flags", "there")):
        for flag in (value_of(row, name) or "").split():
            try:
                found.append(f"{flags.flag(flag)} ({where})")
            except KeyError:  # of another version
                found.append(f"{flag} ({where})")
    return found


def _line(row: Beside, notes: list[str], what: str) -> Line:
    unit = f" {row['unit']}".rstrip()
    ratio = row["ratio"]
    return Line(
        cell=names.series_title(row["framework"], row["compiler"]),
        what=what,
        where=labels.where(_of_ours(row)),
        there=_value(row["baseline_median"], unit, row["baseline_n_ok"]),
        whose=row["implementation"],
        here=_value(row["median"], unit, row["n_ok"]),
        ratio="" if ratio is None else f"{ratio:.3f}",
        interval="" if ratio is None else _interval(row),
        verdict=row["verdict"],
        sign=SIGNS.get(row["verdict"], "–"),
        notes=notes,
    )


def _of_ours(row: Beside) -> Mapping[str, Any]:
    """The row as one of a measured cell: a publication says its layout elsewhere."""
    return {key: value for key, value in row.items() if key != "estimator"}


def _what(rows: Sequence[Beside]) -> Callable[[Beside], str]:
    """What a row is of among these, as 'inference, latency p99': what all share is left out."""
    several = {
        said: len({said(row) for row in rows}) > 1
        for said in (labels.workload, labels.scenario, _metric)
    }

    def what(row: Beside) -> str:
        return ", ".join(said(row) for said, varies in several.items() if varies)

    return what


def _name(row: Beside, what: str) -> str:
    """'PyTorch, inference, latency p99  fp32 b8 1n1d'."""
    parts = [names.series_title(row["framework"], row["compiler"]), what]
    return f"{', '.join(filter(None, parts))}  {labels.where(_of_ours(row))}"


def _metric(row: Mapping[str, Any]) -> str:
    """'latency p99'; of what is not measured here, the publication's name."""
    known = scenarios.metrics(row["scenario"]).get(row["metric"])
    if not known:
        return published_tables.metric(row)
    return str(known.of(row["workload"]).title).lower().replace(", ", " ")


def _value(value: float | None, unit: str, count: int | None) -> str:
    if value is None:
        return "none"
    return f"{forms.number(value)}{unit}" + (f" ({count})" if count and count > 1 else "")


def _interval(row: Beside) -> str:
    low, high = row["ratio_low"], row["ratio_high"]
    return f"{low:.3f} to {high:.3f}" if low > 0 and math.isfinite(high) else "unbounded"


def describe(rows: Sequence[Beside]) -> str:
    """The figure in words."""
    what = _what(rows)
    said = [
        f"{_name(row, what(row))} {row['ratio']:.3f} ({_interval(row)}), {row['verdict']}"
        for row in rows
    ]
    return f"Ratios of what was measured here to their figures, with intervals: {'; '.join(said)}."


def draw(
    rows: Sequence[Beside], margin: float, title: str, name: str, wanted: Sequence[str]
) -> dict[str, bytes]:
    """The figure of the tested `rows` as {"svg": …, …}: a ratio a row, and the margin as a band.
    Where there are none, the figure says so."""
    from dlperf.analysis.report import drawing  # Matplotlib takes as long as the rest of the page

    return drawing.rendered(lambda: _figure(rows, margin, title), name, title, wanted)


def _figure(rows: Sequence[Beside], margin: float, title: str) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    from dlperf.analysis.report import drawing
    from dlperf.analysis.report.styles import STYLES

    height = ABOVE + ROW * (len(rows) + 0.4) + BELOW
    made = Figure(figsize=(drawing.WIDTH, height), facecolor=drawing.PAPER)
    made.text(0.012, 1 - 0.24 / height, f"Beside {title}", size=13, weight="bold", va="center")
    text = f"here ÷ there, with the interval that decides; band: {forms.percent(margin)} either way"
    made.text(0.012, 1 - 0.49 / height, text, size=9, color=drawing.MUTED, va="center")
    if not rows:
        made.text(0.5, 0.4, NOTHING, size=10, style="italic", color=drawing.MUTED, ha="center")
        return made
    what = _what(rows)
    named = [_name(row, what(row)) for row in rows]
    left = min(0.55, (0.3 + 0.072 * max(map(len, named))) / drawing.WIDTH)
    right = 1 - 1.25 / drawing.WIDTH
    size = (left, BELOW / height, right - left, 1 - (ABOVE + BELOW) / height)
    axes = made.add_axes(size)
    low, high = _range(rows, margin)
    axes.axvspan(max(1 - margin, low), min(1 + margin, high), color=drawing.GRID, linewidth=0)
    axes.axvline(1, color=drawing.MUTED, linewidth=0.9)
    for place, row in enumerate(rows):
        colour, marker, _ = STYLES.get(row["framework"], STYLES["hugectr"])
        ends = max(row["ratio_low"], low), min(row["ratio_high"], high)
        axes.plot(ends, [place, place], color=colour, linewidth=1.5, solid_capstyle="butt")
        for end, wanted, arrow in zip(
            ends, (row["ratio_low"], row["ratio_high"]), "<>", strict=True
        ):
            axes.plot([end], [place], marker="|" if end == wanted else arrow, color=colour)
        if low <= row["ratio"] <= high:
            axes.plot([row["ratio"]], [place], marker=marker, markersize=6.5, color=colour)
        verdict = f"{row['verdict']}"
        axes.text(
            1.015, place, verdict, transform=axes.get_yaxis_transform(), va="center", size=8.5
        )
    axes.set_xlim(low, high)
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.set_yticks(range(len(rows)), named, size=8.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(drawing.plain))
    axes.set_xlabel(_axis_title(rows), size=8.5)
    axes.grid(axis="x")
    return made


def _axis_title(rows: Sequence[Beside]) -> str:
    if all(row["better"] == "higher" for row in rows):
        return "speed here ÷ there"
    if all(row["better"] == "lower" for row in rows):
        return "value here ÷ there (lower is better)"
    return "value here ÷ there (of a latency or memory, lower is better)"


def _range(rows: Sequence[Beside], margin: float) -> tuple[float, float]:
    """The ends of the axis: all intervals and the margin, within LEAST and MOST."""
    room = 0.5 * margin
    lows = [row["ratio_low"] for row in rows if row["ratio_low"] > 0]
    highs = [row["ratio_high"] for row in rows if row["ratio_high"] < float("inf")]
    ratios = [row["ratio"] for row in rows]
    low = min([*lows, *ratios, 1 - margin]) - room
    high = max([*highs, *ratios, 1 + margin]) + room
    return max(low, LEAST), min(high, MOST)
