"""cells.tsv -> a figure, or all of a round, as SVG (text stays text), PNG, or PDF (with its fonts).

Six kinds: a metric, such as `throughput`, as bars with the interval of each median, a panel for
each nodes x devices and layout; `scaling`, throughput and scaling efficiency over devices, with the
ideal, a line for each layout; `layouts`, step time and memory of layouts on the same devices;
`batches`, throughput and latency of inference over batch sizes, on the fewest devices; `ecdf`, how
its latencies are distributed (from latencies.tsv.gz, beside cells.tsv); `curve`, the test score of
trainings over samples and seconds (from curves.tsv.gz).
bars.py, scaling.py and distributions.py draw them, with what drawing.py has for all.
"""

import gc
import os
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dlperf import scenarios
from dlperf.analysis.report.bars import layouts, medians
from dlperf.analysis.report.distributions import curves, distribution, latencies, trainings
from dlperf.analysis.report.drawing import by_layout, heading, rendered, series_of
from dlperf.analysis.report.scaling import batches, scaling
from dlperf.analysis.round import metrics, names
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Cell, Curve, read_cells
from dlperf.contract.files import write

#: Figures that another process is worth.
WORTH = 2


def figures(config_path: Path, cells: Path, only: Sequence[Path] = ()) -> None:
    """Draw the figures that the round's plan names, in the folder figures/ beside its cells.

    All of them, or `only` those of these files. Raises AnalysisError where a file is of no figure.

    A process a core draws them: importing Matplotlib takes as long as drawing a figure.
    """
    from dlperf import plan

    known = names.figure_ids(plan.expand(plan.load(config_path)))
    try:
        asked = {names.known(path.stem, known, "figure") for path in only}
    except LookupError as error:
        raise AnalysisError(error.args[0]) from None
    wanted = [name for name in known if name in asked or not only]
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
    own = [row for row in rows if row["table"] == table]
    if kind == names.LAYOUTS and (found := metrics.over_layouts(own)):
        return found, kind
    own = metrics.of_metric(own, "" if kind == names.SCALING else kind)
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
            return batches(rows, series)
        if kind == names.ECDF:
            return distribution(rows, series, times or {})
        if kind == names.LAYOUTS:
            return layouts(rows, series)
        if kind == names.CURVE:
            return trainings(rows, series, points or {})
        return scaling(rows, series) if kind == names.SCALING else medians(rows, series)

    return rendered(make, name, heading(rows[0], kind), wanted)
