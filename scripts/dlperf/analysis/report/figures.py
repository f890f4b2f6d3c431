"""cells.tsv -> a figure, or all of a round, as SVG (text stays text), PNG, or PDF (with its fonts).

Five kinds: a metric, such as `throughput`, as bars with the interval of each median, a panel for
each nodes x devices and layout; `scaling`, throughput and scaling efficiency over devices, with the
ideal, a line for each layout; `batches`, throughput and latency of inference over batch sizes, on
the fewest devices; `ecdf`, how its latencies are distributed (from latencies.tsv.gz, beside
cells.tsv); `curve`, the test score of trainings over samples and seconds (from curves.tsv.gz). A
framework has the same colour, marker and hatch in every figure; a hollow bar or a ringed point is
of a cell that is excluded from ranks. The same cells always give the same bytes.
"""

import gc
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dlperf import scenarios, workloads
from dlperf.analysis.report.styles import STYLES
from dlperf.analysis.round import flags, labels, metrics, names, origins
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.files import AnalysisError, read_table
from dlperf.analysis.schema.rows import Cell, Curve, read_cells, read_curves, value_of
from dlperf.analysis.statistics.medians import median
from dlperf.contract.files import write

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d8dee4", "#ffffff"
#: Matplotlib's own, over what a user's matplotlibrc says: the same cells are to give the same bytes
#: everywhere. The canvases are named below, so no backend is chosen.
DEFAULTS: Any = {
    name: value
    for name, value in matplotlib.rcParamsDefault.items()
    if not name.startswith("backend")
}
SETTINGS: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titley": 1.0,  # else Matplotlib measures all ticks before it draws, to find this place
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.linewidth": 0.8,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers ask for; Matplotlib's own choice is Type 3
}
#: Around a point, or as a bar's outline: the cell is excluded from ranks (flags.mark).
RING: Any = {
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "markeredgewidth": 1.1,
    "linestyle": "none",
}
OUTLINE: Any = {"facecolor": PAPER, "linewidth": 1.2, "linestyle": (0, (3, 2))}
NOT_EQUIVALENT = "not equivalent: equal work is not certified (see the table)"
EXCLUDED = "{}: excluded from ranks (see the table)"
PNG_DPI = 200
PNG_LEVEL = (
    3  # of compression: half of the time of the usual 6, for files that are an eighth larger
)
WIDTH = 9.0  # inches
LONG_TITLE = 46  # characters
LONG_FACTS = 132  # likewise, at full size
#: Lines and markers of a scaling figure by layout.
DASHES: Any = ("-", (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
FILLS = ("full", "left", "top", "right")
#: Figures that another process is worth.
WORTH = 2
#: Of a distribution so many values are drawn, spread evenly, and so many of the largest.
STEPS, TAIL = 200, 20


@dataclass(frozen=True)
class Series:
    """A framework with one compiler, and one layout over devices: its cells, how it is drawn."""

    title: str
    cells: Sequence[Cell]
    colour: str
    marker: str
    hatch: str
    second: bool  # another compiler of a framework that is here already: paler, dashed, hollow
    dashes: Any = "-"
    fill: str = "full"  # of a marker: which part has the colour


def figures(config_path: Path, cells: Path) -> None:
    """Draw all figures that the round's plan names, in the folder figures/ beside its cells.

    A process a core draws them: importing Matplotlib takes as long as drawing a figure.
    """
    from dlperf import plan

    wanted = names.figure_ids(plan.expand(plan.load(config_path)))
    rows = read_cells(cells)
    places = [cells.with_name("figures") / name for name in wanted]
    files = [{kind: Path(f"{place}.{kind}") for kind in names.DRAWN} for place in places]
    selected = [select(rows, name) for name in wanted]
    workers = min(len(os.sched_getaffinity(0)), len(wanted) // WORTH)
    if workers < 2:
        deque(map(partial(_draw_of_many, cells), wanted, selected, files), 0)
        return
    gc.freeze()  # what is there now is not looked through after each figure
    with ProcessPoolExecutor(workers) as pool:
        deque(pool.map(partial(_draw_of_many, cells), wanted, selected, files), 0)


def figure(cells: Path, name: str, files: Mapping[str, Path]) -> None:
    """Draw one figure of the round into {kind of KINDS: its file}.

    Raises AnalysisError where there is no such figure.
    """
    _draw_into(cells, name, select(read_cells(cells), name), files)


def _draw_of_many(
    cells: Path, name: str, selected: tuple[list[Cell], str], files: Mapping[str, Path]
) -> None:
    _draw_into(cells, name, selected, files)
    gc.collect()  # a figure is full of cycles, and commands look for none by themselves


def _draw_into(
    cells: Path, name: str, selected: tuple[list[Cell], str], files: Mapping[str, Path]
) -> None:
    rows, kind = selected
    more: dict[str, Any] = {}
    if kind == names.ECDF:
        more["times"] = latencies(cells.with_name(names.LATENCIES), rows)
    if kind == names.CURVE:
        more["points"] = curves(cells.with_name(names.CURVES), rows)
    drawn = draw(rows, kind, name, wanted=list(files), **more)
    for each, path in files.items():
        write(path, drawn[each])


def select(rows: Sequence[Cell], name: str) -> tuple[list[Cell], str]:
    """(the cells of a figure, its kind)."""
    group = name.removesuffix(f"-{names.BATCHES}")
    if group != name and (found := metrics.over_batches(rows, group)):
        return found, names.BATCHES
    table, kind = names.split(name, {row["table"] for row in rows})
    if kind == names.ECDF and (found := metrics.distribution(rows, table)):
        return found, kind
    if kind == names.CURVE and (found := metrics.tested(rows, table)):
        return found, kind
    own = metrics.of_metric(
        (row for row in rows if row["table"] == table), "" if kind == names.SCALING else kind
    )
    if not own or not kind:
        there = [
            f"{row['table']}-{kind}"
            for row in rows
            for kind in (
                *(row["metric"], names.SCALING),
                *([names.ECDF] if scenarios.marked(row["scenario"]) else []),
                *([names.CURVE] if scenarios.curved(row["scenario"]) else []),
            )
        ]
        try:
            names.known(name, list(dict.fromkeys(there)), "figure")
        except LookupError as error:
            raise AnalysisError(str(error.args[0])) from None
    return own, kind


def latencies(path: Path, rows: Sequence[Cell]) -> dict[str, list[float]]:
    """{framework/case: the milliseconds of all its repetitions, sorted} of these cells."""
    found: dict[str, list[float]] = {_place(row): [] for row in rows}
    for row in read_table(path):
        if _place(row) in found:
            found[_place(row)] += map(float, row["milliseconds"].split())
    return {place: sorted(values) for place, values in found.items()}


def curves(path: Path, rows: Sequence[Cell]) -> dict[str, dict[int, list[Curve]]]:
    """{framework/case: {repetition: its tests, rows of curves.tsv.gz}} of these cells."""
    found: dict[str, dict[int, list[Curve]]] = {_place(row): {} for row in rows}
    for row in read_curves(path):
        if _place(row) in found:
            found[_place(row)].setdefault(row["repetition"], []).append(row)
    return found


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['workload']}/{row['framework']}/{row['case']}"


def draw(
    rows: Sequence[Cell],
    kind: str,
    name: str,
    times: Mapping[str, Sequence[float]] | None = None,
    points: Mapping[str, Mapping[int, Sequence[Curve]]] | None = None,
    wanted: Sequence[str] = names.DRAWN,
) -> dict[str, bytes]:
    """The figure of these cells as {"svg": …, "png": …}. `name` makes the ids in the SVG unique.

    `times` are those of `latencies`, for their distribution; `points` those of `curves`; `wanted`
    are of KINDS.
    """

    def make() -> Figure:
        series = series_of(rows)
        if kind == names.SCALING:
            series = [own for each in series for own in by_layout(each, rows)]
        if kind == names.BATCHES:
            return _batches(rows, series)
        if kind == names.ECDF:
            return _distribution(rows, series, times or {})
        if kind == names.CURVE:
            return _trainings(rows, series, points or {})
        return _scaling(rows, series) if kind == names.SCALING else _medians(rows, series)

    return rendered(make, name, heading(rows[0], kind), wanted)


def rendered(
    make: Callable[[], Figure], name: str, title: str, wanted: Sequence[str] = names.DRAWN
) -> dict[str, bytes]:
    """What `make` draws as {"svg": …, "png": …}, or what else of KINDS: the same bytes always."""
    _only_shipped_fonts()
    with matplotlib.rc_context({**DEFAULTS, **SETTINGS, "svg.hashsalt": name}):
        made = make()
        return {kind: KINDS[kind](made, title) for kind in wanted}


def _svg(made: Figure, title: str) -> bytes:
    out = io.BytesIO()
    metadata = {"Date": None, "Creator": "dlperf", "Title": title}
    FigureCanvasSVG(made).print_svg(out, metadata=metadata)
    return _tidy(out.getvalue())


def _pdf(made: Figure, title: str) -> bytes:
    out = io.BytesIO()
    metadata = {"CreationDate": None, "Creator": "dlperf", "Title": title}
    FigureCanvasPdf(made).print_pdf(out, metadata=metadata)
    return out.getvalue()


def _png(made: Figure, _: str) -> bytes:
    out = io.BytesIO()
    made.set_dpi(PNG_DPI)
    FigureCanvasAgg(made).print_png(
        out, metadata={"Software": None}, pil_kwargs={"compress_level": PNG_LEVEL}
    )
    return out.getvalue()


#: The kinds of files of a figure, each drawn from (figure, title).
KINDS: Mapping[str, Callable[[Figure, str], bytes]] = {"svg": _svg, "pdf": _pdf, "png": _png}


@cache
def _only_shipped_fonts() -> None:
    """Let text be measured by Matplotlib's own fonts, not by the system's of the same names."""
    shipped = Path(matplotlib.get_data_path(), "fonts").resolve()
    fonts = font_manager.fontManager
    fonts.ttflist = [
        each for each in fonts.ttflist if shipped in Path(each.fname).resolve().parents
    ]
    if not fonts.ttflist:  # a cache of font lists that knows other places
        for path in sorted((shipped / "ttf").glob("*.ttf")):
            fonts.addfont(path)


def heading(row: Cell, kind: str) -> str:
    if kind == names.BATCHES:
        return f"{labels.workload(row)} {labels.scenario(row)}: throughput and latency"
    if kind == names.ECDF:
        return f"{labels.workload(row)} {labels.scenario(row)}: distribution of latency"
    if kind == names.CURVE:
        name = workloads.of(row["workload"]).quality.score.name
        return f"{labels.workload(row)} {labels.scenario(row)}: {name} and loss"
    what = names.SCALING if kind == names.SCALING else metrics.of_row(row).title.lower()
    return f"{labels.workload(row)} {labels.scenario(row)}: {what}"


def series_of(rows: Sequence[Cell]) -> list[Series]:
    """The series of these cells: frameworks in the order of the plan, each with its compilers."""
    seen: set[str] = set()
    series = []
    for key in labels.series(rows):
        framework = key[0]
        own = [row for row in rows if labels.series_key(row) == key]
        colour, marker, hatch = STYLES.get(framework, STYLES["hugectr"])
        second = framework in seen
        if any(row["status"] != "unsupported" for row in own):
            seen.add(framework)
        own = sorted(own, key=lambda row: (labels.devices(row), row["nodes"]))
        title = names.series_title(*key)
        dashes = (0, (4, 2)) if second else "-"
        series.append(Series(title, own, colour, marker, hatch, second, dashes))
    return series


def by_layout(series: Series, rows: Sequence[Cell]) -> list[Series]:
    """A series for each layout of all `rows`, with a line and a marker of its own."""
    layouts = list(dict.fromkeys(map(labels.layout, rows)))
    found = []
    for index, layout in enumerate(layouts):
        own = [row for row in series.cells if labels.layout(row) == layout]
        title = ", ".join(filter(None, (series.title, layout)))
        drawn = index % len(DASHES)
        dashes = DASHES[drawn] if drawn else series.dashes
        found.append(replace(series, title=title, cells=own, dashes=dashes, fill=FILLS[drawn]))
    return [each for each in found if each.cells]


def pale(colour: str) -> str:
    red, green, blue = to_rgb(colour)
    return to_hex((0.5 + red / 2, 0.5 + green / 2, 0.5 + blue / 2))


def _canvas(
    rows: Sequence[Cell], kind: str, body: float, notes: Sequence[str], labels_room: float = 0.62
) -> tuple[Figure, float, float]:
    """A figure with room for `body` inches of panels; also the top and bottom of that room."""
    above, below = 0.82, labels_room + 0.17 * len(notes)
    height = above + body + below
    made = Figure(figsize=(WIDTH, height), facecolor=PAPER)
    row, title = rows[0], heading(rows[0], kind)
    size = 13 if len(title) <= LONG_TITLE else 11  # beside the sign of what is not equivalent
    made.text(0.012, 1 - 0.24 / height, title, size=size, weight="bold", va="center")
    facts = [
        row["precision"],
        "" if kind == names.BATCHES else labels.batch_of_table(row),
        labels.rate(row),
        f"{row['epochs']} epochs" if row.get("epochs") else "",
        labels.short_sizes(row),
        f"{row['data']} data",
        labels.device(row).removeprefix("a device is ").replace("one ", "device = one ", 1),
    ]
    text = "  ·  ".join(filter(None, facts))
    made.text(
        0.012,
        1 - 0.49 / height,
        text,
        size=9 * min(1, LONG_FACTS / len(text)),
        color=MUTED,
        va="center",
    )
    for line, note in enumerate(reversed(notes)):
        made.text(0.012, (0.13 + 0.17 * line) / height, note, size=7.5, color=MUTED, va="center")
    if marks := sorted({flags.mark(row) for row in rows} - {""}):
        only = marks == ["not equivalent"]
        label = NOT_EQUIVALENT if only else EXCLUDED.format(" or ".join(marks))
        sign: Patch | Line2D = Patch(edgecolor=INK, label=label, **OUTLINE)
        if kind in (names.SCALING, names.BATCHES, names.ECDF, names.CURVE):
            sign = Line2D([], [], label=label, **RING)
        made.legend(
            handles=[sign],
            loc="center right",
            bbox_to_anchor=(0.99, 1 - 0.24 / height),
            borderaxespad=0,
            frameon=False,
            fontsize=8.5,
        )
    return made, 1 - above / height, below / height


def _medians(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    places = list(dict.fromkeys(map(labels.by_place, rows)))
    places.sort(key=lambda place: place[:3])  # layouts as they come
    across = min(len(places), 2)
    down = -(-len(places) // across)
    panel, gap = 0.27 * len(series) + 0.1, 0.75
    notes = [origins.of(rows).note]
    if len(places) > 1:
        notes.append("Each panel has its own scale.")
    made, top, bottom = _canvas(rows, rows[0]["metric"], down * panel + (down - 1) * gap, notes)
    left = (0.25 + 0.075 * max(len(each.title) for each in series)) / WIDTH
    right = 0.985 if _highest(rows) < 10_000 else 0.968  # the last tick's label may stand out
    made.subplots_adjust(
        left=left, right=right, top=top, bottom=bottom, wspace=0.07, hspace=gap / panel
    )
    for index, place in enumerate(places):
        axes = made.add_subplot(down, across, index + 1)
        own = [row for row in rows if labels.by_place(row) == place]
        _bars(axes, own, series, named=index % across == 0)
        axes.set_title(labels.place(own[0]), loc="left", size=9.5, weight="bold", pad=4)
        axes.set_xlabel(_axis(rows[0]), size=8.5)
    return made


def _axis(row: Cell) -> str:
    """'throughput, images/s'; which way is better where that is not up."""
    metric = metrics.of_row(row)
    better = " (lower is better)" if metric.lower_is_better else ""
    return f"{metric.title.lower()}, {labels.unit(row)}{better}"


def _bars(axes: Axes, rows: Sequence[Cell], series: Sequence[Series], named: bool) -> None:
    highest = _highest(rows)
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
        value, (low, high) = row["median"], _ends(row)
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


def _scaling(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    notes = [origins.of(rows).note, "Dotted and dashed lines: ideal scaling from 1 device."]
    whole = max(2.9, 0.19 * len(series) + 0.6)
    made, top, bottom = _canvas(rows, names.SCALING, whole, notes, 0.74)
    left = 0.075 if _highest(rows) < 10_000 else 0.09  # five digits and a comma
    made.subplots_adjust(left=left, right=0.985, top=top, bottom=bottom)
    names_room = 0.055 + 0.0076 * max(len(each.title) for each in series)
    middle = left + (0.985 - left - 0.075 - names_room) * 0.5
    speeds = made.add_axes((left, bottom, middle - left, top - bottom))
    start = middle + names_room + 0.075
    shares = made.add_axes((start, bottom, 0.985 - start, top - bottom))
    _curves(speeds, whole, series, rows)
    _efficiencies(shares, series, rows)
    speeds.set_title(metrics.of_row(rows[0]).title, loc="left", size=9.5, weight="bold", pad=4)
    shares.set_title("Scaling efficiency", loc="left", size=9.5, weight="bold", pad=4)
    return made


def _batches(rows: Sequence[Cell], series: Sequence[Series]) -> Figure:
    whole = max(2.9, 0.19 * len(series) + 0.6)
    made, top, bottom = _canvas(rows, names.BATCHES, whole, [origins.of(rows).note], 0.74)
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
        own = sorted((row for row in _ok(each) if row in rows), key=lambda row: row["batch_size"])
        if not own:
            continue
        xs, ys = [row["batch_size"] for row in own], [row["median"] for row in own]
        axes.errorbar(xs, ys, yerr=_whiskers(own, "median"), **_line(each))
        _rings(axes, own, xs, ys)
        ends.append((each, xs[-1], ys[-1]))
    axes.set_ylabel(f"{_axis(rows[0])} (log scale)".replace(") (", "; "), size=8.5)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")
    if not ends:
        _nothing(axes)
    elif height:
        _name_ends(axes, height, ends)


def _distribution(
    rows: Sequence[Cell], series: Sequence[Series], times: Mapping[str, Sequence[float]]
) -> Figure:
    """For each framework the share of answers over the time that they took at most, as steps."""
    whole = max(3.2, 0.19 * len(series) + 0.6)
    notes = [
        f"Steps: all answers of all repetitions together. Marks: {_marks(rows)}, as in the tables.",
        origins.of(rows).note,
    ]
    made, top, bottom = _canvas(rows, names.ECDF, whole, notes)
    room = 0.12 + 0.0076 * max(len(each.title) for each in series)
    axes = made.add_axes((0.075, bottom, 0.985 - 0.075 - room, top - bottom))
    drawn = [each for each in series if times.get(_place(each.cells[0]))]
    for each in drawn:
        values = times[_place(each.cells[0])]
        line = {key: _line(each)[key] for key in ("color", "linestyle", "linewidth")}
        axes.plot(*_steps(values), drawstyle="steps-post", **line)
        ok = _ok(each)
        heights = [100 * scenarios.marked(row["scenario"])[row["metric"]] for row in ok]
        marks = {**_line(each), "linestyle": "none"}
        middles = [row["median"] for row in ok]
        axes.errorbar(middles, heights, xerr=_whiskers(ok, "median"), **marks)
        _rings(axes, ok, middles, heights)
    if drawn:
        ends = [value for each in drawn for value in _steps(times[_place(each.cells[0])])[0]]
        if max(ends) > 4 * min(ends):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        handles = [Line2D([], [], label=each.title, **_marked_line(each)) for each in drawn]
        axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            frameon=False,
            fontsize=8.5,
        )
    else:
        _nothing(axes)
        axes.set_xticks([])
    scale = " (log scale)" if axes.get_xscale() == "log" else ""
    axes.set_xlabel(f"latency, {labels.unit(rows[0])}{scale}", size=8.5)
    axes.set_ylabel("answers that took no longer, %", size=8.5)
    axes.set_ylim(0, 103)
    axes.grid()
    return made


def _trainings(
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
    made, top, bottom = _canvas(rows, names.CURVE, 5.6, notes)
    room = 0.06 + 0.0076 * max(len(each.title) for each in series)
    width, height = (0.985 - room - 0.075 - 0.05) / 2, (top - bottom) * 0.46
    drawn = [each for each in series if points.get(_place(each.cells[0]))]
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
                _training(axes, _line(each), points[_place(each.cells[0])].values(), over, key)
            if not drawn:
                _nothing(axes)
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
                _target(axes, points[_place(drawn[0].cells[0])], score.unit)
            if column and not line:
                handles = [
                    Line2D([], [], label=each.title, **{**_marked_line(each), "marker": "none"})
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


def _marks(rows: Sequence[Cell]) -> str:
    """'p50 and p99': the percentiles that any of these cells has."""
    having = dict.fromkeys(row["metric"] for row in rows if row["status"] == "ok")
    return labels.listed([name.rpartition("_")[2] for name in having]) or "none"


def _marked_line(series: Series) -> dict[str, Any]:
    return {
        key: value for key, value in _line(series).items() if key not in ("elinewidth", "capsize")
    }


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


def _ok(series: Series, key: str = "median") -> list[Cell]:
    return [row for row in series.cells if row["status"] == "ok" and value_of(row, key) is not None]


def _highest(rows: Sequence[Cell]) -> float:
    """The upper end of the highest interval."""
    return max((_ends(row)[1] for row in rows if row["status"] == "ok"), default=1.0)


def _ends(row: Cell, key: str = "median") -> tuple[float, float]:
    """The interval of a cell's value; the value itself, twice, where it has none."""
    low, high = (value_of(row, f"{key}_{end}") for end in ("low", "high"))
    return (value_of(row, key), value_of(row, key)) if low is None else (low, high)


def _whiskers(rows: Sequence[Cell], key: str, scale: float = 1) -> list[list[float]] | None:
    """Lengths below and above each value; None where no value has an interval."""
    if all(value_of(row, f"{key}_low") is None for row in rows):
        return None
    values, ends = [value_of(row, key) for row in rows], [_ends(row, key) for row in rows]
    return [
        [scale * (value - low) for value, (low, _) in zip(values, ends, strict=True)],
        [scale * (high - value) for value, (_, high) in zip(values, ends, strict=True)],
    ]


def _line(series: Series) -> dict[str, Any]:
    return {
        "color": series.colour,
        "marker": series.marker,
        "markersize": 8.5 if series.marker == "*" else 6,
        "markerfacecolor": PAPER if series.second else series.colour,
        "markerfacecoloralt": series.colour if series.second else PAPER,
        "markeredgecolor": series.colour,
        "fillstyle": series.fill,
        "linestyle": series.dashes,
        "linewidth": 1.5,
        "elinewidth": 1.1,
        "capsize": 2.4,
    }


def _curves(axes: Axes, height: float, series: Sequence[Series], rows: Sequence[Cell]) -> None:
    counts = _device_axis(axes, rows)
    axes.set_yscale("log")
    ends = []
    for each in series:
        ok = _ok(each)
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
            yerr=_whiskers(ok, "median"),
            **_line(each),
        )
        _rings(axes, ok, xs, ys)
        ends.append((each, labels.devices(ok[-1]), ok[-1]["median"]))
    axes.set_ylabel(f"{_axis(rows[0])} (log scale)", size=8.5)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")
    if ends:
        _name_ends(axes, height, ends)
    else:
        _nothing(axes)


def _rings(axes: Axes, rows: Sequence[Cell], xs: Sequence[float], ys: Sequence[float]) -> None:
    """A ring around each point whose cell is excluded; xs and ys are those of the rows."""
    for row, x, y in zip(rows, xs, ys, strict=True):
        if flags.mark(row):
            axes.plot([x], [y], **RING)


def _name_ends(axes: Axes, height: float, ends: Sequence[tuple[Series, int, float]]) -> None:
    """Write each series' name beside its last point, moved apart where they would overlap.

    `height` of the axes is in inches.
    """
    axes.set_ylim(axes.get_ylim())  # nothing moves after the names have found their places
    last = max(x for _, x, _ in ends)
    to_axes = axes.transData + axes.transAxes.inverted()
    step = 0.165 / height
    points = sorted(
        ((*to_axes.transform((x, y)), each) for each, x, y in ends), key=lambda point: point[1]
    )
    places = spread([point[1] for point in points], step)
    for (x, y, each), place in zip(points, places, strict=True):
        if x >= to_axes.transform((last, 1))[0] - 1e-6:
            axes.plot(
                [x + 0.025, 1.03, 1.05],
                [y, place, place],
                transform=axes.transAxes,
                clip_on=False,
                color=each.colour,
                linewidth=0.7,
            )
        axes.plot(
            1.075,
            place,
            transform=axes.transAxes,
            clip_on=False,
            **{
                key: value
                for key, value in _line(each).items()
                if key.startswith("mark") or key == "fillstyle"
            },
        )
        axes.text(1.105, place, each.title, transform=axes.transAxes, va="center", size=8.5)


def spread(places: Sequence[float], step: float) -> list[float]:
    """The ascending `places` moved as little as needed to be `step` apart, within 0 and 1.

    Neighbours that are too near become a block around their own mean; blocks that touch are one.
    """
    blocks: list[list[float]] = []  # [sum of wanted starts, members, start]
    for place in places:
        blocks.append([place, 1, place])
        while len(blocks) > 1 and blocks[-2][2] + blocks[-2][1] * step > blocks[-1][2]:
            total, members, _ = blocks.pop()
            before = blocks[-1]
            before[0] += total - members * before[1] * step
            before[1] += members
            before[2] = before[0] / before[1]
    found = [start + index * step for _, members, start in blocks for index in range(int(members))]
    over = max(0.0, found[-1] - 1) if found else 0.0
    found = [
        max(0.0, place - over) if index == 0 else place - over for index, place in enumerate(found)
    ]
    for index in range(1, len(found)):
        found[index] = max(found[index], found[index - 1] + step)
    return found


def _efficiencies(axes: Axes, series: Sequence[Series], rows: Sequence[Cell]) -> None:
    counts = sorted({labels.devices(row) for row in rows})
    places = {count: place for place, count in enumerate(counts)}
    drawn = [
        each for each in series if any(labels.devices(row) > 1 for row in _ok(each, "efficiency"))
    ]
    axes.axhline(100, color=INK, linewidth=1, linestyle=(0, (5, 3)))
    axes.set_xlabel("devices", size=8.5)
    axes.set_ylabel("scaling efficiency, %", size=8.5)
    axes.grid(axis="y")
    if not drawn:
        _nothing(axes)
        axes.set_ylim(80, 104)
        axes.set_xticks([])
        return
    lows = [100.0]
    for index, each in enumerate(drawn):
        shift = 0.62 * ((index + 0.5) / len(drawn) - 0.5)
        ok = [row for row in _ok(each, "efficiency") if labels.devices(row) > 1]
        values = [100 * row["efficiency"] for row in ok]
        lows += [100 * _ends(row, "efficiency")[0] for row in ok]
        xs = [places[labels.devices(row)] + shift for row in ok]
        axes.errorbar(
            xs,
            values,
            yerr=_whiskers(ok, "efficiency", 100),
            **{**_line(each), "linewidth": 0.7 if len(ok) > 1 else 0},
        )
        _rings(axes, ok, xs, values)
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


def _nothing(axes: Axes) -> None:
    axes.text(
        0.5,
        0.5,
        "nothing measured",
        transform=axes.transAxes,
        ha="center",
        size=10,
        style="italic",
        color=MUTED,
    )


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


def plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def _tidy(svg: bytes) -> bytes:
    """The SVG with fonts that other systems have, and coordinates to 1/1000 of a point."""
    text = svg.decode().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r"(?<=\d)(\.\d{3})\d+", r"\1", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode()
