"""Throughput and scaling efficiency over devices, with the ideal, a line for each layout; and
throughput and latency of inference over batch sizes.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dlperf.analysis.report.drawing import (
    INK,
    MUTED,
    Series,
    axis_title,
    canvas,
    ends_of,
    highest_end,
    line_of,
    measured,
    name_ends,
    plain,
    ring,
    say_nothing,
    whiskers,
)
from dlperf.analysis.round import flags, labels, metrics, names, origins
from dlperf.analysis.schema.rows import Cell


def scaling(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    notes = [origins.of(rows).note, "Dotted and dashed lines: ideal scaling from 1 device."]
    whole = max(2.9, 0.19 * len(series) + 0.6)
    made, top, bottom = canvas(rows, names.SCALING, whole, notes, 0.74)
    left = 0.075 if highest_end(rows) < 10_000 else 0.09  # five digits and a comma
    made.subplots_adjust(left=left, right=0.985, top=top, bottom=bottom)
    names_room = 0.055 + 0.0076 * max(len(each.title) for each in series)
    middle = left + (0.985 - left - 0.075 - names_room) * 0.5
    speeds = made.add_axes((left, bottom, middle - left, top - bottom))
    start = middle + names_room + 0.075
    shares = made.add_axes((start, bottom, 0.985 - start, top - bottom))
    _speeds(speeds, whole, series, rows)
    _efficiencies(shares, series, rows)
    speeds.set_title(metrics.of_row(rows[0]).title, loc="left", size=9.5, weight="bold", pad=4)
    shares.set_title("Scaling efficiency", loc="left", size=9.5, weight="bold", pad=4)
    return made


def _speeds(axes: Axes, height: float, series: Sequence[Series], rows: Sequence[Cell]) -> None:
    counts = _device_axis(axes, rows)
    axes.set_yscale("log")
    ends = []
    for each in series:
        ok = measured(each)
        if not ok:
            continue
        single = [row for row in ok if labels.devices(row) == 1 and not flags.excluding(row)]
        if single:
            base = single[0]["median"]
            ideal = [base * count for count in counts]
            axes.plot(counts, ideal, color=each.colour, linewidth=0.9, linestyle=":", alpha=0.7)
        xs, ys = [labels.devices(row) for row in ok], [row["median"] for row in ok]
        axes.errorbar(
            xs,
            ys,
            yerr=whiskers(ok, "median"),
            **line_of(each),
        )
        ring(axes, ok, xs, ys)
        ends.append((each, labels.devices(ok[-1]), ok[-1]["median"]))
    axes.set_ylabel(f"{axis_title(rows[0])} (log scale)", size=8.5)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")
    if ends:
        name_ends(axes, height, ends)
    else:
        say_nothing(axes)


def _efficiencies(axes: Axes, series: Sequence[Series], rows: Sequence[Cell]) -> None:
    counts = sorted({labels.devices(row) for row in rows})
    places = {count: place for place, count in enumerate(counts)}
    drawn = [
        each
        for each in series
        if any(labels.is_scaled(row) for row in measured(each, "efficiency"))
    ]
    axes.axhline(100, color=INK, linewidth=1, linestyle=(0, (5, 3)))
    axes.set_xlabel("devices", size=8.5)
    axes.set_ylabel("scaling efficiency, %", size=8.5)
    axes.grid(axis="y")
    if not drawn:
        say_nothing(axes)
        axes.set_ylim(80, 104)
        axes.set_xticks([])
        return
    lows = [100.0]
    for index, each in enumerate(drawn):
        shift = 0.62 * ((index + 0.5) / len(drawn) - 0.5)
        ok = [row for row in measured(each, "efficiency") if labels.is_scaled(row)]
        values = [100 * row["efficiency"] for row in ok]
        lows += [100 * ends_of(row, "efficiency")[0] for row in ok]
        xs = [places[labels.devices(row)] + shift for row in ok]
        axes.errorbar(
            xs,
            values,
            yerr=whiskers(ok, "efficiency", 100),
            **{**line_of(each), "linewidth": 0.7 if len(ok) > 1 else 0},
        )
        ring(axes, ok, xs, values)
    shown = [count for count in counts if count > 1]
    axes.set_xticks([places[count] for count in shown], _device_labels(rows, shown))
    axes.set_xlim(places[shown[0]] - 0.5, places[shown[-1]] + 0.5)
    bottom = min(lows)
    axes.set_ylim(top=max(axes.get_ylim()[1], 100 + 0.08 * (100 - bottom) + 0.5))
    axes.text(
        0.995,
        100,
        "ideal",
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="bottom",
        size=8,
        color=MUTED,
    )
    axes.yaxis.set_major_locator(MaxNLocator(7))


def _device_axis(axes: Axes, rows: Sequence[Cell]) -> list[int]:
    counts = sorted({labels.devices(row) for row in rows})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(counts, _device_labels(rows, counts))
    axes.set_xlim(counts[0] / 1.12, counts[-1] * 1.12)
    axes.set_xlabel("devices", size=8.5)
    return counts


def _device_labels(rows: Sequence[Cell], counts: Sequence[int]) -> list[str]:
    """'8' and below it the topologies that have so many devices."""
    found = []
    for count in counts:
        own = dict.fromkeys(
            labels.short_topology(row) for row in rows if labels.devices(row) == count
        )
        found.append(f"{count}\n{', '.join(own)}")
    return found


def batches(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    whole = max(2.9, 0.19 * len(series) + 0.6)
    made, top, bottom = canvas(rows, names.BATCHES, whole, [origins.of(rows).note], 0.74)
    room = 0.07 + 0.0076 * max(len(each.title) for each in series)
    middle = 0.075 + (0.985 - 0.075 - 0.085 - room) / 2
    for index, metric in enumerate(metrics.OVER_BATCHES):
        start = 0.075 if index == 0 else middle + 0.085
        axes = made.add_axes((start, bottom, middle - 0.075, top - bottom))
        own = [row for row in rows if row["metric"] == metric]
        _over_batches(axes, series, own, whole if index == 1 else 0)
        axes.set_title(metrics.of_row(own[0]).title, loc="left", size=9.5, weight="bold", pad=4)
    return made


def _over_batches(
    axes: Axes, series: Sequence[Series], rows: Sequence[Cell], height: float
) -> None:
    """One metric over batch sizes; with a height, in inches, the series are named beside."""
    sizes = sorted({row["batch_size"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlim(sizes[0] / 1.12, sizes[-1] * 1.12)
    axes.set_xlabel("batch size", size=8.5)
    ends = []
    for each in series:
        own = sorted(
            (row for row in measured(each) if row in rows), key=lambda row: row["batch_size"]
        )
        if not own:
            continue
        xs, ys = [row["batch_size"] for row in own], [row["median"] for row in own]
        axes.errorbar(xs, ys, yerr=whiskers(own, "median"), **line_of(each))
        ring(axes, own, xs, ys)
        ends.append((each, xs[-1], ys[-1]))
    axes.set_ylabel(f"{axis_title(rows[0])} (log scale)".replace(") (", "; "), size=8.5)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")
    if not ends:
        say_nothing(axes)
    elif height:
        name_ends(axes, height, ends)
