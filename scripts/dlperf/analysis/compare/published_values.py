"""values.tsv of a publication -> cells and repetitions as measured rounds have them, for verdicts.

In: its latencies, memory, inference, and rates under its own names of cases; and the `notes` of its
config. Out: cells with our metric, unit and dimensions where it is the same quantity; and of each
cell why it is another one, or may be. A metric of which nothing here is the counterpart keeps its
name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from dlperf import scenarios, workloads
from dlperf.analysis.publications import records
from dlperf.analysis.publications.values import spelled
from dlperf.analysis.round import labels
from dlperf.analysis.schema.files import Row, read_table
from dlperf.analysis.schema.rows import Cell, Measurement
from dlperf.analysis.statistics.medians import median
from dlperf.contract.layout import SPELLED as WAYS

#: Metrics that have a verdict, by our names. Others are a score, of which a margin in percent says
#: nothing, or depend on more: a target, the number of steps, how FLOPs are counted.
TESTED = re.compile(
    r"throughput|tokens|step_time|training_seconds|latency_mean|(latency|server)_p\d+|memory|energy"
)
PERCENTILE = re.compile(r"(latency|server)_(p\d+)")
MEMORY, RATES = "memory", ("throughput", "tokens")
#: (scenario, how publications call it) -> our metric.
ALIASES = {
    ("train", "latency"): "step_time",
    ("train", "latency_per_iter"): "step_time",
    ("train", "gpu_memory_device0"): MEMORY,
}
OF_DEVICE_0 = "gpu_memory_device0"
#: How publications call dimensions -> our names.
DIMENSIONS = {
    "vocab_size": "vocabulary",
    "embedding_vec_size": "width",
    "hidden_units": "layers",
    "seq_len": "sequence_length",
    "accumulation_steps": "accumulation",
}
#: Columns of theirs that follow from others, or name them.
FOLLOWING = ("case", "group", "dp", "global_batch", "batch_size_total", "params_billion")
#: Units that can be converted into each other: seconds, bytes.
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
SECONDS |= {"h": 3600.0, "hours": 3600.0}
BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
#: Units of memory that some count in powers of 10, others in powers of 2, by the power of 1000.
UNCLEAR = {"kB": 1, "KB": 1, "MB": 2, "GB": 3}
MEANS = ("mean", "average", "avg")
#: Words for a time that is not of a whole batch.
OF_A_SAMPLE = re.compile(r"(/|\b(per|each|single)[ _])(image|sample|sequence|sentence|example|row)")
#: Middles of single steps, where ours is of all steps together.
OF_STEPS = re.compile(r"\bmedian[ _](of|over)[ _]((the|all|single|\d+)[ _])*(step|iter|batch)")
Key = tuple[Any, ...]


class Read(NamedTuple):
    """Cells, their repetitions, and why a cell, by its place in `cells`, is of another quantity."""

    cells: list[Cell]
    repetitions: list[Measurement]
    unlike: list[list[str]]


@dataclass(frozen=True)
class _Meant:
    """What a number of theirs is in our words: the metric that is compared, and the reasons why it
    is not the same. `estimator` has the statistic too, where that is no part of our metric."""

    metric: str
    estimator: str
    why: tuple[str, ...] = ()


def read(path: Path, notes: Mapping[str, str]) -> Read:
    """The cells of values.tsv, in its order."""
    groups: dict[Key, list[Row]] = {}
    for row in read_table(path):
        # a case has all that tells it from others in its record's path
        folder = row["record"].rpartition("/")[0]
        groups.setdefault((folder, row["metric"]), []).append(row)
    found = Read([], [], [])
    for rows in groups.values():
        cell, repetitions, unlike = _cell(rows, notes)
        found.cells.append(cell)
        found.repetitions.extend(repetitions)
        found.unlike.append(unlike)
    return found


def _cell(rows: list[Row], notes: Mapping[str, str]) -> tuple[Cell, list[Measurement], list[str]]:
    first = rows[0]
    meant = _meant(first)
    why = list(meant.why)
    if first["metric"] in notes:
        why.append(
            f"their {first['metric'].replace('_', ' ')} is another: {notes[first['metric']]}"
        )
    ours = _metrics(first).get(meant.metric) if TESTED.fullmatch(meant.metric) else None
    unit, factor = first["unit"], 1.0
    if ours and first["workload"] in workloads.NAMES:
        wanted = ours.unit_of(workloads.of(first["workload"]).unit)
        if unit in UNCLEAR and wanted in BYTES:
            power = UNCLEAR[unit]
            size = f"10^{3 * power} or 2^{10 * power} bytes"
            why.append(f"whether {unit} is {size} there is not said")
            unit, factor = wanted, 1000.0**power / BYTES[wanted]
        for known in (SECONDS, BYTES):
            if unit in known and wanted in known and unit != wanted:
                unit, factor = wanted, known[unit] / known[wanted]
    case: dict[str, Any] = {
        **{name: first[name] for name in records.HEAD if name != "repetition"},
        # two metrics of theirs that are one of ours are two cells
        **{"table": f"{first['published_table']}, {first['metric']}"},
        **{"case": first["record"].split("/")[-2]},
        **{"metric": meant.metric, "unit": unit, "better": ours.better if ours else ""},
        **{"device": "cuda", "searched": "", "peak_precision": "", "kind": "imported"},
        **{"estimator": meant.estimator, "source": first["source"]},
        **{"unsaid": records.with_dimensions(first.get("unsaid") or "", first, _said(first))},
    }
    own, others = _dimensions(first)
    case |= own
    why += others
    repetitions = [
        {
            **case,
            **{"repetition": row["repetition"], "status": row["status"]},
            **{"unsaid": records.with_dimensions(row.get("unsaid") or "", row, _said(row))},
            meant.metric: factor * float(row["value"]) if row["value"] else None,
        }
        for row in rows
    ]
    values = [row[meant.metric] for row in repetitions if row["status"] == "ok"]
    failed = next((row for row in rows if row["status"] != "ok"), first)
    case |= {
        "status": "ok" if values else failed["status"],
        "reason": "" if values else failed["note"],
        "median": median(values) if values else None,
        **{"n_ok": len(values), "n_asked": len(rows), "certificate": "none", "flags": ""},
    }
    return cast(Cell, case), cast(list[Measurement], repetitions), why


def _metrics(row: Mapping[str, Any]) -> dict[str, scenarios.Metric]:
    """The metrics of the row's scenario; none of a scenario that only publications have."""
    if row["scenario"] not in scenarios.NAMES:
        return {}
    return scenarios.metrics(row["scenario"])


def _meant(row: Row) -> _Meant:
    """Which of our metrics a row is of, and why not quite."""
    statistic = (row.get("statistic") or "").lower()
    known = _metrics(row)
    name: str = ALIASES.get((row["scenario"], row["metric"])) or row["metric"]
    estimator = row["estimator"]
    if name == "latency" and row["scenario"] == "infer":
        of = "p50" if statistic == "median" else "mean" if statistic in MEANS else statistic
        if f"latency_{of}" not in known:
            return _Meant(name, estimator, (_no_such_latency(statistic, known),))
        name, statistic = f"latency_{of}", ""
    if not known:
        return _Meant(name, estimator)
    if ", " in name:
        return _Meant(name, estimator, ("another estimate of a run whose first one counts",))
    if not (name in known and TESTED.fullmatch(name)):
        return _Meant(name, estimator, (_no_verdict(name, name in known),))
    return _Meant(name, *_statistic(name, statistic, estimator, row))


def _no_such_latency(statistic: str, known: Iterable[str]) -> str:
    if not statistic:
        return "whether their latency is a mean or a percentile is not said"
    ours = [name.removeprefix("latency_") for name in known if TESTED.fullmatch(name)]
    ours = [name for name in ours if name == "mean" or re.fullmatch(r"p\d+", name)]
    return f"another statistic: {statistic} there, {labels.listed(ours)} here"


def _no_verdict(metric: str, is_known: bool) -> str:
    words = metric.replace("_", " ")
    if not is_known:
        return f"nothing of that name is measured here: {words}"
    return f"no verdict on {words}: it is a score, or depends on more than the case says"


def _statistic(
    metric: str, statistic: str, estimator: str, row: Row
) -> tuple[str, tuple[str, ...]]:
    """(how a number was got, reasons why it is not ours)."""
    why = list(_other_statistic(metric, statistic, estimator, row))
    own = PERCENTILE.fullmatch(metric)
    said = "" if own and statistic == own[2] else statistic
    return ", ".join(filter(None, (said, estimator))), tuple(why)


def _other_statistic(metric: str, statistic: str, estimator: str, row: Row) -> Iterator[str]:
    text = f"{statistic} {estimator}".lower()
    own = PERCENTILE.fullmatch(metric)
    if own:
        named = {f"p{each}" for pair in _PERCENTILES.findall(text) for each in pair if each}
        if named - {own[2]} or (statistic and statistic != own[2]):
            theirs = statistic or labels.listed(sorted(named))
            yield f"another statistic: {theirs} there, {own[2]} here"
    elif statistic in ("p50", "median") or OF_STEPS.search(text):
        yield "their figure is a median of single steps, ours is of all steps together"
    elif statistic in MEANS and metric in RATES:
        yield "their figure is a mean of rates, ours is samples over time"
    elif statistic and not statistic.startswith((*MEANS, "median")):
        yield f"their figure is the {statistic} of several, ours is a median"
    if row["unit"] in SECONDS and OF_A_SAMPLE.search(f"{text} {row['note'].lower()}"):
        yield "their time is of a sample, ours is of a batch"
    if metric == MEMORY:
        devices = row["nodes"] * row["devices_per_node"]
        if row["metric"] == OF_DEVICE_0 and devices > 1:
            yield "their memory is that of device 0, ours is that of the device that took most"


_PERCENTILES = re.compile(r"\bp(\d{1,2})\b|\b(\d{1,2})th percentile")


def _said(row: Row) -> set[str]:
    """The dimensions that a row says, in our names."""
    return {DIMENSIONS.get(name, name) for name, value in row.items() if value not in (None, "")}


def _dimensions(row: Row) -> tuple[dict[str, Any], list[str]]:
    """(layout and dimensions in our names, reasons why they are other ones)."""
    found: dict[str, Any] = {name: int(standard) for name, (_, standard) in WAYS.items()}
    found |= {"epochs": 0, "arrival_rate": 0}
    if row["workload"] in workloads.NAMES:
        own = workloads.of(row["workload"]).dimensions
        found |= {name: each.standard for name, each in own.items()}
    why = []
    for name, value in row.items():
        if name in records.HEAD or name in records.TAIL or name == "statistic":
            continue
        ours = DIMENSIONS.get(name, name)
        if value in (None, "") or name in FOLLOWING:
            continue
        if ours not in found:
            why.append(f"{name.replace('_', ' ')} {value} there, which no cell here has")
            continue
        found[ours] = spelled(str(value))
    return found, why
