"""All cells of a round for the report: the full table, and the data of its explorer.

In: rows of cells.tsv and measurements.tsv.gz. Out: headings with values as text, a column for each
of columns.CELL that has anything to say; and the same with every repetition as compact JSON, which
the page's script (templates/report.js) filters and draws. New columns of cells.tsv come in by
themselves, under the heading and in the form that schema/columns.py gives them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dlperf import scenarios
from dlperf.analysis.report.styles import STYLES
from dlperf.analysis.round import flags, labels, metrics, names
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.files import Row

#: These make the first columns, or say nothing more than those.
FIRST = ("workload", "framework", "compiler", "nodes", "devices_per_node")
LEFT_OUT = ("round", "table", "case", "metric", "better", *FIRST)
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


def table(cells: Sequence[Row]) -> Cells:
    """A line a case: its scenario's own metric with all of it, the medians of the others.

    Columns in which no cell has anything are left out; what never varies stands in `same`.
    """
    cells = [
        {**own, **{row["metric"]: row["median"] for row in others}} for own, others in _cases(cells)
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


def data(cells: Sequence[Row], repetitions: Iterable[Row]) -> str:
    """The JSON of the explorer, safe inside a <script>; paths are below the round's folder.

    A cell has its scenario's own metric as `value`, and all others in `metrics`.
    """
    runs: dict[tuple[str, str, str], list[list[Any]]] = {}
    for row in repetitions:
        own, *others = scenarios.metrics(row["scenario"])
        runs.setdefault((row["workload"], row["framework"], row["case"]), []).append(
            [
                row["repetition"],
                None if row[own] is None else _short(row[own]),
                row["status"],
                row["start_utc"][:19].replace("T", " "),
                bool(row["record"]),
                row["outlier"],
                {name: _short(row[name]) for name in others if row.get(name) is not None},
            ]
        )
    found = [
        {
            "workload": labels.workload(row),
            "scenario": labels.scenario(row),
            "framework": names.framework_title(row["framework"]),
            "compiler": row["compiler"],
            "precision": row["precision"],
            "batch": row["batch_size"],
            "topology": labels.short_topology(row),
            "devices": labels.devices(row),
            "data": ", ".join(filter(None, (row["data"], labels.short_sizes(row)))),
            "colour": STYLES.get(row["framework"], STYLES["hugectr"])[0],
            "status": forms.STATUS.get(row["status"], row["status"]),
            "reason": row["reason"],
            "unit": labels.unit(row),
            "value": _interval(row, "median"),
            "metrics": {other["metric"]: _interval(other, "median") for other in others},
            "coverage": row["coverage"],
            "cv": row["cv"],
            "efficiency": _interval(row, "efficiency"),
            "ratio": _interval(row, "ratio"),
            "mfu": {
                peak: _short(row[f"mfu_{peak}"])
                for peak in ("stated", "measured")
                if row[f"mfu_{peak}"] is not None
            },
            "ok": f"{row['n_ok']} of {row['n_asked']}",
            "certificate": row["certificate"],
            "flags": [flags.flag(flag) for flag in row["flags"].split()],
            "suspect": "suspect:" in row["flags"],
            "folder": f"runs/{row['workload']}/{row['framework']}/{row['case']}",
            "runs": runs.get((row["workload"], row["framework"], row["case"]), []),
        }
        for row, others in _cases(cells)
    ]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")


def _cases(cells: Iterable[Row]) -> list[tuple[Row, list[Row]]]:
    """Each case's row of its scenario's own metric, and its rows of the others."""
    found: list[tuple[Row, list[Row]]] = []
    for row in cells:  # the own one comes first
        if metrics.is_own(row):
            found.append((row, []))
        else:
            found[-1][1].append(row)
    return found


def measures(cells: Iterable[Row]) -> str:
    """The JSON of the other metrics that any cell has: name, title and unit."""
    found = {}
    for row in cells:
        metric = metrics.of_row(row)
        if not metrics.is_own(row) and row["median"] is not None:
            unit = metric.unit_of("samples")
            found[metric.name] = {
                "title": metric.title.lower(),
                "unit": unit,
                "better": metric.better,
            }
    return json.dumps(found)


def _interval(row: Row, key: str) -> list[float] | None:
    """[value, low, high]; None where there is none."""
    if row[key] is None:
        return None
    return [_short(row[name]) for name in (key, f"{key}_low", f"{key}_high")]


def _short(value: float) -> float:
    """Six digits, which are more than any screen shows."""
    return float(f"{value:.6g}")
