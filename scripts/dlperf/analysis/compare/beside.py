"""Figures of others beside the cells of a round -> beside.tsv: a verdict on each of theirs.

In: the round's tables, and those of the publications and rounds that its config names under
`beside`. Out: a row for each cell of theirs; of a publication also for each of its other values
(latency, memory, …: published_values.py). It is held against the round's cell of the same metric,
framework, workload, scenario, precision, topology, layout and choices of the model; what else
differs, or is not known, makes it not testable, and every reason is said. The others are tested for
equivalence within the config's margin, with one error rate for each publication or round.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from dlperf import plan, scenarios, workloads
from dlperf.analysis.compare import conditions, published_values, rounds
from dlperf.analysis.compare.pairs import Key, Pair, Side, cell_key, metric_key
from dlperf.analysis.compare.reasons import (
    PUBLISHED_HALF,
    differences,
    is_unsaid_graph,
    other_work,
    reasons,
)
from dlperf.analysis.compare.rounds import Round
from dlperf.analysis.publications import config as configs
from dlperf.analysis.round import metrics, verdicts
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import AnalysisError, write_table
from dlperf.analysis.schema.rows import (
    Beside,
    Cell,
    read_cells,
    read_measurements,
    read_parity,
    value_of,
)
from dlperf.analysis.statistics import ERROR, equivalence
from dlperf.contract.layout import NAMES as LAYOUT

#: What is compared of another round: the first of these that a scenario has.
SPEEDS = ("throughput", "server_p50")


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
        unlike = dict(zip(map(metric_key, values.cells), values.unlike, strict=True))
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
    known = {cell_key(row): row.get("peak_precision") for row in rows if metrics.is_own(row)}
    return [cast(Cell, {**row, "peak_precision": known.get(cell_key(row)) or ""}) for row in rows]


def _speed(scenario: str) -> str:
    own = scenarios.metrics(scenario)
    return next(name for name in SPEEDS if name in own)


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
                *(len([*other_work(pair)]), len([*reasons(pair)])),
                not is_unsaid_graph(pair),
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
    # publications do not say what is computed a second time: see other_work
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
    row["differs"] = _joined(map(str, differences(pair)))
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
