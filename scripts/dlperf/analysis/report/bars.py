"""Medians of a metric as bars with their intervals, a panel for each nodes x devices and layout."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dlperf.analysis.report.drawing import (
    INK,
    MUTED,
    OUTLINE,
    PAPER,
    WIDTH,
    Series,
    axis_title,
    canvas,
    ends_of,
    highest_end,
    pale,
    plain,
)
from dlperf.analysis.round import flags, labels, origins
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell


def medians(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    places = list(dict.fromkeys(map(labels.by_place, rows)))
    places.sort(key=lambda place: place[:3])  # layouts as they come
    across = min(len(places), 2)
    down = -(-len(places) // across)
    panel, gap = 0.27 * len(series) + 0.1, 0.75
    notes = [origins.of(rows).note]
    if len(places) > 1:
        notes.append("Each panel has its own scale.")
    made, top, bottom = canvas(rows, rows[0]["metric"], down * panel + (down - 1) * gap, notes)
    left = (0.25 + 0.075 * max(len(each.title) for each in series)) / WIDTH
    right = 0.985 if highest_end(rows) < 10_000 else 0.968  # the last tick's label may stand out
    made.subplots_adjust(
        left=left, right=right, top=top, bottom=bottom, wspace=0.07, hspace=gap / panel
    )
    for index, place in enumerate(places):
        axes = made.add_subplot(down, across, index + 1)
        own = [row for row in rows if labels.by_place(row) == place]
        _bars(axes, own, series, named=index % across == 0)
        axes.set_title(labels.place(own[0]), loc="left", size=9.5, weight="bold", pad=4)
        axes.set_xlabel(axis_title(rows[0]), size=8.5)
    return made


def _bars(axes: Axes, rows: Sequence[Cell], series: Sequence[Series], named: bool) -> None:
    highest = highest_end(rows)
    whiskers: list[tuple[float, int, float, float]] = []
    for place, each in enumerate(series):
        row = next((row for row in rows if row in each.cells), None)
        if row is None:
            continue
        if row["status"] != "ok":
            text = forms.STATUS[row["status"]]
            axes.text(
                0.012 * highest, place, text, va="center", size=8, style="italic", color=MUTED
            )
            continue
        value, (low, high) = row["median"], ends_of(row)
        hollow = flags.mark(row) != ""
        filled = {
            "facecolor": pale(each.colour) if each.second else each.colour,
            "hatch": each.hatch,
            "hatchcolor": (PAPER, 0.75),
            "linewidth": 0,
        }
        style = {"edgecolor": each.colour, **OUTLINE} if hollow else filled
        # barh and errorbar take ten times as long for each bar as their artists do
        axes.add_patch(Rectangle((0, place - 0.36), value, 0.72, **style))
        if row["median_low"] is not None:
            whiskers.append((value, place, value - low, high - value))
        some = f"  ({row['n_ok']}/{row['n_asked']})" if row["n_ok"] < row["n_asked"] else ""
        axes.text(
            high + 0.015 * highest, place, f"{forms.number(value)}{some}", va="center", size=8
        )
    if whiskers:
        values, places, below, above = zip(*whiskers, strict=True)
        axes.errorbar(
            values,
            places,
            xerr=(below, above),
            color=INK,
            linestyle="none",
            elinewidth=1.1,
            capsize=2.6,
            capthick=1.1,
        )
    if rows[0].get("over"):
        axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (5, 3)))
    axes.set_xlim(0, 1.22 * highest)
    axes.set_ylim(len(series) - 0.45, -0.55)
    axes.set_yticks(range(len(series)), [each.title for each in series] if named else [])
    axes.tick_params(axis="y", length=0)
    if any(row["status"] == "ok" for row in rows):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
    else:
        axes.set_xticks([])
    axes.grid(axis="x")
    axes.spines["left"].set_color(INK)
