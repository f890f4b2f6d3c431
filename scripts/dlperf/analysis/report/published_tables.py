"""values.tsv -> tables of what the throughput tables do not carry.

One table for each published table and metric: latency, memory, accuracy, time to train, the largest
model, workloads that are not here. A row for each combination of what varies in it, a column for
each implementation; what is one value throughout a column (its own batch, its precision) heads the
column.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlperf import workloads
from dlperf.analysis.publications import records
from dlperf.analysis.publications.config import Import
from dlperf.analysis.report import tables
from dlperf.analysis.round import labels, origins
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.files import Row, read_table
from dlperf.analysis.statistics.medians import median, median_interval

#: What says nothing of the case.
BESIDE = (
    *("framework", "implementation", "repetition", "value", "estimator", "status", "note"),
    *("source", "record", "record_sha256", "nodes", "devices_per_node", "batch_label"),
    # follows from others
    *("params_billion", "batch_size_total", "accumulation_steps"),
)
WORDS = {
    "latency_per_iter": "latency of an iteration",
    "gpu_memory_device0": "memory of device 0",
    "achieved_flops_per_gpu": "achieved FLOP/s per device",
    "achieved_flops_aggregate": "achieved FLOP/s in all",
    "pct_peak": "share of peak FLOP/s",
    "max_num_classes": "largest number of classes",
    "final_loss": "final loss",
    "top1_accuracy": "top-1 accuracy",
    "exact_match": "exact match",
    "f1": "F1",
    "time_to_train": "time to train",
}
#: Where less is better.
LOWER = ("latency", "memory", "loss", "time")


SEVERAL = "several repetitions: the median of them, its interval below it"


@dataclass(frozen=True)
class Grid:
    """One published table of one metric: rows and columns by name, and the values between them."""

    name: str
    title: str
    row: Row  # the first, for what all have in common
    varying: tuple[str, ...]
    rows: list[tuple[str, ...]]
    columns: list[str]
    values: Mapping[tuple[tuple[str, ...], str], list[Row]]
    frameworks: Mapping[str, str]
    notes: Sequence[str]

    def common(self, key: str) -> bool:
        """Whether all values have this in common."""
        return len({row[key] for own in self.values.values() for row in own}) == 1

    @property
    def names_of_cases(self) -> str:
        """What the publication's own names of cases say; "" where its rows have none."""
        workload = self.row["workload"]
        if "case" not in self.varying or workload not in workloads.NAMES:
            return ""
        known = workloads.of(workload).published.values()
        return next((f"a case: {each.cases}" for each in known if each.cases), "")

    @property
    def decimals(self) -> int | None:
        """The decimals that its values are printed with; None where they differ much."""
        found = [row["value"] for own in self.values.values() for row in own if row["value"]]
        most = max((len(text.removesuffix(".0").partition(".")[2]) for text in found), default=4)
        return most if most <= 3 else None


def grids(values: Path, wanted: Callable[[Row], bool] = lambda row: True) -> list[Grid]:
    """The tables in values.tsv of the rows that are wanted, in the order of the publication."""
    rows = [row for row in read_table(values) if wanted(row)]
    own = [
        name
        for name in (rows[0] if rows else ())
        if name not in records.HEAD and name not in records.TAIL
    ]
    found: dict[tuple[str, ...], list[Row]] = {}
    devices = {row["hardware"] for row in rows}
    for row in rows:
        row["topology"] = labels.short_topology(row)
        found.setdefault((row["workload"], row["published_table"], row["metric"]), []).append(row)
    made, seen = [], set()
    for of_one in found.values():
        name = base = _name(of_one[0], devices)
        count = 1
        while name in seen:
            count += 1
            name = f"{base}-{count}"
        seen.add(name)
        made.append(_grid(name, of_one, own))
    return made


def _name(row: Row, devices: Collection[str]) -> str:
    """'insightface-throughput-face-emore-r100-fp32-thoughput-data-parallelism-bmax'."""
    parts = [row["workload"], row["metric"], _without_line(row["published_table"])]
    parts += [f"b{row['batch_label']}"] if row["batch_label"] == "max" else []
    parts += [row["hardware"]] if len(devices) > 1 else []
    slugs = [re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts]
    return "-".join(slug if len(slug) <= 60 else slug[:60].rpartition("-")[0] for slug in slugs)


def _grid(name: str, rows: list[Row], own: Sequence[str]) -> Grid:
    keys = ["hardware", "topology", "precision", "compiler", "batch_size", "data", *own]
    keys = [key for key in keys if key not in BESIDE and len({row[key] for row in rows}) > 1]
    if "case" in keys:
        keys = ["case"]  # the publication's own name of a combination
    # constant in every implementation: it heads the column
    heads = [key for key in keys if key == "statistic" or _constant(rows, key)]
    if not heads and len({row["implementation"] for row in rows}) == 1:
        heads = [key for key in keys if key == "precision"]
    varying = tuple(key for key in keys if key not in heads)
    titles = [_column(row, heads) for row in rows]
    values: dict[tuple[tuple[str, ...], str], list[Row]] = {}
    for row, title in zip(rows, titles, strict=True):
        values.setdefault((tuple(_spell(row[key]) for key in varying), title), []).append(row)
    first = rows[0]
    table = f": {_without_line(first['published_table'])}" if first["published_table"] else ""
    batch = " (largest batch)" if first["batch_label"] == "max" else ""
    return Grid(
        name,
        f"{labels.workload(first)}, {metric(first)}{table}{batch}",
        first,
        varying,
        list(dict.fromkeys(place for place, _ in values)),
        list(dict.fromkeys(titles)),
        values,
        {title: row["framework"] for row, title in zip(rows, titles, strict=True)},
        list(dict.fromkeys(row["note"] for row in rows if row["note"] and row["status"] == "ok")),
    )


def metric(row: Mapping[str, Any]) -> str:
    return WORDS.get(row["metric"], row["metric"].replace("_", " "))


def _constant(rows: Sequence[Row], key: str) -> bool:
    """Whether each of several implementations has one value of it throughout."""
    found: dict[str, set[Any]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault(row["implementation"], set()).add(row[key])
    return len(found) > 1 and all(len(each) == 1 for each in found.values())


def _without_line(table: str) -> str:
    """'L81: Face Emore & R100' -> 'Face Emore & R100': a line of the report names no table."""
    return re.sub(r"^L\d+: ", "", table)


def _column(row: Row, heads: Sequence[str]) -> str:
    words = [said(key, row[key]) for key in heads if row[key] not in (None, "", "none")]
    return ", ".join([row["implementation"] or row["framework"], *words])


def _spell(value: Any) -> str:
    return "" if value is None else str(value)


def said(key: str, value: Any) -> str:
    """'vocab size 3,200,000'; a topology, a precision or a word speaks for itself."""
    if key in ("topology", "precision", "hardware", "data", "statistic", "compiler"):
        return str(value)
    if key == "case":
        return str(value).replace("_", " ")
    text = f"{int(value):,}" if str(value).isdigit() else str(value)
    return f"{'batch' if key == 'batch_size' else key.replace('_', ' ')} {text}"


def table(grid: Grid, publication: Import) -> tables.Table:
    """The grid as the one form in which tables are shown."""
    row, title = grid.row, publication.title
    several = any(len(own) > 1 for own in grid.values.values())
    better = "lower" if any(word in row["metric"] for word in LOWER) else "higher"
    lines = [
        origins.IMPORTED,
        f"{row['unit'] or 'no unit'}, {better} is better",
        f"source: {', '.join(filter(None, (title, row['published_table'])))}",
        grid.names_of_cases,
        row["precision"] if grid.common("precision") else "",
        labels.topology(row) if grid.common("topology") else "",
        f"a device is one {row['hardware'] or 'GPU'}" if grid.common("hardware") else "",
        origins.NO_INTERVAL if not several else SEVERAL,
        origins.NO_CERTIFICATE,
        *(f"the publication's note: {note}" for note in grid.notes[:3]),
        publication.notes.get(row["metric"], ""),
    ]
    made = tables.Table(
        grid.name, grid.title, [line for line in lines if line], grid.columns, [], corner="Case"
    )
    for place in grid.rows:
        words = [said(key, value) for key, value in zip(grid.varying, place, strict=True) if value]
        text = ", ".join(words) or labels.short_topology(row)
        entries = [
            _entry(grid.values.get((place, column)), made.notes, grid.decimals)
            for column in grid.columns
        ]
        made.rows.append((text, text, entries))
    return made


def _entry(
    rows: Sequence[Row] | None, notes: list[str], decimals: int | None = None
) -> tables.Entry:
    if not rows:
        return tables.Entry("", ok=False)
    ok = [row for row in rows if row["status"] == "ok"]
    if not ok:
        row = rows[0]
        text = forms.STATUS[row["status"]]
        found = tables.Entry(text, ok=False)
        if row["status"] == "unsupported":
            if row["note"] not in notes:
                notes.append(row["note"])
            found = replace(found, value="none", notes=(notes.index(row["note"]) + 1,))
        return found
    if len(ok) == 1:
        return tables.Entry(number(float(ok[0]["value"]), decimals))
    numbers = [float(row["value"]) for row in ok]
    interval = median_interval(numbers)
    return tables.Entry(
        number(median(numbers), decimals),
        interval=f"{interval.low:g} – {interval.high:g}, {forms.percent(interval.coverage)}",
    )


def number(value: float, decimals: int | None) -> str:
    """A published number with its table's decimals."""
    if decimals is None:
        return f"{value:g}"
    return f"{value:,.0f}" if not decimals and value >= 10_000 else f"{value:.{decimals}f}"
