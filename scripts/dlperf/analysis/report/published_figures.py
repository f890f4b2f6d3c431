"""A grid -> its figure: lines where rows differ in one number of three values or more, or bars."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dlperf import scenarios
from dlperf.analysis.report import drawing
from dlperf.analysis.report.published_tables import Grid, metric, number, said
from dlperf.analysis.report.styles import STYLES
from dlperf.analysis.round import labels
from dlperf.analysis.schema import forms
from dlperf.analysis.statistics.medians import median

#: Other words for what a table beside them says: no figures of their own.
NOT_DRAWN = ("pct_peak", "achieved_flops_aggregate")
#: Inches of a figure above its panels.
ABOVE_PANELS = 0.95


def drawable(grid: Grid) -> bool:
    """Whether a figure says more than its table: two values or more, and no accuracy."""
    found = sum(row["status"] == "ok" for own in grid.values.values() for row in own)
    scenario = grid.row["scenario"]  # publications also have others than ours
    told = scenario in scenarios.NAMES and scenarios.curved(scenario)
    return found > 2 and not told and grid.row["metric"] not in NOT_DRAWN


def draw(grid: Grid, title: str) -> dict[str, bytes]:
    """The grid's figure as {"svg": …, "png": …}. `title` names the publication."""
    make = _lines if _numeric(grid) else _bars
    return drawing.rendered(lambda: make(grid, title), grid.name, grid.title)


def _numeric(grid: Grid) -> bool:
    """Whether rows differ in one number of three values or more: an axis."""
    return (
        len(grid.varying) == 1
        and len(grid.rows) > 2
        and (grid.varying[0] == "topology" or all(place[0].isdigit() for place in grid.rows))
    )


def _position(key: str, text: str) -> int:
    if key == "topology":
        nodes, devices = text.rstrip("d").split("n")
        return int(nodes) * int(devices)
    return int(text)


def _styles(grid: Grid) -> dict[str, tuple[str, str, str, bool]]:
    """(colour, marker, hatch, whether a framework's second column) of each column.

    Where all columns are of one framework (percentiles), each takes a style of its own.
    """
    known = list(STYLES.values())
    if len(set(grid.frameworks.values())) == 1 and len(grid.columns) > 2:
        return {
            title: (*known[index % len(known)], False) for index, title in enumerate(grid.columns)
        }
    found: dict[str, tuple[str, str, str, bool]] = {}
    seen: set[str] = set()
    for title in grid.columns:
        framework = grid.frameworks[title]
        style = STYLES.get(framework, STYLES["hugectr"])
        found[title] = (*style, framework in seen)
        seen.add(framework)
    return found


def _canvas(grid: Grid, title: str, body: float, below: float) -> tuple[Figure, float, float]:
    height = ABOVE_PANELS + body + below
    made = Figure(figsize=(drawing.WIDTH, height), facecolor=drawing.PAPER)
    row = grid.row
    heading, _, table = grid.title.partition(": ")
    made.text(0.012, 1 - 0.24 / height, heading, size=13, weight="bold", va="center")
    case = f"  ·  {grid.names_of_cases}" if grid.names_of_cases else ""
    made.text(0.012, 1 - 0.49 / height, table + case, size=9, va="center")
    facts = [row["precision"]] if grid.common("precision") else []
    facts += [f"device = one {row['hardware'] or 'GPU'}"] if grid.common("hardware") else []
    facts += [labels.topology(row)] if grid.common("topology") else []
    subtitle = "  ·  ".join(facts)
    made.text(0.012, 1 - 0.69 / height, subtitle, size=9, color=drawing.MUTED, va="center")
    note = f"Imported from {title}, not measured here. No intervals: each value is one number."
    made.text(0.012, 0.13 / height, note, size=7.5, color=drawing.MUTED, va="center")
    return made, 1 - ABOVE_PANELS / height, below / height


def _axis_label(grid: Grid) -> str:
    what = metric(grid.row)
    return f"{what}, {grid.row['unit']}" if grid.row["unit"] else what


def _lines(grid: Grid, title: str) -> Figure:
    key = grid.varying[0]
    made, top, bottom = _canvas(grid, title, 3.1, 0.78)
    axes = made.add_axes((0.085, bottom, 0.64, top - bottom))
    xs = sorted({_position(key, place[0]) for place in grid.rows})
    lost = []
    drawn = 0
    for column, (colour, marker, _, second) in _styles(grid).items():
        points = []
        for place in grid.rows:
            own = grid.values.get((place, column), [])
            ok = [float(row["value"]) for row in own if row["status"] == "ok"]
            if ok:
                points.append((_position(key, place[0]), median(ok)))
            elif own and own[0]["status"] != "unsupported":
                lost.append((column, own[0]["status"], _position(key, place[0])))
        if points:
            points.sort()
            drawn += 1
            axes.plot(
                *zip(*points, strict=True),
                color=colour,
                marker=marker,
                markersize=6.5,
                markerfacecolor=drawing.PAPER if second else colour,
                linestyle=(0, (4, 2)) if second else "-",
                linewidth=1.5,
                label=column,
            )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(xs))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(xs, _ticks(xs))
    named = {"topology": "devices", "batch_size": "batch size per device"}
    axes.set_xlabel(named.get(key, key.replace("_", " ")), size=8.5)
    axes.set_ylabel(_axis_label(grid), size=8.5)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(drawing.plain))
    axes.grid(axis="y")
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8.5)
    legend.set_in_layout(False)
    first: dict[tuple[str, str], int] = {}
    for column, status, x in lost:
        first[column, status] = min(x, first.get((column, status), x))
    for index, ((column, status), x) in enumerate(first.items()):
        axes.text(
            1.035,
            0.94 - 0.06 * drawn - 0.11 * index,
            f"{column}: {forms.STATUS[status]}\nfrom {_short(x)} on",
            transform=axes.transAxes,
            size=8,
            style="italic",
            color=drawing.MUTED,
            va="top",
        )
    return made


def _ticks(xs: Sequence[int]) -> list[str]:
    """A label for each place on a logarithmic axis, none where it would touch the one before."""
    found, last = [], 0.0
    for x in xs:
        found.append(_short(x) if x > 1.45 * last else "")
        last = x if found[-1] else last
    return found


def _short(value: float) -> str:
    """3200000 -> '3.2M'."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if value >= size:
            return f"{value / (1000 if letter == 'k' else size):g}{letter}"
    return f"{value:g}"


def _bars(grid: Grid, title: str) -> Figure:
    styles = _styles(grid)
    height = 0.19 * len(grid.columns)
    body = len(grid.rows) * (height + 0.16) + 0.1
    made, top, bottom = _canvas(grid, title, body, 0.66 + 0.2 * -(-len(grid.columns) // 3))
    names = [
        ", ".join(said(k, v) for k, v in zip(grid.varying, place, strict=True) if v)
        or labels.short_topology(grid.row)
        for place in grid.rows
    ]
    left = min(0.45, (0.25 + 0.072 * max(map(len, names))) / drawing.WIDTH)
    axes = made.add_axes((left, bottom, 0.985 - left, top - bottom))
    step = 1 / (len(grid.columns) + 0.8)
    highest = 0.0
    shown = []
    for column_index, (column, (colour, _, hatch, second)) in enumerate(styles.items()):
        for index, place in enumerate(grid.rows):
            own = grid.values.get((place, column), [])
            at = index + (column_index - (len(styles) - 1) / 2) * step
            ok = [float(row["value"]) for row in own if row["status"] == "ok"]
            if ok:
                value = median(ok)
                highest = max(highest, value)
                axes.barh(
                    at,
                    value,
                    height=0.9 * step,
                    color=drawing.pale(colour) if second else colour,
                    hatch=hatch,
                    hatchcolor=(drawing.PAPER, 0.75),
                    linewidth=0,
                    label=column if column not in shown else None,
                )
                shown.append(column)
                text = f" {number(value, grid.decimals)}"
                axes.text(value, at, text, va="center", size=7.5)
            elif own:
                axes.text(
                    0,
                    at,
                    f" {forms.STATUS[own[0]['status']]}",
                    va="center",
                    size=7.5,
                    style="italic",
                    color=drawing.MUTED,
                )
    axes.set_xlim(0, 1.14 * (highest or 1))
    axes.set_ylim(len(grid.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(grid.rows)), names, size=8)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(drawing.plain))
    axes.set_xlabel(_axis_label(grid), size=8.5)
    axes.grid(axis="x")
    made.legend(
        loc="lower left",
        bbox_to_anchor=(0.006, 0.22 / made.get_figheight()),
        ncols=3,
        frameon=False,
        fontsize=8.5,
    )
    return made
