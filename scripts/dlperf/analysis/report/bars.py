"""Medians as bars with their intervals: of a metric, a panel for each nodes x devices and layout;
or of step time and memory, a bar for each layout on the same devices.
"""

from collections.abc import Sequence
from dataclasses import replace

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
    unit_title,
)
from dlperf.analysis.round import flags, labels, metrics, names, origins
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell
from dlperf.workloads.cases import case_of_row


def medians(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    places = list(dict.fromkeys(map(labels.by_place, rows)))
    places.sort(key=lambda place: place[:3])  # layouts as they come
    across = min(len(places), 2)
    # a line of panels has the series of which one of them has a bar
    lines = [places[start : start + across] for start in range(0, len(places), across)]
    there = [[row for row in rows if labels.by_place(row) in line] for line in lines]
    named = [[each for each in series if any(row in each.cells for row in own)] for own in there]
    heights, gap = [0.27 * len(each) + 0.1 for each in named], 0.75
    notes = [origins.of(rows).note]
    if len(places) > 1:
        notes.append("Each panel has its own scale.")
    whole = sum(heights) + gap * (len(lines) - 1)
    made, top, bottom = canvas(rows, rows[0]["metric"], whole, notes)
    left = (0.25 + 0.075 * max(len(each.title) for each in series)) / WIDTH
    right = 0.985 if highest_end(rows) < 10_000 else 0.968  # the last tick's label may stand out
    grid = made.add_gridspec(
        len(lines),
        across,
        height_ratios=heights,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        wspace=0.07,
        hspace=gap / (sum(heights) / len(heights)),
    )
    for down, (line, shown) in enumerate(zip(lines, named, strict=True)):
        for index, place in enumerate(line):
            axes = made.add_subplot(grid[down, index])
            own = [row for row in rows if labels.by_place(row) == place]
            _bars(axes, own, shown, named=not index)
            axes.set_title(labels.place(own[0]), loc="left", size=9.5, weight="bold", pad=4)
            axes.set_xlabel(axis_title(rows[0]), size=8.5)
    return made


def layouts(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    """Left the step time, right the memory: a panel for each topology, a bar for each layout."""
    topologies = list(dict.fromkeys((row["nodes"], row["devices_per_node"]) for row in rows))
    topologies.sort(key=lambda topology: (topology[0] * topology[1], topology))
    panels = [
        [row for row in rows if (row["nodes"], row["devices_per_node"]) == topology]
        for topology in topologies
    ]
    bars = [len({(labels.layout(row), *labels.series_key(row)) for row in own}) for own in panels]
    heights, gap = [0.27 * count + 0.1 for count in bars], 0.85
    notes = [origins.of(rows).note, "Memory: of the rank that takes most."]
    whole = sum(heights) + gap * (len(panels) - 1)
    made, top, bottom = canvas(rows, names.LAYOUTS, whole, notes)
    named = [_layout_title(row, own) for own in panels for row in own]
    left = (0.25 + 0.066 * max(map(len, named))) / WIDTH
    width, inch = (0.985 - left - 0.03) / 2, (top - bottom) / whole
    ceiling = top
    for own, height in zip(panels, heights, strict=True):
        for index, metric in enumerate(metrics.OVER_LAYOUTS):
            place = (left + index * (width + 0.03), ceiling - height * inch, width, height * inch)
            axes = made.add_axes(place)
            shown = [row for row in own if row["metric"] == metric]
            _bars_of_layouts(axes, shown, series, named=not index)
            where = f"{shown[0]['nodes']}n{shown[0]['devices_per_node']}d"
            title = f"{where}, {metrics.of_row(shown[0]).title.lower()}"
            axes.set_title(title, loc="left", size=9.5, weight="bold", pad=4)
            axes.set_xlabel(unit_title(shown[0]), size=8.5)
        ceiling -= (height + gap) * inch
    return made


def _layout_title(row: Cell, rows: Sequence[Cell]) -> str:
    """'PyTorch, tp2'; with the global batch where that is not the same in all rows."""
    alone = "data parallel" if labels.devices(row) > 1 else "standard"
    said = [labels.implementation(row), labels.layout(row) or alone]
    batches = {case_of_row(each).global_batch_size for each in rows}
    if len(batches) > 1:
        said.append(f"batch {case_of_row(row).global_batch_size:,}")
    return ", ".join(said)


def _bars_of_layouts(
    axes: Axes, rows: Sequence[Cell], series: Sequence[Series], named: bool
) -> None:
    """A bar for each layout and series, those of one layout together."""
    order = list(dict.fromkeys(map(labels.layout, rows)))
    keys = [labels.series_key(each.cells[0]) for each in series]
    ordered = sorted(
        rows,
        key=lambda row: (order.index(labels.layout(row)), keys.index(labels.series_key(row))),
    )
    own = [replace(series[keys.index(labels.series_key(row))], cells=[row]) for row in ordered]
    _bars(axes, ordered, own, named=False)
    if named:
        axes.set_yticks(range(len(ordered)), [_layout_title(row, rows) for row in ordered])


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
