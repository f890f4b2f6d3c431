"""What figures of all kinds share: colours, a canvas with title and notes, series of cells, lines
with their intervals, and the files that a figure is written to.

The same cells always give the same bytes. A framework has the same colour, marker and hatch in
every figure; a hollow bar or a ringed point is of a cell that is excluded from ranks.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
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
from matplotlib.patches import Patch

from dlperf import workloads
from dlperf.analysis.report.styles import STYLES
from dlperf.analysis.round import flags, labels, metrics, names
from dlperf.analysis.schema.rows import Cell, value_of

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
    "text.parse_math": False,  # a dollar in a name is a dollar
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
SEPARATOR = "  ·  "
#: Lines and markers of a scaling figure by layout.
DASHES: Any = ("-", (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
FILLS = ("full", "left", "top", "right")


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


def _tidy(svg: bytes) -> bytes:
    """The SVG with fonts that other systems have, and coordinates to 1/1000 of a point."""
    text = svg.decode().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r"(?<=\d)(\.\d{3})\d+", r"\1", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode()


def heading(row: Cell, kind: str) -> str:
    if kind == names.BATCHES:
        return f"{labels.workload(row)} {labels.scenario(row)}: throughput and latency"
    if kind == names.ECDF:
        return f"{labels.workload(row)} {labels.scenario(row)}: distribution of latency"
    if kind == names.LAYOUTS:
        return f"{labels.workload(row)} {labels.scenario(row)}: step time and memory by layout"
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


def canvas(
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
        f"{row['data']} data" if row["data"] else "",
        labels.device(row).removeprefix("a device is ").replace("one ", "device = one ", 1),
    ]
    lines = _lines([each for each in facts if each])
    usual = 9.0 if len(lines) == 1 else 7.8
    fits = 9 * LONG_FACTS / max(map(len, lines))
    for line, text in enumerate(lines):
        place = 0.49 + 0.14 * (line - (len(lines) - 1) / 2)
        made.text(0.012, 1 - place / height, text, size=min(usual, fits), color=MUTED, va="center")
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


def _lines(facts: Sequence[str]) -> list[str]:
    """What a figure shows, in one line if it fits there, else in two."""
    words = [SEPARATOR.join(facts)]
    if len(words[0]) > LONG_FACTS:
        splits = [(facts[:at], facts[at:]) for at in range(1, len(facts))]
        both = [[SEPARATOR.join(part) for part in parts] for parts in splits]
        words = min(both, key=lambda lines: max(map(len, lines)), default=words)
    return words


def axis_title(row: Cell) -> str:
    """'throughput, images/s'; which way is better where that is not up."""
    return f"{metrics.of_row(row).title.lower()}, {unit_title(row)}"


def unit_title(row: Cell) -> str:
    """The same of an axis whose panel has the metric in its title: 'ms (lower is better)'."""
    better = " (lower is better)" if metrics.of_row(row).lower_is_better else ""
    return f"{labels.unit(row)}{better}"


def measured(series: Series, key: str = "median") -> list[Cell]:
    return [row for row in series.cells if row["status"] == "ok" and value_of(row, key) is not None]


def highest_end(rows: Sequence[Cell]) -> float:
    """The upper end of the highest interval."""
    return max((ends_of(row)[1] for row in rows if row["status"] == "ok"), default=1.0)


def ends_of(row: Cell, key: str = "median") -> tuple[float, float]:
    """The interval of a cell's value; the value itself, twice, where it has none."""
    low, high = (value_of(row, f"{key}_{end}") for end in ("low", "high"))
    return (value_of(row, key), value_of(row, key)) if low is None else (low, high)


def whiskers(rows: Sequence[Cell], key: str, scale: float = 1) -> list[list[float]] | None:
    """Lengths below and above each value; None where no value has an interval."""
    if all(value_of(row, f"{key}_low") is None for row in rows):
        return None
    values, ends = [value_of(row, key) for row in rows], [ends_of(row, key) for row in rows]
    return [
        [scale * (value - low) for value, (low, _) in zip(values, ends, strict=True)],
        [scale * (high - value) for value, (_, high) in zip(values, ends, strict=True)],
    ]


def line_of(series: Series) -> dict[str, Any]:
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


def marked_line(series: Series) -> dict[str, Any]:
    return {
        key: value for key, value in line_of(series).items() if key not in ("elinewidth", "capsize")
    }


def ring(axes: Axes, rows: Sequence[Cell], xs: Sequence[float], ys: Sequence[float]) -> None:
    """A ring around each point whose cell is excluded; xs and ys are those of the rows."""
    for row, x, y in zip(rows, xs, ys, strict=True):
        if flags.mark(row):
            axes.plot([x], [y], **RING)


def name_ends(axes: Axes, height: float, ends: Sequence[tuple[Series, int, float]]) -> None:
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
                for key, value in line_of(each).items()
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


def say_nothing(axes: Axes) -> None:
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


def plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"
