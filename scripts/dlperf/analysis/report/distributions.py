"""How latencies are distributed (from latencies.tsv.gz), and how the quality scenario goes: test
score and loss over samples and seconds (from curves.tsv.gz). Both files lie beside cells.tsv.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dlperf import scenarios, workloads
from dlperf.analysis.report.drawing import (
    INK,
    Series,
    canvas,
    line_of,
    marked_line,
    measured,
    plain,
    ring,
    say_nothing,
    whiskers,
)
from dlperf.analysis.round import labels, names, origins
from dlperf.analysis.schema.files import read_table
from dlperf.analysis.schema.rows import Cell, Curve, read_curves, value_of
from dlperf.analysis.statistics.medians import median

#: Of a distribution so many values are drawn, spread evenly, and so many of the largest.
STEPS, TAIL = 200, 20


def latencies(path: Path, rows: Sequence[Cell]) -> dict[str, list[float]]:
    """{framework/case: the milliseconds of all its repetitions, sorted} of these cells."""
    found: dict[str, list[float]] = {place_of(row): [] for row in rows}
    for row in read_table(path):
        if place_of(row) in found:
            found[place_of(row)] += map(float, row["milliseconds"].split())
    return {place: sorted(values) for place, values in found.items()}


def curves(path: Path, rows: Sequence[Cell]) -> dict[str, dict[int, list[Curve]]]:
    """{framework/case: {repetition: its tests, rows of curves.tsv.gz}} of these cells."""
    found: dict[str, dict[int, list[Curve]]] = {place_of(row): {} for row in rows}
    for row in read_curves(path):
        if place_of(row) in found:
            found[place_of(row)].setdefault(row["repetition"], []).append(row)
    return found


def place_of(row: Mapping[str, Any]) -> str:
    return f"{row['workload']}/{row['framework']}/{row['case']}"


def distribution(
    rows: Sequence[Cell], series: Sequence[Series], times: Mapping[str, Sequence[float]]
) -> Figure:
    """For each framework the share of answers over the time that they took at most, as steps."""
    whole = max(3.2, 0.19 * len(series) + 0.6)
    notes = [
        f"Steps: all answers of all repetitions together. Marks: {_marks(rows)}, as in the tables.",
        origins.of(rows).note,
    ]
    made, top, bottom = canvas(rows, names.ECDF, whole, notes)
    room = 0.12 + 0.0076 * max(len(each.title) for each in series)
    axes = made.add_axes((0.075, bottom, 0.985 - 0.075 - room, top - bottom))
    drawn = [each for each in series if times.get(place_of(each.cells[0]))]
    for each in drawn:
        values = times[place_of(each.cells[0])]
        line = {key: line_of(each)[key] for key in ("color", "linestyle", "linewidth")}
        axes.plot(*_steps(values), drawstyle="steps-post", **line)
        ok = measured(each)
        heights = [100 * scenarios.marked(row["scenario"])[row["metric"]] for row in ok]
        marks = {**line_of(each), "linestyle": "none"}
        middles = [row["median"] for row in ok]
        axes.errorbar(middles, heights, xerr=whiskers(ok, "median"), **marks)
        ring(axes, ok, middles, heights)
    if drawn:
        ends = [value for each in drawn for value in _steps(times[place_of(each.cells[0])])[0]]
        if max(ends) > 4 * min(ends):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        handles = [Line2D([], [], label=each.title, **marked_line(each)) for each in drawn]
        axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            frameon=False,
            fontsize=8.5,
        )
    else:
        say_nothing(axes)
        axes.set_xticks([])
    scale = " (log scale)" if axes.get_xscale() == "log" else ""
    axes.set_xlabel(f"latency, {labels.unit(rows[0])}{scale}", size=8.5)
    axes.set_ylabel("answers that took no longer, %", size=8.5)
    axes.set_ylim(0, 103)
    axes.grid()
    return made


def _marks(rows: Sequence[Cell]) -> str:
    """'p50 and p99': the percentiles that any of these cells has."""
    having = dict.fromkeys(row["metric"] for row in rows if row["status"] == "ok")
    return labels.listed([name.rpartition("_")[2] for name in having]) or "none"


def _steps(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """(times, percent of the values up to each), of sorted values: at most STEPS of them.

    The last ones are all there, where a percent is a few values.
    """
    count = len(values)
    ranks = {round((count - 1) * step / STEPS) for step in range(STEPS + 1)}
    ranks |= set(range(max(0, count - TAIL), count))
    there = sorted(ranks)
    percents = [100 * (rank + 1) / count for rank in there]
    return [values[there[0]], *(values[rank] for rank in there)], [0.0, *percents]


def trainings(
    rows: Sequence[Cell],
    series: Sequence[Series],
    points: Mapping[str, Mapping[int, Sequence[Curve]]],
) -> Figure:
    """Test score and loss, over samples and over seconds: a line a seed, and of their medians."""
    notes = [
        "A thin line is a seed; a thick one has, at each test, the medians of their values and "
        "times.",
        "Seconds count from the first sample to the end of a test, tests included. Loss: the mean "
        "of the steps since the test before.",
    ]
    made, top, bottom = canvas(rows, names.CURVE, 5.6, notes)
    room = 0.06 + 0.0076 * max(len(each.title) for each in series)
    width, height = (0.985 - room - 0.075 - 0.05) / 2, (top - bottom) * 0.46
    drawn = [each for each in series if points.get(place_of(each.cells[0]))]
    unit, score = labels.unit_of_samples(rows[0]), workloads.of(rows[0]["workload"]).quality.score
    most = score.most and score.scale * score.most
    of_test = f"{score.name} on the test set, {score.unit}"
    lines = (("score", of_test), ("training_loss", "loss of training"))
    for line, (key, title) in enumerate(lines):
        for column, (over, below) in enumerate((("samples", unit), ("seconds", "seconds"))):
            left = 0.075 + column * (0.05 + width)
            low = bottom + (1 - line) * (top - bottom - height)
            axes = made.add_axes((left, low, width, height))
            for each in drawn:
                _training(axes, line_of(each), points[place_of(each.cells[0])].values(), over, key)
            if not drawn:
                say_nothing(axes)
                axes.set_xticks([])
            axes.set_xlim(left=0)
            axes.set_ylim(0, 1.03 * most if most and key == "score" else None)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(plain))
            axes.grid()
            axes.tick_params(labelleft=not column, labelbottom=bool(line))
            if line:
                axes.set_xlabel(below, size=8.5)
            if not column:
                axes.set_ylabel(title, size=8.5)
            if drawn and key == "score":
                _target(axes, points[place_of(drawn[0].cells[0])], score.unit)
            if column and not line:
                handles = [
                    Line2D([], [], label=each.title, **{**marked_line(each), "marker": "none"})
                    for each in drawn
                ]
                axes.legend(
                    handles=handles,
                    loc="upper left",
                    bbox_to_anchor=(1.01, 1),
                    frameon=False,
                    fontsize=8.5,
                )
    return made


def _training(
    axes: Axes, line: Mapping[str, Any], runs: Iterable[Sequence[Curve]], over: str, key: str
) -> None:
    """The curves of one case: of each seed, and of their medians at each test."""
    own = {"color": line["color"], "linestyle": line["linestyle"]}
    for run in runs:
        axes.plot(
            [value_of(p, over) for p in run],
            [value_of(p, key) for p in run],
            linewidth=0.6,
            alpha=0.45,
            **own,
        )
    tests = list(zip(*runs, strict=True))
    places = [median([value_of(point, over) for point in test]) for test in tests]
    values = [median([value_of(point, key) for point in test]) for test in tests]
    axes.plot(places, values, linewidth=1.8, **own)


def _target(axes: Axes, runs: Mapping[int, Sequence[Curve]], unit: str) -> None:
    """A line at the target."""
    target = next(iter(runs.values()))[0]["target"]
    axes.axhline(target, color=INK, linewidth=1, linestyle=(0, (5, 3)))
    axes.annotate(
        f"target {target:g} {unit}",
        (1, target),
        xycoords=("axes fraction", "data"),
        xytext=(-4, -11),
        textcoords="offset points",
        ha="right",
        size=8,
    )
