"""measurements.tsv.gz, certificates.tsv, limits.tsv -> cells.tsv: a row for each case and metric.

A cell's value is the median over its ok repetitions. What failed, is unsupported or missing is a
row too, with its reason. Flags say what a reader must know before believing a number.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from dlperf import workloads
from dlperf.analysis.round import certificates, flags, labels, metrics
from dlperf.analysis.round.calibration import limits, noise
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, read_table, write_table
from dlperf.analysis.statistics.medians import (
    coefficient_of_variation,
    median,
    median_interval,
    ratio_interval,
)
from dlperf.analysis.statistics.separation import detectable, false_ranking, ranks
from dlperf.scenarios import Metric

#: One reason for a cell without any ok repetition; the first of these that occurs names it.
FAILURES = ("oom", "timeout", "crashed", "unsupported", "missing")


#: What one number alone does not have.
INTERVALS = (
    *("median_low", "median_high", "coverage", "ratio_low", "ratio_high"),
    *("efficiency_low", "efficiency_high", "ratio_coverage"),
)

Certificates = Mapping[certificates.Key, Sequence[Row]]


def cells(measurements: Path, certified: Path, limited: Path | None, out: Path) -> None:
    """Read measurements.tsv.gz, certificates.tsv and limits.tsv, and write cells.tsv.

    `limited` is None for an imported round: nothing of it was probed.
    """
    rows = read_table(measurements)
    proofs = certificates.by_key(read_table(certified))
    asked = list(dict.fromkeys(row["workload"] for row in rows))
    found = summarise(rows, proofs, read_table(limited) if limited else ())
    write_table(out, columns.cells(asked, any(map(labels.imported, rows))), found)


def summarise(rows: Sequence[Row], proofs: Certificates, known: Sequence[Row] = ()) -> list[Row]:
    """Rows of cells.tsv: of each case in `rows`, in their order, one for each metric.

    `known` are the rows of limits.tsv.
    """
    disturbed: flags.Disturbed = {
        "overlapping-repetitions": flags.overlapping(rows),
        "drift": noise.displaced(rows),
        "losses": flags.strange_losses(rows),
    }
    cases = [
        list(own)
        for _, own in groupby(
            rows,
            lambda row: (row["workload"], *labels.series_key(row), row["case"]),
        )
    ]
    spelled = [workloads.case_of_row(own[0]) for own in cases]
    by_place = {_place(case.folder, own[0]): own for case, own in zip(spelled, cases, strict=True)}
    present = {
        scenario: metrics.present(rows, scenario)
        for scenario in dict.fromkeys(row["scenario"] for row in rows)
    }
    found = []
    for case, own in zip(spelled, cases, strict=True):
        base_case = workloads.facts(case.workload).base(case)
        base = own if base_case == case else by_place.get(_place(base_case.folder, own[0]), [])
        proof = proofs.get(certificates.key(own[0]), [])
        first, *others = present[case.scenario]
        cell = _cell(own, base, first, disturbed, proof, known)
        found.append(cell)
        found += [_other(cell, own, base, metric) for metric in others]
    _rank(found)
    return found


def _place(folder: str, row: Row) -> tuple[object, ...]:
    """What a case's base has in common with it, beside its folder.

    Imported are several implementations of one framework, and tables with batches of their own.
    """
    return folder, row.get("implementation"), row["table"] if labels.imported(row) else ""


def _values(rows: Iterable[Row], metric: Metric) -> list[float]:
    found = (row.get(metric.name) for row in rows if row["status"] == "ok")
    return [value for value in found if value is not None]


def _cell(
    rows: list[Row],
    base: list[Row],
    metric: Metric,
    disturbed: flags.Disturbed,
    proof: Sequence[Row],
    known: Sequence[Row],
) -> Row:
    """The row of the scenario's own metric, with all that is known of the case."""
    first = rows[0]
    ok = [row for row in rows if row["status"] == "ok"]
    statuses = Counter(row["status"] for row in rows)
    own = columns.dimensions([first["workload"]])
    kept = ("round", "table", "case", *columns.CASE, *own, *columns.SETTINGS)
    cell: Row = {key: first[key] for key in kept}
    cell |= {key: first[key] for key in columns.IMPORTED if key in first}
    failure = next((status for status in FAILURES if statuses[status]), "")
    cell |= {
        "status": "ok" if ok else failure,
        "reason": next((row["reason"] for row in rows if row["status"] == failure), ""),
        "n_ok": len(ok),
        "n_asked": len(rows),
        **_of_metric(first, metric),
    }
    cell |= {f"n_{status}": statuses[status] for status in ("oom", "timeout", "crashed", "missing")}
    made_with = {tuple(row[key] for key in columns.MADE_WITH) for row in ok}
    if labels.imported(first):
        cell["certificate"] = "none"  # whoever measured it did not prove equal work
    elif failure != "unsupported":
        cell["certificate"] = certificates.standing(proof, made_with)
    if not ok:
        return cell
    cell |= _summary(rows, base, metric)
    cell |= {
        "n_outliers": sum(bool(row["outlier"]) for row in ok),
        "host_peak_rss_bytes": _largest(ok, "host_peak_rss_bytes"),
        "device_peak_bytes": _largest(ok, "device_peak_bytes"),
        "loader_share": _median_of(ok, "loader_share"),
        "loss_first": _median_of(ok, "loss_first"),
        "loss_last": _median_of(ok, "loss_last"),
    }
    if metric.name == "throughput":
        cell |= limits.utilisation(cell, ok, known)
    warnings = [*flags.found(cell, ok, disturbed)]
    if not labels.imported(first):
        warnings += certificates.flags(proof, made_with)
    cell["flags"] = " ".join(warnings)
    return cell


def _other(cell: Row, rows: list[Row], base: list[Row], metric: Metric) -> Row:
    """The row of another metric: its own numbers, and what makes the case's believable."""
    case = {key: value for key, value in cell.items() if key not in columns.OF_METRIC}
    found = {**case, **_of_metric(rows[0], metric)}
    values = _values(rows, metric)
    if values:
        found |= {"n_ok": len(values), **_summary(rows, base, metric)}
    elif cell["status"] == "ok":
        found |= {"status": "missing", "reason": f"no {metric.title.lower()} was recorded"}
    return found


def _of_metric(row: Row, metric: Metric) -> Row:
    """What a metric is: name, unit, and which way is better."""
    unit = metric.unit_of(workloads.facts(row["workload"]).UNIT)
    return {"metric": metric.name, "unit": unit, "better": metric.better}


def _summary(rows: list[Row], base: list[Row], metric: Metric) -> Row:
    """Median, interval and scatter of a metric, and its ratio to the base's."""
    values, devices = _values(rows, metric), labels.devices(rows[0])
    interval = median_interval(values)
    found: Row = {
        "median": median(values),
        "median_low": interval.low,
        "median_high": interval.high,
        "coverage": interval.coverage,
        "cv": coefficient_of_variation(values),
        "detectable": detectable(values),
    }
    under = _values(base, metric)
    if base is rows:
        # A cell against itself: the ratio is 1 by definition, not a measurement.
        found |= dict.fromkeys(("ratio", "ratio_low", "ratio_high", "ratio_coverage"), 1.0)
    elif under:
        ratio = ratio_interval(values, under)
        found |= {
            "ratio": median(values) / median(under),
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "ratio_coverage": ratio.coverage,
        }
    if metric.adds_up and "ratio" in found:
        more = devices / labels.devices(base[0])
        for end in ("", "_low", "_high"):
            found[f"efficiency{end}"] = found[f"ratio{end}"] / more
    if labels.imported(rows[0]) and len(values) == 1:
        # somebody's median: an interval around one number would be made up
        found |= dict.fromkeys(INTERVALS)
    return found


def _largest(rows: Iterable[Row], key: str) -> int | None:
    return max((row[key] for row in rows if row[key] is not None), default=None)


def _median_of(rows: Iterable[Row], key: str) -> float | None:
    values = [row[key] for row in rows if row[key] is not None]
    return median(values) if values else None


def _rank(found: Iterable[Row]) -> None:
    """Add rank, rank_last and rank_error to the cells of each table, topology and metric.

    Only cells whose equal work is certified have a rank, and only where two or more of them have
    two repetitions or more: a single one has no interval. Suspects keep theirs, with their flag.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for cell in found:
        if flags.comparable(cell) and cell["n_ok"] > 1:
            key = cell["table"], cell["nodes"], cell["devices_per_node"], cell["metric"]
            groups.setdefault(key, []).append(cell)
    for own in groups.values():
        if len(own) < 2:
            continue
        sign = -1 if metrics.of_row(own[0]).lower_is_better else 1
        ends = [sorted((sign * cell["median_low"], sign * cell["median_high"])) for cell in own]
        places = ranks([(low, high) for low, high in ends])
        error = false_ranking(tuple(sorted(cell["n_ok"] for cell in own)))
        for cell, (best, last) in zip(own, places, strict=True):
            cell |= {"rank": best, "rank_last": last, "rank_error": error}
