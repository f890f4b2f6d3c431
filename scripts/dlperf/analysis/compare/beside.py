"""Figures of others beside the cells of a round -> beside.tsv: a verdict on each of theirs.

In: the round's tables, and those of the publications and rounds that its config names under
`beside`. Out: a row for each cell of theirs; of a publication also for each of its other values
(latency, memory, …: published_values.py). It is held against the round's cell of the same metric,
framework, workload, scenario, precision, topology, layout and choices of the model; what else
differs, or is not known, makes it not testable, and every reason is said. The others are tested for
equivalence within the config's margin, with one error rate for each publication or round.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from dlperf import plan, scenarios, workloads
from dlperf.analysis.compare import conditions, published_values, rounds
from dlperf.analysis.compare.published_values import MEMORY, PERCENTILE
from dlperf.analysis.compare.rounds import Round
from dlperf.analysis.publications import config as configs
from dlperf.analysis.round import flags, labels, metrics, verdicts
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.files import AnalysisError, write_table
from dlperf.analysis.schema.rows import (
    Beside,
    Cell,
    Measurement,
    read_cells,
    read_measurements,
    read_parity,
    value_of,
)
from dlperf.analysis.statistics import ERROR, LEAST, equivalence
from dlperf.contract.layout import NAMES as LAYOUT

#: What is compared of another round: the first of these that a scenario has.
SPEEDS = ("throughput", "server_p50")
#: What tells the cells of a round or of a publication apart.
CELL = ("table", "workload", "framework", "compiler", *columns.PUBLISHED, "case")
#: Mixed precision, and what it computes in where it is published: plain "amp" is float16 in all
#: publications here, whatever the card.
PUBLISHED_HALF = {"amp": "fp16", "amp_fp16": "fp16", "amp_bf16": "bf16"}
TYPES = {"fp16": "float16", "bf16": "bfloat16", "tf32": "TF32", "fp32": "float32"}
#: Estimators of samples over time, as ours are, of one run or of several.
OVER_TIME = re.compile(r"wall[ _]clock|harmonic|\bmedian\b|\bmean (of|over) (\d+ )?(runs|repetit)")
#: Estimators that are something else, whatever stands beside it.
MEAN_OF_RATES = re.compile(r"(?<!harmonic_)(?<!harmonic )mean[ _]of[ _](the[ _])?rates")
EXTREME = re.compile(
    r"\b(best|fastest|highest|max|maximum|peak|lowest|least|min|minimum|worst|slowest)\b"
    r"( (of|over) ((the|all|several|\d+) )*(runs|repetit))?"
)
#: Estimators of one run that say how a latency, a step's time or memory was got, as ours are.
OF_LATENCIES = re.compile(r"\bp\d{1,2}\b|\bpercentile\b")
OF_TIMES = re.compile(r"\bmean (of|over) ((the|all|\d+) )*(steps|iterations|batches|requests)\b")
PEAK = re.compile(r"\b(peak|max|maximum)\b")
#: What of a GPU's memory they count: all that a process holds, or what a framework allocated.
HELD = re.compile(r"\b(nvidia-smi|nvml|process|reserved)\b")
ALLOCATED = re.compile(r"\ballocat")
#: Words of a driver's name of a card that publications leave out: maker, line, form.
UNSAID = {"nvidia", "tesla", "geforce", "quadro", "gpu", "pcie", "sxm2", "sxm3", "sxm4", "sxm5"}

#: Compilers that are a framework's own graph.
OWN_GRAPHS = ("graph", "static")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """The cells of a round, or of a publication, with their ok repetitions.

    `unlike`: why cells of a publication, by _metric, are of another quantity than ours."""

    round: Round
    published: bool = False
    unlike: Mapping[Key, list[str]] = field(default_factory=dict)
    facts: dict[conditions.Key, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def repetitions(self) -> dict[Key, list[Measurement]]:
        found: dict[Key, list[Measurement]] = {}
        for row in self.round.repetitions:
            if row["status"] == "ok":
                found.setdefault(_cell(row), []).append(row)
        return found

    def of(self, cell: Cell) -> list[Measurement]:
        return self.repetitions.get(_cell(cell), [])

    def values(self, cell: Cell) -> list[float]:
        found = (row.get(cell["metric"]) for row in self.of(cell))
        return [cast(float, value) for value in found if value is not None]

    def said(self, cell: Cell, column: str) -> list[str]:
        """What the ok repetitions of a cell say in a column, each once."""
        return sorted({str(value) for row in self.of(cell) if (value := row.get(column))})


@dataclass(frozen=True)
class Pair:
    """A cell of theirs, and the one of this round that it is held against: of the same metric; of a
    value that is nothing like ours, the case's own metric, for what else differs."""

    own: Cell
    other: Cell
    here: Side
    there: Side

    @property
    def published(self) -> bool:
        return self.there.published

    @property
    def is_of_one_metric(self) -> bool:
        return self.own["metric"] == self.other["metric"]


def beside(
    config_path: Path,
    cells: Path,
    measurements: Path,
    parity: Path,
    shared: Path,
    others: Path,
    out: Path,
) -> None:
    """Write beside.tsv. Raises AnalysisError where something that is named there is missing."""
    config = plan.load(config_path)
    here = _side(
        Round(
            config.round,
            cells.parent,
            {},
            _with_precision(metrics.measured(read_cells(cells))),
            read_measurements(measurements),
            read_parity(parity),
        )
    )
    rows: list[Beside] = []
    for entry in config.beside:
        there = read(entry, others, shared)
        rows += judge(here, there, config.beside_margin, entry)
    known = {row["workload"] for row in rows} & set(workloads.NAMES)
    write_table(out, columns.beside(sorted(known)), rows)


def read(entry: str, others: Path, shared: Path) -> Side:
    """The cells of an entry of `beside`."""
    folder, published = verdicts.folder_of(entry, others, shared)
    if not (folder / "cells.tsv").exists():
        raise AnalysisError(
            f"{folder}/cells.tsv: does not exist, and the round's `beside` names '{entry}'; "
            f"`snakemake --profile local {folder}/cells.tsv` makes it"
        )
    found = _speeds(read_cells(folder / "cells.tsv"))
    if published:
        repetitions = read_measurements(folder / "measurements.tsv.gz")
        notes = configs.load(folder / "config.yaml").notes
        values = published_values.read(folder / "values.tsv", notes)
        unlike = dict(zip(map(_metric, values.cells), values.unlike, strict=True))
        both = [*found, *values.cells], [*repetitions, *values.repetitions]
        return Side(Round(entry, folder, {}, *both, []), published=True, unlike=unlike)
    return _side(replace(rounds.read(folder), cells=found))


def _side(round: Round) -> Side:
    facts = conditions.facts_of(round, map(conditions.key, round.cells))
    return Side(round, facts=facts)


def _speeds(rows: Iterable[Cell]) -> list[Cell]:
    """The cells that say how fast something is, one a case."""
    found = _with_precision(metrics.measured(rows))
    return [row for row in found if row["metric"] == _speed(row["scenario"])]


def _with_precision(rows: list[Cell]) -> list[Cell]:
    """The cells with what they compute in, which stands in the row of a scenario's own metric."""
    known = {_cell(row): row.get("peak_precision") for row in rows if metrics.is_own(row)}
    return [cast(Cell, {**row, "peak_precision": known.get(_cell(row)) or ""}) for row in rows]


def _speed(scenario: str) -> str:
    own = scenarios.metrics(scenario)
    return next(name for name in SPEEDS if name in own)


def _cell(row: Mapping[str, Any]) -> Key:
    return tuple(row.get(name) for name in CELL)


def _metric(row: Mapping[str, Any]) -> Key:
    return (*_cell(row), row["metric"])


def judge(here: Side, there: Side, margin: float, entry: str) -> list[Beside]:
    """A row for each cell of `there`, in its order."""
    own: dict[Key, list[Cell]] = {}
    for cell in here.round.cells:
        own.setdefault(_key(cell, there.published), []).append(cell)
    rows, tested = [], []
    for other in there.round.cells:
        known = other["workload"] in workloads.NAMES
        found = own.get(_key(other, there.published), []) if known else []
        candidates = [cell for cell in found if cell["metric"] == other["metric"]]
        candidates = candidates or [cell for cell in found if metrics.is_own(cell)]
        if not candidates:
            rows.append(_unmatched(other, here, entry, margin))
            continue
        pair = min(
            (Pair(cell, other, here, there) for cell in candidates),
            key=lambda pair: (
                *(len([*_other_work(pair)]), len([*reasons(pair)])),
                not _is_unsaid_graph(pair),
            ),
        )
        row = _row(pair, entry, margin)
        rows.append(row)
        if not row["reason"]:
            tested.append((row, here.values(pair.own), there.values(other)))
    judged = equivalence.judge([(first, second) for _, first, second in tested], margin)
    for (row, _, _), each in zip(tested, judged, strict=True):
        row |= {
            "verdict": _verdict(each.claim, row),
            "ratio": each.ratio,
            "ratio_low": each.low,
            "ratio_high": each.high,
            "ratio_coverage": 1 - ERROR,
            "p": each.p,
            "p_corrected": each.corrected,
        }
    return rows


def _key(cell: Cell, published: bool) -> Key:
    """What a cell of theirs and one of ours have in common: else they are no counterparts."""
    precision = cell["precision"]
    # publications do not say what is computed a second time: see _other_work
    ways = [name for name in LAYOUT if not published or name != "activation_checkpointing"]
    return (
        *(cell["workload"], cell["framework"], cell["scenario"]),
        "amp" if published and precision in PUBLISHED_HALF else precision,
        *(cell["nodes"], cell["devices_per_node"]),
        *(value_of(cell, name) for name in ways),
        *(cell.get("epochs") or 0, cell.get("arrival_rate") or 0),
        *(
            value_of(cell, name)
            for name, each in workloads.of(cell["workload"]).dimensions.items()
            if each.is_choice
        ),
    )


def _verdict(claim: str, row: Beside) -> str:
    if claim in (equivalence.ABOVE, equivalence.BELOW):
        above = claim == equivalence.ABOVE
        if row["metric"] in verdicts.AMOUNTS:
            return verdicts.MORE if above else verdicts.LESS
        return verdicts.FASTER if above == (row["better"] == "higher") else verdicts.SLOWER
    return {
        equivalence.WITHIN: verdicts.REPRODUCED,
        equivalence.APART: verdicts.NOT_REPRODUCED,
        equivalence.UNDECIDED: verdicts.UNDECIDED,
    }[claim]


def _row(pair: Pair, entry: str, margin: float) -> Beside:
    """What both cells say, and why no verdict is possible; `reason` is empty where one is."""
    row = _both(pair.own, pair.other, pair.here, entry, margin)
    if not pair.is_of_one_metric:
        row |= {"metric": pair.other["metric"], "unit": pair.other["unit"], "better": ""}
        row |= {"median": None, "n_ok": 0}
    why = list(dict.fromkeys(reasons(pair)))
    row["reason"] = _joined(why)
    row["verdict"] = verdicts.NOT_TESTABLE if why else ""
    row["differs"] = _joined(map(str, _differences(pair)))
    return row


def _unmatched(other: Cell, here: Side, entry: str, margin: float) -> Beside:
    row = _both(None, other, here, entry, margin)
    row["verdict"] = verdicts.NO_COUNTERPART
    return row


def _both(own: Cell | None, other: Cell, here: Side, entry: str, margin: float) -> Beside:
    """What both cells say; theirs has a prefix, and its own words."""
    one: Mapping[str, Any] = own or other
    row: dict[str, Any] = {name: one.get(name) for name in columns.comparison(workloads.NAMES)}
    row |= {name: None for name in columns.numbers(columns.COMPARISON)}
    row |= {"baseline": entry, "round": here.round.name, "case": own["case"] if own else ""}
    row |= {"reason": "", "differs": "", "margin": margin, "baseline_case": other["case"]}
    row |= {name: other.get(name) or "" for name in columns.IMPORTED if name != "kind"}
    for cell, prefix in ((other, "baseline_"), (own, "")):
        for name in ("median", "n_ok", "n_asked", "certificate", "flags"):
            row[prefix + name] = value_of(cell, name) if cell else None
    return cast(Beside, row)


def _joined(texts: Iterable[str]) -> str:
    """In one field; what somebody's words have of the separator is no separator."""
    return "; ".join(text.replace(";", ",") for text in texts)


def reasons(pair: Pair) -> Iterator[str]:
    """Why a cell of theirs cannot be held against ours: every reason, in plain words."""
    yield from _without_figure(pair)
    yield from pair.there.unlike.get(_metric(pair.other), ())
    yield from _other_work(pair)
    yield from _other_device(pair)
    yield from _other_settings(pair)
    yield from _other_estimate(pair)
    yield from _other_memory(pair)
    yield from _unproved(pair)
    yield from _too_few(pair)


def _without_figure(pair: Pair) -> Iterator[str]:
    for cell, where in ((pair.own, "here"), (pair.other, "there")):
        if cell["status"] != "ok":
            why = f": {cell['reason']}" if cell["reason"] else ""
            yield f"no figure {where}: {forms.STATUS[cell['status']]}{why}"
    if not pair.is_of_one_metric:
        if not pair.there.unlike.get(_metric(pair.other)):
            yield f"not measured here: {pair.other['metric'].replace('_', ' ')}"
        return
    if pair.own["unit"] != pair.other["unit"]:
        yield f"another unit: {pair.own['unit']} here, {pair.other['unit'] or 'none'} there"
    sides = (pair.here, pair.own, "our"), (pair.there, pair.other, "their")
    for side, cell, whose in sides:
        if any(value <= 0 for value in side.values(cell)):
            yield f"{whose} figure is not above 0"


def _other_work(pair: Pair) -> Iterator[str]:
    """What was computed otherwise: batch, data, sizes, compiler, precision."""
    own, other = pair.own, pair.other
    if own["batch_size"] != other["batch_size"]:
        theirs = other["batch_size"] or "not known"
        yield f"another batch per device: {own['batch_size']} here, {theirs} there"
    if own["activation_checkpointing"] != other["activation_checkpointing"]:  # of a publication
        ours = "are" if own["activation_checkpointing"] else "are not"
        yield f"activations {ours} computed again here, which is not known of there"
    if not other["data"]:
        yield f"other data, as far as is known: {own['data']} here, not known there"
    elif own["data"] != other["data"]:
        yield f"other data: {own['data']} here, {other['data']} there"
    for name, each in workloads.of(own["workload"]).dimensions.items():
        if not each.is_choice and value_of(own, name) != value_of(other, name):
            ours, theirs = value_of(own, name), value_of(other, name)
            theirs = f"{theirs:,}" if isinstance(theirs, int) else theirs
            yield f"another {name.replace('_', ' ')}: {ours:,} here, {theirs} there"
    if own["compiler"] != other["compiler"] and not _is_unsaid_graph(pair):
        yield f"another compiler: {own['compiler']} here, {other['compiler']} there"
    yield from _other_precision(pair)


def _is_unsaid_graph(pair: Pair) -> bool:
    """Whether ours runs as its framework's own graph, and a publication names no compiler: those
    name XLA, but not a graph that nearly all programs of their day in that framework ran as."""
    unsaid = pair.published and pair.other["compiler"] == "none"
    return unsaid and pair.own["compiler"] in OWN_GRAPHS


def _other_precision(pair: Pair) -> Iterator[str]:
    if pair.own["status"] != "ok":
        return  # what did not run has computed in nothing
    here = pair.own.get("peak_precision") or ""
    there = pair.other.get("peak_precision") or ""
    if pair.published and pair.own["precision"] in PUBLISHED_HALF:
        there = PUBLISHED_HALF[pair.other["precision"]]
        if not here:
            yield "which type mixed precision computes in here is not known"
    elif pair.published and pair.own["precision"] == "fp32" and _has_tf32(pair):
        here, there = "tf32", "fp32"
    if here and there and here != there:
        words = [TYPES.get(each, each) for each in (here, there)]
        yield f"another precision: computes in {words[0]} here, {words[1]} there"


def _has_tf32(pair: Pair) -> bool:
    """Whether a process reported that it multiplies float32 in TF32."""
    facts = pair.here.facts.get(conditions.key(pair.own), {})
    return any("tf32" in what and value == "yes" for what, value in facts.items())


def _other_device(pair: Pair) -> Iterator[str]:
    what = "card" if pair.own["device"] == "cuda" else "CPU"
    column = "gpu" if pair.own["device"] == "cuda" else "cpu"
    here = pair.here.said(pair.own, column)
    if pair.own["status"] != "ok":
        return  # of what did not run nobody knows where
    if not here:
        yield f"the {what} here is not known"
    elif len(here) > 1:
        yield f"several {what}s here: {labels.listed(here)}"
    if not pair.published:
        there = pair.there.said(pair.other, column)
        if here != there:
            theirs = labels.listed(there) or "not known"
            yield f"another {what}: {labels.listed(here)} here, {theirs} there"
        return
    theirs = pair.other["hardware"]
    if not theirs:
        yield f"another {what}, as far as is known: {labels.listed(here)} here, not known there"
    elif not all(same_card(each, theirs) for each in here):
        known = "another card, as far as names tell" if what == "card" else "another device"
        yield f"{known}: {labels.listed(here)} here, {theirs} there"
    elif what == "CPU":
        yield "on how many cores of it a device ran there is not known"


def same_card(measured: str, published: str) -> bool:
    """Whether a publication's name of a card is the one that a driver gives, but for UNSAID words.

    'V100-SXM2-16GB' is 'Tesla V100-SXM2-16GB', 'A100-40GB' is 'NVIDIA A100-SXM4-40GB'. 'A100' is
    neither card of 40 GB nor of 80, and 'RTX 3080' no 'RTX 3080 Ti'.
    """
    own, theirs = (set(re.findall(r"[a-z0-9.]+", text.lower())) for text in (measured, published))
    return bool(theirs) and theirs <= own and own - theirs <= UNSAID


def _other_settings(pair: Pair) -> Iterator[str]:
    """What rounds say of how they measured; publications do not."""
    if pair.published:
        return
    for name in columns.SETTINGS:
        here, there = pair.own.get(name), pair.other.get(name)
        if here != there:
            yield f"measured otherwise: {name.replace('_', ' ')} {here} here, {there} there"
    if (pair.own.get("searched") or "") != (pair.other.get("searched") or ""):
        yield "the largest size that fits on one side, a size that was asked for on the other"
    here, there = (
        side.said(cell, "data_manifest_sha256")
        for side, cell in ((pair.here, pair.own), (pair.there, pair.other))
    )
    if here != there and pair.own["status"] == pair.other["status"] == "ok":
        yield "other data of the same kind: their manifests differ"


def _other_estimate(pair: Pair) -> Iterator[str]:
    if not pair.published or pair.other["status"] != "ok" or not pair.is_of_one_metric:
        return
    how, metric = (pair.other.get("estimator") or "").lower(), pair.own["metric"]
    if MEAN_OF_RATES.search(how):
        yield "their figure is a mean of rates, ours is samples over time"
    elif any(metric != MEMORY or of_runs[2] for of_runs in EXTREME.finditer(how)):
        yield f"their figure is the best or worst of several ('{how}'), ours is a median"
    elif not _is_like_ours(metric, how) or "_of_rates" in how.replace("harmonic_mean_of_rates", ""):
        yield f"how their figure was computed is not known ('{how or 'nothing is said'}')"


def _is_like_ours(metric: str, how: str) -> bool:
    """Whether an estimator is known to be that of a metric here."""
    if OVER_TIME.search(how):
        return True
    if metric == MEMORY:
        return bool(PEAK.search(how))
    if PERCENTILE.fullmatch(metric):
        return bool(OF_LATENCIES.search(how))
    return metric in ("latency_mean", "step_time") and bool(OF_TIMES.search(how))


def _other_memory(pair: Pair) -> Iterator[str]:
    """Of a GPU: `memory` here is all that a process holds, where its framework says that."""
    if not pair.published or (pair.own["metric"], pair.other["metric"]) != (MEMORY, MEMORY):
        return
    how = (pair.other.get("estimator") or "").lower()
    theirs = {
        words for each, words in ((HELD, "holds"), (ALLOCATED, "allocated")) if each.search(how)
    }
    total = [row.get("device_total_peak_bytes") for row in pair.here.of(pair.own)]
    ours = "holds" if all(total) else "allocated"
    if len(theirs) != 1:
        yield "whether their memory is what a process holds, or what it allocated, is not said"
    elif theirs != {ours}:
        yield f"other memory: what a process {ours} here, what it {theirs.pop()} there"


def _unproved(pair: Pair) -> Iterator[str]:
    """Equal work that is not certified, or in doubt; of a publication's nobody knows."""
    sides = [(pair.own, "here")] + ([] if pair.published else [(pair.other, "there")])
    for cell, where in sides:
        if cell["status"] != "ok":
            continue
        if not flags.comparable({"certificate": "", **cell}):
            said = cell.get("certificate") or "missing"
            said = f"spot check {cell['check']}" if said == "passed" else said
            yield f"equal work is not certified {where}: {said}"
        for flag in flags.excluding(cell):
            yield f"{flags.flag(flag)} ({where})"


def _too_few(pair: Pair) -> Iterator[str]:
    for side, cell, where in ((pair.here, pair.own, "here"), (pair.there, pair.other, "there")):
        count = len(side.values(cell))
        alone = where == "there" and pair.published and count == 1
        if cell["status"] == "ok" and count < LEAST and not alone:
            yield f"too few repetitions {where}: {count}, and {LEAST} are needed"


def _differences(pair: Pair) -> Iterator[str]:
    """What else differs, and is no reason: versions, driver, settings; names of a publication."""
    if pair.published:
        if pair.other["estimator"]:
            yield f"estimator there: {pair.other['estimator']}"
        here = labels.listed(pair.here.said(pair.own, "gpu"))
        if here and pair.other["hardware"] and pair.other["hardware"] not in here:
            yield f"card: {pair.other['hardware']} there, {here} here"
        if _is_unsaid_graph(pair):
            yield f"compiler: {pair.own['compiler']} here, none named there"
        return
    before, now = (
        side.facts.get(conditions.key(cell), {})
        for side, cell in ((pair.there, pair.other), (pair.here, pair.own))
    )
    yield from map(str, conditions.differences(before, now))
