"""All cells of a round for the report: the full table, and the data of its explorer.

In: rows of cells.tsv and measurements.tsv.gz. Out: headings with values as text, a column for each
of columns.CELL that has anything to say; what cells can be chosen and compared by; and all of it
with every repetition as compact JSON, which templates/report.js hands to the libraries that filter
and draw. New columns of cells.tsv come in by themselves, under the heading and in the form that
schema/columns.py gives them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import markupsafe

from dlperf.analysis.report.styles import STYLES
from dlperf.analysis.round import flags, labels, metrics, names
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.rows import Cell, Measurement, value_of

#: These make the first columns, or say nothing more than those.
FIRST = ("workload", "framework", "compiler", "nodes", "devices_per_node")
LEFT_OUT = ("round", "table", "case", "metric", "better", *FIRST)
#: What cells can be chosen by, with its heading.
CHOSEN = {
    "workload": "Workload",
    "scenario": "Scenario",
    "framework": "Framework",
    "precision": "Precision",
    "topology": "Nodes and devices",
    "layout": "Layout",
    "batch": "Batch per device",
    "compiler": "Compiler",
    "data": "Data",
}
#: What a group of compared cells has in common, and its heading says, unless it is compared.
COMMON = (
    *("workload", "scenario", "implementation", "precision", "topology", "layout", "batch"),
    "data",
)
#: A heading says these even where all cells have the same.
ALWAYS = ("workload", "precision", "topology", "batch")
#: What most come for stands next; the rest follows in the order of columns.cells().
NEXT = (
    *("scenario", "precision", "batch_size", "median", "unit"),
    *("median_low", "median_high", "coverage", "cv"),
    *("rank", "rank_last", "detectable", "n_outliers"),
    *("ratio", "ratio_low", "ratio_high"),
    *("efficiency", "efficiency_low", "efficiency_high", "ratio_coverage"),
    *("mfu_stated", "mfu_measured", *columns.METRICS, "certificate", "flags"),
)


@dataclass(frozen=True)
class Value:
    """One field: what is read, and what it sorts by where that is not the text itself."""

    text: str
    key: float | None = None


@dataclass(frozen=True)
class Cells:
    """The table of all cells: `lines` are (index, workload, implementation, topology, values)."""

    headings: list[tuple[str, bool]]  # (heading, whether it is a column of numbers)
    lines: list[tuple[int, str, str, Value, list[Value]]]
    same: list[tuple[str, str]]  # (heading, value) of what is the same in every cell


def table(cells: Sequence[Cell]) -> Cells:
    """A line a case: its scenario's own metric with all of it, the medians of the others.

    Columns in which no cell has anything are left out; what never varies stands in `same`.
    """
    cells = [
        cast(Cell, {**own, **{row["metric"]: row["median"] for row in others}})
        for own, others in _cases(cells)
    ]
    workloads = list(dict.fromkeys(row["workload"] for row in cells))
    known = columns.cells(workloads)
    wanted = [name for name in dict.fromkeys((*NEXT, *known)) if name not in LEFT_OUT]
    shown, same = [], []
    for column in map(columns.column, wanted):
        values = {row.get(column.name) for row in cells}
        if not values - {None, "", 0}:
            continue
        if len(values) == 1 and len(cells) > 1:
            same.append((column.title, _text(column, values.pop())))
        else:
            shown.append(column)
    lines = [
        (
            index,
            labels.workload(row),
            labels.implementation(row),
            Value(labels.short_topology(row), labels.devices(row) + row["nodes"] / 1e6),
            [_value(column, row.get(column.name)) for column in shown],
        )
        for index, row in enumerate(cells)
    ]
    return Cells([(each.title, each.kind is not str) for each in shown], lines, same)


def _text(column: columns.Column, value: Any) -> str:
    return "" if value is None or value == "" else column.form(value)


def _value(column: columns.Column, value: Any) -> Value:
    text = _text(column, value)
    return Value(text, value if column.kind is not str and text != str(value) else None)


@dataclass(frozen=True)
class Explorer:
    """`choices`: (key, heading, values); `compared` and `measures`: (key, words); `json`: the data.

    The JSON is safe inside a <script>; its paths are below the round's folder.
    """

    choices: list[tuple[str, str, list[str]]]
    compared: list[tuple[str, str]]
    measures: list[tuple[str, str]]
    json: markupsafe.Markup


def explorer(cells: Sequence[Cell], repetitions: Iterable[Measurement]) -> Explorer:
    """All cells with every repetition, and what they can be chosen and compared by."""
    runs: dict[tuple[str, str, str], list[Measurement]] = {}
    for row in repetitions:
        runs.setdefault((row["workload"], row["framework"], row["case"]), []).append(row)
    found = [
        _cell(row, others, runs.get((row["workload"], row["framework"], row["case"]), []))
        for row, others in _cases(cells)
    ]
    varying = _varying(found)
    differ = {"implementation" if key in ("framework", "compiler") else key for key in varying}
    compared = [(key, CHOSEN[key].lower()) for key in COMMON if key in differ & {*CHOSEN}]
    if "implementation" in differ:
        compared.insert(0, ("implementation", "framework"))
    known = _measures(cells, found)
    data = {
        "common": [key for key in COMMON if key in differ or key in ALWAYS],
        "measures": known,
        "cells": found,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
    return Explorer(
        [(key, CHOSEN[key], list(dict.fromkeys(each[key] for each in found))) for key in varying],
        [*compared, ("all", "everything of a workload")],
        [(name, each["title"]) for name, each in known.items()],
        markupsafe.Markup(text),
    )


def _varying(cells: Sequence[dict[str, Any]]) -> list[str]:
    """Of CHOSEN what has several values, which do not follow from those of another one."""
    found: list[str] = []
    for key in CHOSEN:
        follows = any(
            len({(each[other], each[key]) for each in cells})
            == len({each[other] for each in cells})
            for other in found
        )
        if len({each[key] for each in cells}) > 1 and not follows:
            found.append(key)
    return found


def _cell(row: Cell, others: Sequence[Cell], runs: Sequence[Measurement]) -> dict[str, Any]:
    """One case; `values` has [median, low, high] by measure."""
    own, devices = row["metric"], labels.devices(row)
    values = {"own": _interval(row, "median")}
    if devices > 1:
        values["per_device"] = _interval(row, "median", 1 / devices)
        values["efficiency"] = _interval(row, "efficiency", 100)
    values |= {other["metric"]: _interval(other, "median") for other in others}
    doubts = []
    if flags.suspect(row):
        doubts.append("excluded: suspect" if flags.excluding(row) else "suspect")
    if row["median"] is not None and row["certificate"] != "passed":
        doubts.append("not equivalent")
    return {
        "workload": labels.workload(row),
        "scenario": labels.scenario(row),
        "framework": names.framework_title(row["framework"]),
        "compiler": row["compiler"],
        "implementation": labels.implementation(row),
        "precision": row["precision"],
        "batch": labels.batch(row),
        "topology": labels.short_topology(row),
        "layout": labels.layout(row) or "standard layout",
        "data": ", ".join(
            filter(
                None,
                (row["data"], labels.rate(row), labels.short_sizes(row)),
            )
        ),
        "equal": "yes" if row["certificate"] == "passed" else "no",
        "sound": "no" if flags.suspect(row) else "yes",
        "ranked": flags.rankable(row),
        "colour": STYLES.get(row["framework"], STYLES["hugectr"])[0],
        "unit": labels.unit(row),
        "doubts": ", ".join(doubts),
        "status": "" if row["status"] == "ok" else forms.status(row["status"]),
        "values": {name: value for name, value in values.items() if value},
        "facts": _facts(row, others),
        "folder": f"runs/{row['workload']}/{row['framework']}/{row['case']}",
        "runs": [_run(each, own, devices, [other["metric"] for other in others]) for each in runs],
    }


def _run(row: Measurement, own: str, devices: int, others: Iterable[str]) -> list[Any]:
    """[number, status, start, whether it has a record, how it is an outlier, values by measure]."""
    values = {"own": value_of(row, own)}
    if devices > 1 and values["own"] is not None:
        values["per_device"] = values["own"] / devices
    values |= {name: row.get(name) for name in others}
    return [
        row["repetition"],
        row["status"],
        row["start_utc"][:19].replace("T", " "),
        bool(row["record"]),
        row["outlier"],
        {name: _short(value) for name, value in values.items() if value is not None},
    ]


def _facts(row: Cell, others: Iterable[Cell]) -> dict[str, str]:
    """What is read where a cell is pointed at, as text by its name."""
    found = {"title": f"{labels.implementation(row)} {labels.where(row)}"}
    if row["median"] is None:
        found[forms.status(row["status"])] = row["reason"]
    else:
        found["median"] = f"{forms.number(row['median'])} {labels.unit(row)}"
        found["interval"] = _range(row, "median", forms.number)
        found["coverage"] = forms.percent(row["coverage"])
        if row["cv"] is not None:
            found["CV"] = forms.fine_percent(row["cv"])
    if row["ratio"] is not None and labels.devices(row) > 1:
        found["speed-up"] = f"{forms.number(row['ratio'])} ({_range(row, 'ratio', forms.number)})"
    if row["efficiency"] is not None and labels.is_scaled(row):
        interval = _range(row, "efficiency", forms.percent)
        found["efficiency"] = f"{forms.percent(row['efficiency'])} ({interval})"
    for other in others:
        if other["median"] is not None:
            metric = metrics.of_row(other)
            value = f"{forms.number(other['median'])} {metric.unit_of('samples')}"
            found[metric.title.lower()] = f"{value} ({_range(other, 'median', forms.number)})"
    for peak in ("stated", "measured"):
        if (share := value_of(row, f"mfu_{peak}")) is not None:
            found[f"MFU, {peak} peak"] = forms.percent(share)
    found["ok"] = f"{row['n_ok']} of {row['n_asked']} repetitions"
    if row["certificate"]:
        found["equal work"] = f"certificate {row['certificate']}"
    if row["flags"]:
        found["flags"] = "; ".join(map(flags.flag, row["flags"].split()))
    return found


def _measures(cells: Iterable[Cell], found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What any cell has a value of: title, unit ({} is the cell's own), whether less is better."""
    titles = Counter(metrics.of_row(row).title.lower() for row in cells if metrics.is_own(row))
    known = {
        "own": {"title": " or ".join(titles), "unit": "{}", "lower": False},
        "per_device": {
            "title": f"{' or '.join(titles)} per device",
            "unit": "{} per device",
            "lower": False,
        },
        "efficiency": {"title": "scaling efficiency", "unit": "%", "lower": False},
    }
    for row in cells:
        metric = metrics.of_row(row)
        if not metrics.is_own(row):
            known[metric.name] = {
                "title": metric.title.lower(),
                "unit": metric.unit_of("samples"),
                "lower": metric.lower_is_better,
            }
    present = {"own"}.union(*(each["values"] for each in found))
    return {name: each for name, each in known.items() if name in present}


def _cases(cells: Iterable[Cell]) -> list[tuple[Cell, list[Cell]]]:
    """Each case's row of its scenario's own metric, and its rows of the others."""
    found: list[tuple[Cell, list[Cell]]] = []
    for row in cells:  # the own one comes first
        if metrics.is_own(row):
            found.append((row, []))
        else:
            found[-1][1].append(row)
    return found


def _interval(row: Cell, key: str, factor: float = 1) -> list[float] | None:
    """[value, low, high]; None where there is none."""
    if value_of(row, key) is None:
        return None
    return [_short(factor * value_of(row, name)) for name in (key, f"{key}_low", f"{key}_high")]


def _range(row: Cell, key: str, form: forms.Form) -> str:
    low, high = (value_of(row, f"{key}_{end}") for end in ("low", "high"))
    return f"{form(low)} – {form(high)}"


def _short(value: float) -> float:
    """Six digits, which are more than any screen shows."""
    return float(f"{value:.6g}")
