"""measurements.tsv.gz, certificates.tsv, limits.tsv -> cells.tsv: a row a case with all of it.

A cell's value is the median over its ok repetitions. What failed, is unsupported or missing is a
row too, with its reason. Flags say what a reader must know before believing a number.
"""

import statistics as means
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from dlperf.analysis.round import certificates, flags, labels
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

#: One reason for a cell without any ok repetition; the first of these that occurs names it.
FAILURES = ("oom", "timeout", "crashed", "unsupported", "missing")


#: What one number alone does not have.
INTERVALS = (
    *("throughput_low", "throughput_high", "coverage", "speedup_low", "speedup_high"),
    *("efficiency_low", "efficiency_high", "ratio_coverage"),
)

Certificates = Mapping[certificates.Key, Sequence[Row]]


def cells(measurements: Path, certified: Path, limited: Path | None, out: Path) -> None:
    """Read measurements.tsv.gz, certificates.tsv and limits.tsv, and write cells.tsv.

    `limited` is None for an imported round: nothing of it was probed.
    """
    rows = read_table(measurements)
    proofs = certificates.by_key(read_table(certified))
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    imported = any(map(labels.imported, rows))
    dimensions = columns.dimensions(workloads)
    if imported:  # several implementations of one framework, and a table's own batches, stay apart
        dimensions += ["implementation", "table"]
    found = summarise(rows, dimensions, proofs, read_table(limited) if limited else ())
    write_table(out, columns.cells(workloads, imported), found)


def summarise(
    rows: Sequence[Row],
    dimensions: Sequence[str],
    proofs: Certificates,
    known: Sequence[Row] = (),
) -> list[Row]:
    """A row for each case in `rows`, in their order; `known` are the rows of limits.tsv."""
    disturbed: flags.Disturbed = {
        "overlapping-repetitions": flags.overlapping(rows),
        "drift": noise.displaced(rows),
    }
    cases = [
        list(own)
        for _, own in groupby(
            rows,
            lambda row: (row["workload"], *labels.series_key(row), row["case"]),
        )
    ]
    speeds = {_point(own[0], dimensions): _speeds(own) for own in cases}
    found = []
    for own in cases:
        base = speeds.get(_point(own[0], dimensions, nodes=1, devices_per_node=1), [])
        proof = proofs.get(certificates.key(own[0]), [])
        found.append(_cell(own, base, disturbed, dimensions, proof, known))
    _rank(found)
    return found


def _point(row: Row, dimensions: Sequence[str], **changed: int) -> tuple[object, ...]:
    return tuple(changed.get(key, row[key]) for key in (*columns.CASE, *dimensions))


def _speeds(rows: Iterable[Row]) -> list[float]:
    return [row["throughput"] for row in rows if row["status"] == "ok"]


def _cell(
    rows: list[Row],
    base: list[float],
    disturbed: flags.Disturbed,
    dimensions: Sequence[str],
    proof: Sequence[Row],
    known: Sequence[Row],
) -> Row:
    first, speeds = rows[0], _speeds(rows)
    ok = [row for row in rows if row["status"] == "ok"]
    statuses = Counter(row["status"] for row in rows)
    kept = ("round", "table", "case", *columns.CASE, *dimensions, *columns.SETTINGS)
    cell: Row = {key: first[key] for key in kept}
    cell |= {key: first[key] for key in columns.IMPORTED if key in first}
    failure = next((status for status in FAILURES if statuses[status]), "")
    cell |= {
        "status": "ok" if speeds else failure,
        "reason": next((row["reason"] for row in rows if row["status"] == failure), ""),
        "n_ok": len(speeds),
        "n_asked": len(rows),
        "unit": next((row["unit"] for row in rows if row["unit"]), ""),
    }
    cell |= {f"n_{status}": statuses[status] for status in ("oom", "timeout", "crashed", "missing")}
    made_with = {tuple(row[key] for key in columns.MADE_WITH) for row in ok}
    if labels.imported(first):
        cell["certificate"] = "none"  # whoever measured it did not prove equal work
    elif failure != "unsupported":
        cell["certificate"] = certificates.standing(proof, made_with)
    if not speeds:
        return cell
    interval = median_interval(speeds)
    cell |= {
        "throughput": median(speeds),
        "throughput_low": interval.low,
        "throughput_high": interval.high,
        "coverage": interval.coverage,
        "cv": coefficient_of_variation(speeds),
        "detectable": detectable(speeds),
        "n_outliers": sum(bool(row["outlier"]) for row in ok),
        "host_peak_rss_bytes": _largest(ok, "host_peak_rss_bytes"),
        "device_peak_bytes": _largest(ok, "device_peak_bytes"),
        "joules_per_sample": _joules_per_sample(ok),
        "loader_share": _median_of(ok, "loader_share"),
        "loss_first": _median_of(ok, "loss_first"),
        "loss_last": _median_of(ok, "loss_last"),
    }
    cell |= limits.utilisation(cell, ok, known)
    devices = cell["nodes"] * cell["devices_per_node"]
    if devices == 1:
        # A cell against itself: the ratio is 1 by definition, not a measurement.
        cell |= dict.fromkeys(("speedup", "speedup_low", "speedup_high"), 1.0)
        cell |= dict.fromkeys(("efficiency", "efficiency_low", "efficiency_high"), 1.0)
        cell["ratio_coverage"] = 1.0
    elif base:
        ratio = ratio_interval(speeds, base)
        cell |= {
            "speedup": median(speeds) / median(base),
            "speedup_low": ratio.low,
            "speedup_high": ratio.high,
            "efficiency": median(speeds) / median(base) / devices,
            "efficiency_low": ratio.low / devices,
            "efficiency_high": ratio.high / devices,
            "ratio_coverage": ratio.coverage,
        }
    warnings = [*flags.found(cell, ok, disturbed)]
    if not labels.imported(first):
        warnings += certificates.flags(proof, made_with)
    elif len(speeds) == 1:  # somebody's median: an interval around one number would be made up
        cell |= dict.fromkeys(INTERVALS)
    cell["flags"] = " ".join(warnings)
    return cell


def _largest(rows: Iterable[Row], key: str) -> int | None:
    return max((row[key] for row in rows if row[key] is not None), default=None)


def _median_of(rows: Iterable[Row], key: str) -> float | None:
    values = [row[key] for row in rows if row[key] is not None]
    return median(values) if values else None


def _joules_per_sample(rows: Iterable[Row]) -> float | None:
    values = [row["energy_joules"] / row["samples"] for row in rows if row["energy_joules"]]
    return means.median(values) if values else None


def _rank(found: Iterable[Row]) -> None:
    """Add rank, rank_last and rank_error to the cells of each table and topology.

    Only cells whose equal work is certified have a rank, and only where two or more of them have
    two repetitions or more: a single one has no interval. Suspects keep theirs, with their flag.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for cell in found:
        if flags.comparable(cell) and cell["n_ok"] > 1:
            key = cell["table"], cell["nodes"], cell["devices_per_node"]
            groups.setdefault(key, []).append(cell)
    for own in groups.values():
        if len(own) < 2:
            continue
        places = ranks([(cell["throughput_low"], cell["throughput_high"]) for cell in own])
        error = false_ranking(tuple(sorted(cell["n_ok"] for cell in own)))
        for cell, (best, last) in zip(own, places, strict=True):
            cell |= {"rank": best, "rank_last": last, "rank_error": error}
