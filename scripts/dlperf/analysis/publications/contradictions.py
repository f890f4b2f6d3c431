"""Where a publication contradicts itself.

In: the rows of its tables, and their ratios, computed again. Out: a row of contradictions.tsv a
finding.
"""

import csv
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dlperf.analysis.publications import times
from dlperf.analysis.publications.published import of_model
from dlperf.analysis.publications.ratios import Ratio
from dlperf.analysis.publications.rows import (
    TIDY,
    Row,
    case,
    flag,
    group,
    in_table,
    place,
    point,
    where,
)
from dlperf.analysis.schema.files import AnalysisError

FOUND = ("kind", "publication", "where", "finding", "rows")
#: Kinds of contradictions, as they are headed.
KINDS = {
    "ratio": "Ratios that do not follow from the printed numbers",
    "two-values": "One cell, printed with two values",
    "copied": "Numbers copied from another case",
    "above-linear": "Scaling above the number of devices, without a word",
    "order": "A mean above the 99th percentile",
    "unit": "Units that do not fit",
    "summary": "Means and deviations that do not follow from the seeds",
    "extrapolated": "Times to train that follow from printed speeds",
    "work": "Times and speeds that are not of the same work",
    "update": "Updates of another size than the others have",
    "a-device": "Sizes of each device, headed as those of all",
    "not-computable": "Ratios whose base was not published",
    "by-hand": "Found by reading scripts and pages, not from these tables",
}


def contradictions(
    rows: Sequence[Row], found: Sequence[Ratio], known: Path
) -> list[dict[str, str]]:
    """Every place where a publication contradicts itself, each as a row of contradictions.tsv, and
    the `round` of the publication.

    Rows of the tidy form may be repetitions of one case, so that equal or different values of it
    say nothing.
    """
    printed = [row for row in rows if row.get("form") != TIDY]
    listed = [
        *_wrong_ratios(found),
        *_two_values(printed),
        *_copied(printed),
        *_above_linear(rows),
        *_order(rows),
        *_units(rows),
        *_seeds(rows),
        *_of_times(rows),
        *_a_device(rows),
        *_not_computable(found),
    ]
    if known.exists():
        with open(known, encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            for column in ("publication", "where", "finding", "how_known"):
                if column not in (reader.fieldnames or ()):
                    raise AnalysisError(f"{known}: line 1: the column {column!r} is missing")
            for row in reader:
                finding = f"{row['finding']} (known from: {row['how_known']})"
                own = {key: row[key] for key in ("publication", "where")}
                own |= {"kind": "by-hand", "finding": finding, "rows": "", "round": ""}
                listed.append(own)
    return listed


def _entry(kind: str, rows: Sequence[Row], where: str, finding: str) -> dict[str, str]:
    return {
        "kind": kind,
        "publication": rows[0]["publication"],
        "where": where,
        "finding": finding,
        "rows": " ".join(map(place, rows)),
        "round": rows[0]["round"],
    }


def _wrong_ratios(found: Sequence[Ratio]) -> Iterator[dict[str, str]]:
    for each in found:
        if each.status == "contradicts":
            assert each.recomputed is not None
            finding = f"{each.what} printed as {each.published:g}; {each.recomputed:.4g} follows"
            if each.numerator and each.denominator:
                finding += f" from {each.numerator:g} / {each.denominator:g}"
            if each.rounded:
                finding += ", whose rounding allows for it"
            yield _entry("ratio", [each.row], where(each.row), finding)


def _not_computable(found: Sequence[Ratio]) -> Iterator[dict[str, str]]:
    """One line a table and metric: there are hundreds of them."""
    groups: dict[tuple[str, ...], list[Ratio]] = {}
    for each in found:
        if each.status == "not computable":
            key = each.row["file"], each.row["table"], each.row["metric"], each.reason
            groups.setdefault(key, []).append(each)
    for (_, table, metric, reason), own in groups.items():
        rows = [each.row for each in own]
        finding = f"{len(own)} of {own[0].what} ({metric}) cannot be computed again: {reason}"
        yield _entry("not-computable", rows, f"{rows[0]['report']}, {table}", finding)


def _two_values(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Numbers of one publisher; that another one measured something else is no contradiction."""
    for own in group((row for row in rows if row["value"]), point).values():
        values = list(dict.fromkeys(float(row["value"]) for row in own))
        if len(values) > 1:
            said = "; ".join(
                f"{row['value']} in {row['report']}, {row['table']}"
                + (f" (speed-up {row['speedup']})" if row.get("speedup") else "")
                for row in own
            )
            yield _entry("two-values", own, case(own[0]), said)


def _copied(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """The same numbers, in the same order, for another case of the same table or another one."""
    keys = ("file", "table", "model", "implementation", "metric", "bsz_per_device", "gpu")
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["metric"] in ("throughput", "time_to_train", "latency_per_iter") and row["value"]:
            more = () if row["metric"] == "throughput" else ("nodes", "devices", "dataset")
            also = [row.get(key) or "" for key in (*keys, *more)]
            if row["metric"] == "time_to_train":
                also[5] = ""  # precisions have their own batch
            flags = [flag(row, key) for key in ("xla", "dali")] + [row.get("clip") or ""]
            groups.setdefault((*also, *flags, row.get("backbone") or ""), []).append(row)
    seen: dict[tuple[str, ...], list[Row]] = {}
    for own in groups.values():
        values = tuple(row["value"] for row in own)
        digits = [value for value in values if len(value.replace(".", "")) > 2]
        if len(digits) < 2:
            continue
        other = seen.setdefault((own[0]["file"], own[0]["metric"], *values), own)
        if other is not own and point(other[0], ("group",)) != point(own[0], ("group",)):
            finding = f"{', '.join(values)} stand in {other[0]['table']} too, for {case(other[0])}"
            yield _entry("copied", own, where(own[0]), finding)


def _above_linear(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Over the fewest devices of the same table: another table may have been measured otherwise.

    They may have other micro-steps; of several, those with as many count, or the fastest. Cases
    with names of their own differ in more than devices.
    """

    def over(row: Row) -> tuple[str, ...]:
        return *in_table(row), *point(row, ("nodes", "gpus_per_node", "group", "case"))

    speeds = [
        row
        for row in rows
        if row["metric"] == "throughput" and row["value"] and not of_model(row["model"]).cases
    ]
    for own in group(speeds, over).values():
        fewest = min(int(row["devices"]) for row in own)
        bases = [row for row in own if int(row["devices"]) == fewest]
        bases.sort(key=lambda row: -float(row["value"]))
        for row in own:
            devices = int(row["devices"])
            steps = row.get("accumulation_steps")
            alike = [base for base in bases if base.get("accumulation_steps") == steps]
            base = (alike or bases)[0]
            ratio = float(row["value"]) / float(base["value"])
            if devices > fewest and ratio > devices / fewest:
                one = "one device" if fewest == 1 else f"{fewest} devices"
                finding = f"{ratio:.2f} times {one}, on {devices} devices"
                yield _entry("above-linear", [row], where(row), finding)


def _order(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    latencies = [row for row in rows if row["metric"] == "latency" and row["value"]]
    groups = group(latencies, lambda row: point(row, ("stat", "percentile")))
    for own in groups.values():
        by = {row.get("stat"): row for row in own}
        if {"mean", "p99"} <= by.keys():
            mean, high = float(by["mean"]["value"]), float(by["p99"]["value"])
            if mean > high:
                finding = f"mean latency {mean:g} ms above the 99th percentile, {high:g} ms"
                yield _entry("order", [by["mean"], by["p99"]], where(by["mean"]), finding)


def _units(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    wrong = [row for row in rows if row.get("stat") == "stdev" and "fraction" in row["unit"]]
    for own in group(wrong, lambda row: (row["file"], row["table"], row["metric"])).values():
        values = ", ".join(row["value"] for row in own)
        finding = f"standard deviations as fractions ({values}) beside means in percent"
        yield _entry("unit", own, f"{own[0]['report']}, {own[0]['table']}", finding)


def _of_times(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    for kind, found in (
        ("extrapolated", times.extrapolated(rows)),
        ("work", times.not_the_work(rows)),
        ("update", times.other_updates(rows)),
    ):
        for own, finding in found:
            yield _entry(kind, own, where(own[0]), finding)


def _a_device(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Tables of embeddings whose rows are counted on each device, beside others that count all.

    A row takes its weights and both of Adam's moments, 12 x (width + 1) bytes. Where the memory of
    one of N devices grows by as much with each row, it holds them all.
    """
    printed = [
        row
        for row in rows
        if row["metric"] == "gpu_memory_device0"
        and row["value"]
        and row.get("vocab_size")
        and row.get("embedding_vec_size")
    ]
    for own in group(printed, in_table).values():
        devices, width = int(own[0]["devices"]), int(own[0]["embedding_vec_size"])
        by = {name: dict(_memory(each)) for (name,), each in group(own, _made_by).items()}
        growth = {name: slope(memory) for name, memory in by.items()}
        least = 12 * (width + 1)
        each_holds = [name for name in by if devices > 1 and growth[name] >= least]
        for name, other in itertools.product(each_holds, by):
            found, beside = by[name], by[other]
            both = [size for size in found if size in beside and size * devices in beside]
            if other in each_holds or not both:
                continue
            most = max(both)
            finding = (
                f"{name}'s rows are those of each of {devices} devices: its memory grows by "
                f"{growth[name]:.0f} B a row on one of them, where weights and moments take "
                f"{least}; {other}'s grows by {growth[other]:.1f}, "
                f"{growth[other] * devices:.0f} in all. "
                f"{other} takes {beside[most] / found[most]:.0%} of {name}'s memory as printed, at"
                f" {most:,} rows; with equal rows, {most * devices:,} in all, it takes "
                f"{beside[most * devices] / found[most]:.0%}"
            )
            shown = [row for row in own if row["implementation"] == name]
            yield _entry("a-device", shown, f"{own[0]['report']}, {own[0]['table']}", finding)


def _made_by(row: Row) -> tuple[str]:
    return (row["implementation"],)


def _memory(rows: Sequence[Row]) -> Iterator[tuple[int, float]]:
    """(rows of a table, bytes of memory): what a driver calls MB are MiB."""
    for row in rows:
        yield int(row["vocab_size"]), float(row["value"]) * 2**20


def slope(values: Mapping[int, float]) -> float:
    """What each one more adds, by least squares; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    return statistics.linear_regression(list(values), list(values.values())).slope


def _seeds(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Mean and sample standard deviation of the printed seeds, to one unit of the last place."""
    named = [row for row in rows if row.get("stat") and row["value"]]
    groups = group(named, lambda row: (row["file"], row["table"], *point(row, ("stat",))))
    for own in groups.values():
        values = [float(row["value"]) for row in own if row["stat"].startswith("seed")]
        by = {row["stat"]: row for row in own}
        if len(values) < 2:
            continue
        for name, computed in (
            ("mean", statistics.fmean(values)),
            ("stdev", statistics.stdev(values)),
        ):
            printed = by.get(name)
            if printed is None:
                continue
            unit = 10.0 ** -len(printed["value"].partition(".")[2])
            if abs(computed - float(printed["value"])) > unit:
                finding = (
                    f"{name} of {len(values)} seeds printed as {printed['value']}; "
                    f"{computed:.4g} follows"
                )
                yield _entry("summary", [printed], where(printed), finding)
