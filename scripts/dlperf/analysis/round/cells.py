"""measurements.tsv.gz, certificates.tsv, checks.tsv, limits.tsv -> cells.tsv: a row for each case
and metric, and those that are derived from them (derived.py).

A cell's value is the median over its ok repetitions. What failed, is unsupported or missing is a
row too, with its reason. Flags say what a reader must know before believing a number.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import pandas

from dlperf import workloads
from dlperf.analysis import frames
from dlperf.analysis.round import (
    certificates,
    checks,
    derived,
    flags,
    labels,
    metrics,
    names,
    pipelines,
    ran,
)
from dlperf.analysis.round.calibration import limits
from dlperf.analysis.round.repetitions import Repetitions, by_case
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, write_table
from dlperf.analysis.schema.rows import (
    Cell,
    Certificate,
    Check,
    Limit,
    read_certificates,
    read_checks,
    read_limits,
)
from dlperf.analysis.statistics import alike
from dlperf.analysis.statistics.medians import (
    coefficient_of_variation,
    median,
    median_interval,
    ratio_interval,
)
from dlperf.analysis.statistics.separation import LEAST, detectable, higher, ranks
from dlperf.contract.case import Case
from dlperf.scenarios import Metric
from dlperf.workloads.cases import base_case, case_of_row

#: One reason for a cell without any ok repetition; the first of these that occurs names it.
FAILURES = ("oom", "timeout", "crashed", "unsupported", "missing")


#: Undefined for a single published value.
INTERVAL = ("median_low", "median_high", "coverage")
RATIO_INTERVAL = (
    *("ratio_low", "ratio_high", "efficiency_low", "efficiency_high"),
    "ratio_coverage",
)

Certificates = Mapping[certificates.Key, Sequence[Certificate]]


class Proof(NamedTuple):
    """What proves a cell: rows of its case's certificate and of its spot check, the codes and locks
    that its repetitions were made with, and the sha256 of all that these imported."""

    tiers: Sequence[Certificate]
    checks: Sequence[Check]
    made_with: set[tuple[str, ...]]
    ran: set[str]


def cells(
    measurements: Path, certified: Path, checked: Path, limited: Path | None, out: Path
) -> None:
    """Read measurements.tsv.gz, certificates.tsv, checks.tsv and limits.tsv; write cells.tsv.

    `limited` is None for an imported round: nothing of it was probed.
    """
    measured = frames.read(measurements)
    proofs = certificates.by_key(read_certificates(certified))
    spots = checks.by_case(read_checks(checked))
    found = summarise(measured, proofs, read_limits(limited) if limited else (), spots)
    wanted = [*columns.of_rows(found), *columns.DERIVED]
    kinds = columns.numbers(wanted)
    nothing = {name: None if name in kinds else "" for name in wanted}
    complete = [{**nothing, **row} for row in found]
    write_table(out, wanted, [*complete, *derived.rows(cast(list[Cell], complete))])


def summarise(
    measured: pandas.DataFrame,
    proofs: Certificates,
    known: Sequence[Limit] = (),
    spots: Mapping[tuple[str, str, str], Sequence[Check]] = {},
) -> list[Row]:
    """Rows of cells.tsv: of each case in `measured`, in their order, one for each metric.

    `known` are the rows of limits.tsv, `spots` those of checks.tsv by case.
    """
    cases = by_case(measured)
    spelled = [case_of_row(each.first) for each in cases]
    by_place = {
        _place(case.folder, each.first): each for case, each in zip(spelled, cases, strict=True)
    }
    present = {
        scenario: metrics.present(_having(measured[measured["scenario"] == scenario]), scenario)
        for scenario in measured["scenario"].unique()
    }
    of_cases = [
        [
            metric.of(case.workload)
            for metric in present[case.scenario]
            if metric.is_of(case.workload)
        ]
        for case in spelled
    ]
    proven = [_proof(case, each, proofs, spots) for case, each in zip(spelled, cases, strict=True)]
    rows = [
        _cell(each, own[0], proof, known)
        for each, own, proof in zip(cases, of_cases, proven, strict=True)
    ]
    # these are the baseline of no ratio
    excluded = {id(each) for each, cell in zip(cases, rows, strict=True) if flags.excluding(cell)}
    found: list[tuple[Row, Sequence[float]]] = []
    for case, each, proof, cell, (first, *others) in zip(
        spelled, cases, proven, rows, of_cases, strict=True
    ):
        over = base_case(case)
        place = _place(over.folder, each.first)
        base = each if over == case else by_place.get(place)
        base = base or _of_more_micro_steps(over, each, spelled, cases)
        full = next(
            (
                by_place[place]
                for precision in names.full_precisions(case.precision)
                if (place := _place(replace(case, precision=precision).folder, each.first))
                in by_place
            ),
            None,
        )
        together = by_place.get(_place(_sharing(case, each.first).folder, each.first))
        if case.searched:  # on other devices it may be another size, so other work
            base = together = None
        lacking: list[str] = []
        if base and base is not each and id(base) in excluded:
            base, lacking = None, [*lacking, flags.NO_SPEED_UP]
        if full and id(full) in excluded:
            full, lacking = None, [*lacking, flags.NO_PRECISION_RATIO]
        if together and together is not each and id(together) in excluded:
            together, lacking = None, [*lacking, flags.NO_GLOBAL_BATCH_RATIO]
        if cell["status"] == "ok":
            cell |= _over_base(each, base, first)
            cell |= _of_pipeline(case, each, by_place, excluded)
            if base and _lost_graphs(base, each):
                lacking.append(flags.OTHER_BASELINE)
            cell["flags"] = _flags(cell, [*each.flags, *lacking], proof)
        own = [cell, *(_other(cell, each, base, metric) for metric in others)]
        for row in own:
            row |= _over_precision(each, full, row["metric"])
            row |= _over_together(each, together, row["metric"])
            found.append((row, each.values[row["metric"]]))
    _rank(found)
    _compare_convergence(found)
    return [cell for cell, _ in found]


def _sharing(case: Case, row: Row) -> Case:
    """The base of a case whose batch of all devices is asked for: the same batch, on its devices.

    The case itself where its batch is that of a device.
    """
    total, base = row["global_batch_size"], base_case(case)
    if not total:
        return case
    return replace(base, batch_size=total // base.layout.global_batch_size(1, base.devices))


def _lost_graphs(base: Repetitions, own: Repetitions) -> bool:
    """Whether the baseline's steps are replayed as CUDA graphs, and a cell's are not."""
    there, here = ({row["cuda_graphs"] for row in each.kinds} for each in (base, own))
    return "captured" in there and "none" in here


def _having(measured: pandas.DataFrame) -> list[str]:
    """The metrics that any of these repetitions has."""
    return [name for name in columns.METRICS if name in measured and measured[name].notna().any()]


def _place(folder: str, row: Row) -> tuple[object, ...]:
    """What a case's base has in common with it: a publication's own words, beside its folder."""
    return folder, *(row.get(key) for key in columns.PUBLISHED)


def _of_more_micro_steps(
    over: Case, own: Repetitions, spelled: Sequence[Case], cases: Sequence[Repetitions]
) -> Repetitions | None:
    """The base in a publication whose updates take fewer micro-steps on more devices."""
    if "estimator" not in own.first:
        return None
    place = _place(_of_one_step(over).folder, own.first)
    return next(
        (
            each
            for case, each in zip(spelled, cases, strict=True)
            if _place(_of_one_step(case).folder, each.first) == place
            and each.first["table"] == own.first["table"]
        ),
        None,
    )


def _of_one_step(case: Case) -> Case:
    return replace(case, layout=replace(case.layout, accumulation=1))


def _cell(own: Repetitions, metric: Metric, proof: Proof, known: Sequence[Limit]) -> Row:
    """The row of the scenario's own metric, with all that is known of the case beside no other."""
    first, n_ok = own.first, own.statuses.get("ok", 0)
    kept = (
        *(
            "round",
            "table",
            "case",
            "global_batch_size",
            *columns.CASE,
            *columns.dimensions([first["workload"]]),
        ),
        *columns.SETTINGS,
    )
    failure = next((status for status in FAILURES if own.statuses.get(status)), "")
    cell: Row = {key: first[key] for key in kept}
    cell |= {key: first[key] for key in columns.IMPORTED if key in first}
    cell |= {
        "status": "ok" if n_ok else failure,
        "reason": own.reasons.get(failure, ""),
        "n_ok": n_ok,
        "n_asked": own.asked,
        **_of_metric(first, metric),
    }
    counted = ("oom", "timeout", "crashed", "missing")
    cell |= {f"n_{status}": own.statuses.get(status, 0) for status in counted}
    if failure != "unsupported":
        cell["certificate"] = certificates.standing(proof.tiers, proof.made_with)
        cell["check"] = checks.standing(proof.checks, proof.made_with)
    if not n_ok:
        return cell
    cell |= _summary(own, metric) | own.summary
    if metric.name == "throughput":
        cell |= limits.utilisation(cell, own.kinds, known)
    cell["flags"] = _flags(cell, own.flags, proof)
    return cell


def _proof(
    case: Case,
    own: Repetitions,
    proofs: Certificates,
    spots: Mapping[tuple[str, str, str], Sequence[Check]],
) -> Proof:
    made_with = {tuple(row[key] for key in columns.MADE_WITH) for row in own.kinds}
    return Proof(
        proofs.get(certificates.key(own.first, case), []),
        spots.get((case.workload, case.framework, own.first["case"]), ()),
        made_with,
        {row["ran_beside_sha256"] for row in own.kinds},
    )


def _flags(cell: Row, raised: Sequence[str], proof: Proof) -> str:
    found = [
        *flags.found(cell, {*raised, *ran.flags(proof.checks, proof.made_with, proof.ran)}),
        *certificates.flags(proof.tiers, proof.made_with),
        *checks.flags(proof.checks, proof.made_with),
    ]
    return " ".join(found)


def _other(cell: Row, own: Repetitions, base: Repetitions | None, metric: Metric) -> Row:
    """The row of another metric: its own numbers, and what makes the case's believable."""
    case = {key: value for key, value in cell.items() if key not in columns.OF_METRIC}
    found = {**case, **_of_metric(own.first, metric)}
    values, ok = own.values[metric.name], own.statuses.get("ok", 0)
    # of repetitions of which some lack it for a reason, the others would be a selection
    if values and (len(values) == ok or not metric.lacking):
        found |= {"n_ok": len(values), **_summary(own, metric), **_over_base(own, base, metric)}
    elif cell["status"] == "ok":
        found |= {
            "status": "missing",
            "reason": metric.lacking or f"no {metric.title.lower()} was recorded",
        }
        if values:
            found["reason"] += f" ({len(values)} of {ok} repetitions have it)"
    return found


def _of_metric(row: Row, metric: Metric) -> Row:
    """What a metric is: name, unit, and which way is better."""
    unit = metric.unit_of(workloads.of(row["workload"]).unit)
    return {"metric": metric.name, "unit": unit, "better": metric.better}


def _summary(own: Repetitions, metric: Metric) -> Row:
    """Median, interval and scatter of a metric."""
    values = own.values[metric.name]
    interval = median_interval(values)
    found: Row = {
        "median": median(values),
        "median_low": interval.low,
        "median_high": interval.high,
        "coverage": interval.coverage,
        "cv": coefficient_of_variation(values),
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "minimum": min(values),
        "maximum": max(values),
    }
    if _estimated(own, metric):
        found |= dict.fromkeys(INTERVAL)
    return found


def _over_base(own: Repetitions, base: Repetitions | None, metric: Metric) -> Row:
    """A metric's ratio to the baseline's, and its scaling efficiency."""
    found: Row = {}
    values = own.values[metric.name]
    under = base.values[metric.name] if base else ()
    if base is own:
        # A cell against itself: the ratio is 1 by definition, not a measurement.
        found |= dict.fromkeys(("ratio", "ratio_low", "ratio_high", "ratio_coverage"), 1.0)
    elif under:
        found |= _ratio("ratio", values, under)
    if metric.adds_up and base and "ratio" in found:
        more = labels.devices(own.first) / labels.devices(base.first)
        for end in ("", "_low", "_high"):
            found[f"efficiency{end}"] = found[f"ratio{end}"] / more
    if _estimated(own, metric):
        found |= dict.fromkeys(RATIO_INTERVAL)
    return found


def _estimated(own: Repetitions, metric: Metric) -> bool:
    """Whether this is somebody's single estimate: an interval around it would be made up."""
    return len(own.values[metric.name]) == 1 and "estimator" in own.first


def _over_precision(own: Repetitions, full: Repetitions | None, metric: str) -> Row:
    """A metric's ratio to that of the same work in a full precision; of what was measured here."""
    if not full or not own.values[metric] or not full.values[metric] or "estimator" in own.first:
        return {}
    return {
        "precision_base": full.first["precision"],
        **_ratio("precision_ratio", own.values[metric], full.values[metric]),
    }


def _over_together(own: Repetitions, base: Repetitions | None, metric: str) -> Row:
    """A metric's ratio to that of the same batch of all devices, on the base's devices."""
    if not own.first["global_batch_size"] or not base or not own.values[metric]:
        return {}
    if base is own:
        ends = ("", "_low", "_high", "_coverage")
        return {f"together_ratio{end}": 1.0 for end in ends}  # by definition
    under = base.values[metric]
    return _ratio("together_ratio", own.values[metric], under) if under else {}


def _of_pipeline(
    case: Case,
    own: Repetitions,
    by_place: Mapping[tuple[object, ...], Repetitions],
    excluded: set[int],
) -> Row:
    """What a pipeline leaves unused: measured where this round has its layout without stages."""
    bubble = pipelines.bubble(case)
    if bubble is None or "estimator" in own.first:
        return {}
    for alone in pipelines.without_stages(case):
        other = by_place.get(_place(alone.folder, own.first))
        if other and other.values["throughput"] and id(other) not in excluded:
            values = own.values["throughput"], other.values["throughput"]
            return {"bubble": bubble, **pipelines.idle(case.layout.pipeline_parallel, *values)}
    return {"bubble": bubble}


def _ratio(name: str, values: Sequence[float], under: Sequence[float]) -> Row:
    """The ratio of two medians, with its interval and coverage."""
    found = ratio_interval(values, under)
    return {
        name: median(values) / median(under),
        f"{name}_low": found.low,
        f"{name}_high": found.high,
        f"{name}_coverage": found.coverage,
    }


def _compare_convergence(found: Iterable[tuple[Row, Sequence[float]]]) -> None:
    """Add to the samples that trainings take to the target whether they are as many as others'."""
    groups: dict[tuple[object, ...], list[tuple[Row, Sequence[float]]]] = {}
    for cell, values in found:
        if cell["metric"] == "samples_to_target" and flags.rankable(cell):
            key = cell["table"], labels.by_place(cell)
            groups.setdefault(key, []).append((cell, values))
    for own in groups.values():
        verdicts = alike.compare([values for _, values in own])
        for (cell, _), verdict in zip(own, verdicts, strict=True):
            if verdict:
                cell |= {
                    "convergence": verdict.verdict,
                    "convergence_ratio": verdict.ratio,
                    "convergence_low": verdict.low,
                    "convergence_high": verdict.high,
                    "convergence_p": verdict.p,
                }


def _rank(found: Iterable[tuple[Row, Sequence[float]]]) -> None:
    """Add rank, rank_last and detectable to the cells of each table, topology, layout and metric.

    `found` has each cell with its values. Only cells whose equal work is certified, and which no
    flag excludes, have a rank, and only where two or more of them have two repetitions or more: a
    single one has no scatter. Where the timed process of any is proved, only those are ranked whose
    is. Other suspects keep theirs, with their flag.
    """
    groups: dict[tuple[object, ...], list[tuple[Row, Sequence[float]]]] = {}
    for cell, values in found:
        if cell["status"] == "ok" and not cell.get("searched"):  # of equal work only
            key = cell["table"], labels.by_place(cell), cell["metric"]
            groups.setdefault(key, []).append((cell, values))
    for own in groups.values():
        ranked = [(cell, values) for cell, values in own if flags.rankable(cell)]
        proved = [pair for pair in ranked if pair[0].get("check") == checks.PASSED]
        for cell, _ in ranked if proved else ():  # ranked among their like
            if cell["check"] != checks.PASSED:
                cell["flags"] = " ".join(filter(None, (cell["flags"], flags.UNCHECKED)))
        ranked = proved or ranked
        ranked = [(cell, values) for cell, values in ranked if len(values) > 1]
        judged = sum(len(values) >= LEAST for _, values in ranked)
        for cell, values in own:
            cell["detectable"] = detectable(values, max(2, judged))
        if len(ranked) < 2:
            continue
        better = higher([values for _, values in ranked])
        if metrics.of_row(ranked[0][0]).lower_is_better:
            better = better.T
        for (cell, _), (best, last) in zip(ranked, ranks(better), strict=True):
            cell |= {"rank": best, "rank_last": last}
