"""cells.tsv -> a table in the published layout, as TSV (numbers), Markdown and HTML (for reading).

One table a workload, scenario, precision, batch size and metric: a row for each nodes x devices and
layout, a column for each framework and compiler, in a cell the median and its ratio to that of the
fewest devices (of throughput: the speed-up over 1n1d). What was not measured is spelled out in its
cell, with the reason in a note. A value that is excluded from ranks, because equal work is not
certified or is in doubt, stays and is marked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dlperf import scenarios
from dlperf.analysis.round import flags, labels, metrics, names, origins
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.files import AnalysisError, write_table
from dlperf.analysis.schema.rows import Cell, read_cells, value_of
from dlperf.analysis.statistics import ERROR, LEAST
from dlperf.contract.files import write

if TYPE_CHECKING:
    import jinja2

RANKS = (
    "Ranks, shared where cells are not significantly different (if all of a line were equal, a "
    f"significant difference would still be found with a probability of {forms.percent(ERROR)}):"
)
OF_PIPELINES = (
    "Pipelines. Bubble: the share of a step in which a stage has nothing to do, if all stages take "
    "equally long. Idle, measured: what all devices together lack to the speed of the same layout "
    "without stages:"
)
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Entry:
    """One cell for readers: `value` with its `ratio` and `interval`, or what happened instead."""

    value: str
    ratio: str = ""
    interval: str = ""
    repetitions: str = ""
    notes: tuple[int, ...] = ()
    ok: bool = True
    mark: str = ""  # 'not equivalent' or 'suspect': the value may not be compared


@dataclass
class Table:
    """A table for readers: `lines` stand above it, `notes` below, numbered from 1."""

    name: str
    title: str
    lines: list[str]
    series: list[str]
    rows: list[tuple[str, str, list[Entry]]]
    notes: list[str] = field(default_factory=list)
    corner: str = "Nodes and devices"
    ranking: list[str] = field(default_factory=list)  # a line a row, read with RANKS
    ranks: str = RANKS
    pipelines: list[str] = field(default_factory=list)  # a line a row, read with OF_PIPELINES
    of_pipelines: str = OF_PIPELINES


def table(cells: Path, name: str, tsv: Path, md: Path, html: Path) -> None:
    """Write one table of the round in its three forms."""
    own = select(read_cells(cells), name)
    write_table(tsv, columns.of_rows(own), own)
    made = build(name, own)
    write(md, markdown(made))
    write(html, templates().get_template("table.html.j2").render(table=made))


def select(rows: Sequence[Cell], name: str) -> list[Cell]:
    """The rows of one table: `<table>`, or `<table>-<metric>`, such as `<table>-memory`.

    Raises AnalysisError with the names that there are.
    """
    there = list(dict.fromkeys(row["table"] for row in rows))
    table, metric = names.split(name, there)
    found = metrics.of_metric((row for row in rows if row["table"] == table), metric)
    if not found:
        others = [f"{row['table']}-{row['metric']}" for row in rows if not metrics.is_own(row)]
        try:
            names.known(name, list(dict.fromkeys([*there, *others])), "table")
        except LookupError as error:
            raise AnalysisError(str(error.args[0])) from None
    return found


def build(name: str, cells: Sequence[Cell]) -> Table:
    """The table of these cells, all of one table, in the order of the plan."""
    if cells[0].get("searched"):
        return _of_largest(name, cells)
    series = labels.series(cells)
    places = list(dict.fromkeys(map(labels.by_place, cells)))
    places.sort(key=_by_devices)  # layouts as they come
    found = {(labels.by_place(row), labels.series_key(row)): row for row in cells}
    made = Table(
        name, title(cells[0]), lines(cells), [names.series_title(*each) for each in series], []
    )
    for place in places:
        entries = [_entry(found.get((place, each)), made.notes) for each in series]
        own = [cell for cell in cells if labels.by_place(cell) == place]
        made.rows.append((labels.short_place(own[0]), labels.place(own[0]), entries))
        made.ranking += ranking(own)
        made.pipelines += pipelines(own)
    return made


def _of_largest(name: str, cells: Sequence[Cell]) -> Table:
    """A row for each implementation, topology and layout: largest size, number there, memory.

    Without ranks and ratios: each line is of another size, so of other work.
    """
    size = cells[0]["searched"].replace("_", " ")
    # a limit is of what is committed, which counts other things than what is resident
    peaks = "Peak resident memory" if cells[0]["memory_limit_bytes"] else "Peak memory"
    heads = [f"Largest {size}", metrics.of_row(cells[0]).title, f"{peaks} per device"]
    made = Table(name, title(cells[0]), lines(cells), heads, [], corner="Framework, devices")
    series = labels.series(cells)
    for row in sorted(
        cells,
        key=lambda row: (series.index(labels.series_key(row)), _by_devices(labels.by_place(row))),
    ):
        entry = _entry(row, made.notes)
        largest, memory = Entry("", ok=False), Entry("", ok=False)
        if row["status"] == "ok":
            peak = row["device_peak_bytes"] or row["host_peak_rss_bytes"]
            # in the unit of the limit
            took = f"{forms.giga(peak)} GB" if row["memory_limit_bytes"] else forms.size(peak)
            largest, memory = Entry(f"{value_of(row, row['searched']):,}"), Entry(took)
        where = f"{labels.implementation(row)}, {labels.short_place(row)}"
        spoken = f"{labels.implementation(row)}, {labels.place(row)}"
        made.rows.append((where, spoken, [largest, entry, memory]))
    return made


def ranking(cells: Sequence[Cell]) -> list[str]:
    """Cells of one place by rank: ['1n1d: 1 MXNet, 2–3 JAX [xla], 2–3 PyTorch'], and which of
    them flags exclude: ['…; excluded as suspect: OneFlow']."""
    ranked = sorted(
        (cell for cell in cells if cell["rank"] is not None),
        key=lambda cell: (cell["rank"], cell["rank_last"]),
    )
    excluded = [
        labels.implementation(cell)
        for cell in cells
        if cell["status"] == "ok" and flags.excluding(cell) and not cell.get("over")
    ]
    if not ranked and not excluded:
        return []
    text = ", ".join(f"{rank(cell)} {labels.implementation(cell)}" for cell in ranked)
    if ranked and max(cell["n_ok"] for cell in ranked) < LEAST:
        text += f"; no significant difference can be shown with fewer than {LEAST} repetitions"
    if excluded:
        text += "; " if ranked else "nothing is ranked; "
        text += f"excluded as suspect: {', '.join(excluded)}"
    return [f"{labels.short_place(cells[0])}: {text}"]


def pipelines(cells: Sequence[Cell]) -> list[str]:
    """Of one place with stages: ['1n2d, pp2, accumulation 4: bubble 20 %; idle: PyTorch 52 % (49 %
    to 55 %), JAX [xla] 41 %'].

    Idle stands where the round has the same layout on the devices of one stage.
    """
    having = [cell for cell in cells if cell.get("bubble") is not None and metrics.is_own(cell)]
    if not having:
        return []
    said = [
        f"{labels.implementation(cell)} {forms.percent(cell['idle'])} "
        f"({forms.percent(cell['idle_low'])} to {forms.percent(cell['idle_high'])})"
        for cell in having
        if cell["idle"] is not None
    ]
    text = f"{labels.short_place(having[0])}: bubble {forms.percent(having[0]['bubble'])}"
    return [f"{text}; idle: {', '.join(said)}" if said else text]


def rank(cell: Cell) -> str:
    """'1', or '2–4' where cells are not significantly different, or '' for one without a rank."""
    best, last = cell["rank"], cell["rank_last"]
    if best is None:
        return ""
    return str(best) if best == last else f"{best}–{last}"


def _by_devices(place: tuple[int, int, int, str]) -> tuple[int, int]:
    return place[0], place[1]


def title(row: Cell) -> str:
    """'ResNet-50 v1.5 training, fp32, batch 8 per device', with the metric where it is another."""
    text = of_case(row)
    return text if metrics.is_own(row) else f"{text}: {metrics.of_row(row).title.lower()}"


def of_case(row: Cell) -> str:
    """'ResNet-50 v1.5 training, fp32, batch 8 per device'."""
    what = f"{labels.workload(row)} {labels.scenario(row)}"
    words = (what, row["precision"], labels.batch_of_table(row))
    return ", ".join(filter(None, (*words, labels.rate(row))))


def lines(cells: Sequence[Cell]) -> list[str]:
    """What must be known to read the numbers: unit, sizes, data, device, repetitions, interval."""
    row, origin = cells[0], origins.of(cells)
    searched = row.get("searched")
    how = f"the largest {searched.replace('_', ' ')} that fits" if searched else ""
    if searched and row.get("memory_limit_bytes"):
        how += f" into {forms.giga(row['memory_limit_bytes'])} GB per device (committed)"
    return [
        *origin.first,
        *([f"{how}; sizes differ, so nothing is ranked"] if how else []),
        unit(row),
        *([OF_REPLICAS] if any(map(is_split, cells)) else []),
        *labels.sizes(row),
        *([f"data: {labels.data(row)}"] if row["data"] else []),  # a publication may not say
        labels.device(row),
        *origin.last,
    ]


#: What a table says whose models are split over devices, in some of its rows.
OF_REPLICAS = (
    "tp, pp: a model replica is split over so many devices by tensors, by layers; the batch is "
    "that of a replica, and in brackets is the ratio to one replica of the same layout"
)


def is_split(row: Cell) -> bool:
    """Whether a replica of a cell's model has several devices."""
    return (row.get("tensor_parallel") or 1) > 1 or (row.get("pipeline_parallel") or 1) > 1


def unit(row: Cell) -> str:
    """'images/s, higher is better; in brackets the speed-up over 1n1d'."""
    if over := row.get("over"):
        title = metrics.of_row(row).title.lower()
        return f"{title} in units of that in {over} with an equal batch, {row['better']} is better"
    if row.get("searched"):
        return f"{labels.unit(row)}, {row['better']} is better"
    ratio = "speed-up over" if row["metric"] == "throughput" else "ratio to"
    return f"{labels.unit(row)}, {row['better']} is better; in brackets the {ratio} 1n1d"


def _entry(row: Cell | None, notes: list[str]) -> Entry:
    if row is None:
        return Entry("", ok=False)
    if row["status"] != "ok":
        text = forms.STATUS[row["status"]]
        return Entry(text, notes=_note(notes, [f"{text}: {row['reason']}"]), ok=False)
    raised = row["flags"].split()
    elsewhere = ("partial", flags.NO_PRECISION_RATIO, flags.NO_GLOBAL_BATCH_RATIO)
    said = [flags.flag(flag) for flag in raised if flag not in elsewhere]
    repetitions = ""
    if "partial" in raised:
        repetitions = f"{row['n_ok']}/{row['n_asked']}"
        said.insert(0, partial(row))
    if row["n_outliers"]:
        said.append(outliers(row))
    if scenarios.curved(row["scenario"]) and row["n_ok"] > 1:
        said.append(over_seeds(row))
    if row.get("convergence"):
        said.append(convergence(row))
    return Entry(
        value=forms.number(row["median"]),
        ratio="" if row["ratio"] is None else f"{row['ratio']:.2f}",
        interval=_interval(row),
        repetitions=repetitions,
        notes=_note(notes, said),
        mark=flags.mark(row),
    )


def _interval(row: Cell) -> str:
    if row["median_low"] is None:
        return ""
    return f"{forms.number(row['median_low'])} – {forms.number(row['median_high'])}"


def partial(row: Cell) -> str:
    """Why a cell has fewer repetitions than were asked for."""
    parts = [
        f"{value_of(row, f'n_{status}')} {forms.STATUS[status]}"
        for status in ("oom", "timeout", "crashed", "missing")
        if value_of(row, f"n_{status}")
    ]
    why = f": {row['reason']}" if row["reason"] else ""
    covered = forms.percent(row["coverage"])
    return (
        f"median of {row['n_ok']} of {row['n_asked']} repetitions ({', '.join(parts)}{why}); "
        f"the interval's coverage is {covered}"
    )


def outliers(row: Cell) -> str:
    """'1 of 9 repetitions is far from the others; it is kept'."""
    count = row["n_outliers"]
    verbs = ("is", "it is") if count == 1 else ("are", "they are")
    many = labels.plural(row["n_ok"], "repetition")
    return f"{count} of {many} {verbs[0]} far from the others; {verbs[1]} kept"


def over_seeds(row: Cell) -> str:
    """'over 5 seeds: mean 98.3, deviation 0.21, from 98.1 to 98.6', as it is published."""
    number = forms.number
    return (
        f"over {row['n_ok']} seeds: mean {number(row['mean'])}, deviation "
        f"{number(row['deviation'])}, from {number(row['minimum'])} to {number(row['maximum'])}"
    )


def convergence(row: Cell) -> str:
    """'alike: 1.02 times the samples of the others (0.97 to 1.05); p = 0.4 after correction for the
    number of frameworks, where 0.05 or less is significant'."""
    interval = forms.factors(row["convergence_low"], row["convergence_high"], " to ")
    return (
        f"{row['convergence']}: {row['convergence_ratio']:.2f} times the samples of the others "
        f"({interval}); p = {row['convergence_p']:.2g} after correction for the number of "
        f"frameworks, where {ERROR} or less is significant"
    )


def _note(notes: list[str], texts: Iterable[str]) -> tuple[int, ...]:
    """The numbers of these notes, which are added where they are new."""
    found = []
    for text in texts:
        if text not in notes:
            notes.append(text)
        found.append(notes.index(text) + 1)
    return tuple(sorted(found))


def markdown(made: Table) -> str:
    """The table as Markdown; its notes are numbered in brackets."""
    head = ["", *made.series]
    body = []
    for short, _, entries in made.rows:
        body.append([short, *(_markdown_entry(entry) for entry in entries)])
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]

    def line(values: Sequence[str]) -> str:
        first, *rest = zip(values, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(value.rjust(width) for value, width in rest)]
        return f"| {' | '.join(cells)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    text = [f"### {made.title}", "", *(f"- {each}" for each in made.lines), ""]
    text += [line(head), f"| {' | '.join(rule)} |", *(line(row) for row in body)]
    if made.ranking:
        text += ["", RANKS, "", *(f"- {each}" for each in made.ranking)]
    if made.pipelines:
        text += ["", made.of_pipelines, "", *(f"- {each}" for each in made.pipelines)]
    if made.notes:
        text += ["", *(f"[{i}] {_escape(note)}  " for i, note in enumerate(made.notes, start=1))]
    return "\n".join(text) + "\n"


def _markdown_entry(entry: Entry) -> str:
    ratio = f" ({entry.ratio})" if entry.ratio else ""
    repetitions = f" {entry.repetitions} ok" if entry.repetitions else ""
    mark = f" *{entry.mark}*" if entry.mark else ""
    notes = "".join(f" [{number}]" for number in entry.notes)
    return f"{entry.value}{ratio}{repetitions}{mark}{notes}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


@cache
def templates() -> "jinja2.Environment":
    """The templates of tables and report; every value is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
