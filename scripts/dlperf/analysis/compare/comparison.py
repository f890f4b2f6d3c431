"""Two rounds -> which cells became slower or faster: a TSV, a page, and lines for a terminal.

In: what merge and cells made of a round and of its baseline. Out: a row for each cell of either.
Two cells are the same if workload, framework and case are: everything that a case's path spells.
They are compared where device, cores and steps agree too, both did certified equal work, and no
flag excludes either. What differs between the two environments stands beside it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import markupsafe
import numpy as np

from dlperf import workloads
from dlperf.analysis.compare import conditions, rounds
from dlperf.analysis.compare.conditions import Differences, key
from dlperf.analysis.compare.rounds import Round
from dlperf.analysis.report import tables
from dlperf.analysis.round import flags, labels
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.files import AnalysisError, read_table, write_table
from dlperf.analysis.schema.rows import Cell, Comparison, value_of
from dlperf.analysis.statistics import ERROR, permutation
from dlperf.analysis.statistics.medians import median
from dlperf.contract.files import write

#: With fewer repetitions a side, ranges are disjoint too often for it to mean anything.
FEWEST = 3
#: Verdicts in the order of tables: heading, and what it means.
VERDICTS = {
    "broken": (
        "Broken",
        "It had a number in the baseline. Now no repetition ends ok, its certificate of equal work "
        "fails, or what it does in its timed window is in doubt.",
    ),
    "regression": ("Regressions", "Significantly worse, and by more than the tolerance."),
    "improvement": ("Improvements", "Significantly better, and by more than the tolerance."),
    "possible regression": (
        "Possible regressions",
        "Worse by more than the tolerance, and every repetition of this round is worse than all "
        "of the baseline. But it is not significant, with so many cells or so few repetitions.",
    ),
    "possible improvement": (
        "Possible improvements",
        "Better by more than the tolerance, and every repetition of this round is better than all "
        "of the baseline. But it is not significant, with so many cells or so few repetitions.",
    ),
    "small difference": (
        "Small differences",
        "Significantly different, but within the tolerance.",
    ),
    "not significantly different": (
        "Not significantly different",
        "Chance does as much. The interval says how large a difference may be hidden.",
    ),
    "too few repetitions": (
        "Too few repetitions",
        "So few repetitions cannot show a significant difference of any size.",
    ),
    "not compared": ("Not compared", "Both rounds have the cell, but a verdict would mislead."),
    "new": ("Only in this round", "The baseline does not have the cell."),
    "gone": ("Only in the baseline", "This round does not have the cell."),
}
#: What ends a comparison with the exit status 3.
BAD = ("broken", "regression")
#: Verdicts that rest on the repetitions of both rounds.
COMPARED = tuple(VERDICTS)[1:8]

#: repetition -> value of the metric
Values = dict[int, float]


def compare(
    baseline: Path, folder: Path, tsv: Path, html: Path, tolerance: float, metric: str = ""
) -> list[Comparison]:
    """Write the comparison of the round in `folder` with the one in `baseline`; return its rows.

    `tolerance`: the smallest change of a median that matters, as a share. `metric`: of all cells;
    without one, each scenario's own. Raises AnalysisError for a folder that has no analysed round.
    """
    if not 0 <= tolerance < 1:
        raise AnalysisError(
            f"tolerance: {tolerance} is not a share from 0 to below 1, such as 0.02"
        )
    before, now = rounds.read(baseline, metric), rounds.read(folder, metric)
    rows = judge(before, now, tolerance)
    common = [key(row) for row in rows if row["verdict"] in COMPARED]
    differ = conditions.between(before, now, common)
    for row in rows:
        row["differs"] = "; ".join(map(str, differ.of_cell_in_full.get(key(row), ())))
    known = {row["workload"] for row in rows} & set(workloads.NAMES)
    write_table(tsv, columns.comparison(sorted(known)), rows)
    write(html, page(before, now, rows, differ, tolerance))
    return rows


def judge(before: Round, now: Round, tolerance: float) -> list[Comparison]:
    """A row for each cell of either round: what is bad comes first, then the largest change."""
    old_cells, new_cells = ({key(row): row for row in each.cells} for each in (before, now))
    old_values, new_values = _values(before), _values(now)
    rows: list[Comparison] = []
    compared: list[tuple[Comparison, Values, Values]] = []
    for each in dict.fromkeys([*new_cells, *old_cells]):
        old, new = old_cells.get(each), new_cells.get(each)
        row: Comparison = {**_both_sides(old, new), "baseline": before.name, "round": now.name}
        rows.append(row)
        if old is None or new is None:
            row["verdict"] = "new" if old is None else "gone"
            continue
        first, second = old_values.get(each, {}), new_values.get(each, {})
        if first and second:
            row |= _ratio([*first.values()], [*second.values()])
        row["verdict"], row["reason"] = _hindrance(old, new)
        if not row["verdict"]:
            compared.append((row, first, second))
    _test(compared)
    for row, first, second in compared:
        row["verdict"] = _verdict(row, [*first.values()], [*second.values()], tolerance)
    order = list(VERDICTS)
    return sorted(
        rows,
        key=lambda row: (order.index(row["verdict"]), -abs(math.log(row.get("ratio") or 1))),
    )


def _values(round: Round) -> dict[conditions.Key, Values]:
    metric_of = {key(row): row["metric"] for row in round.cells}
    found: dict[conditions.Key, Values] = {}
    for row in round.repetitions:
        if row["status"] == "ok":
            metric = metric_of.get(key(row))
            if metric and (value := value_of(row, metric)) is not None:
                found.setdefault(key(row), {})[row["repetition"]] = value
    return found


def _both_sides(old: Cell | None, new: Cell | None) -> Comparison:
    """What the cells of both rounds say; the baseline's has a prefix."""
    one: Mapping[str, Any] = new or old or {}
    row: dict[str, Any] = {name: one.get(name) for name in columns.comparison(workloads.NAMES)}
    row |= {"ratio": None, "verdict": "", "reason": "", "differs": "", "p": None}
    for cell, prefix in ((old, "baseline_"), (new, "")):
        for name in ("median", "n_ok", "n_asked", "certificate", "flags"):
            row[prefix + name] = value_of(cell, name) if cell else None
    return cast(Comparison, row)


def _ratio(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """The ratio of two medians; its interval excludes nothing until the cells are tested."""
    return {
        "baseline_median": median(first),
        "median": median(second),
        "ratio": median(second) / median(first),
        "ratio_low": 0.0,
        "ratio_high": math.inf,
        "ratio_coverage": 1 - ERROR,
    }


def _hindrance(old: Cell, new: Cell) -> tuple[str, str]:
    """(verdict, reason) of cells that cannot be compared; ('', '') of others."""
    settings = [
        f"{name.replace('_', ' ')} {old.get(name)} → {new.get(name)}"
        for name in columns.SETTINGS
        if old.get(name) != new.get(name)
    ]
    if settings:
        return "not compared", f"measured otherwise: {', '.join(settings)}"
    size = new.get("searched") or ""
    if size and old.get(size) != new.get(size):
        return "not compared", f"another largest {size}: {old.get(size)} → {new.get(size)}"
    if old["status"] == "ok" and new["status"] in ("oom", "timeout", "crashed"):
        return "broken", _happened(new)
    failed = [
        f"{where}: {_happened(cell)}"
        for where, cell in (("baseline", old), ("this round", new))
        if cell["status"] != "ok"
    ]
    if failed:
        return "not compared", "; ".join(failed)
    if old.get("certificate") == "passed" and new.get("certificate") == "failed":
        said = [flag for flag in _flags(new) if flag.startswith("not equivalent")]
        return "broken", "; ".join(said) or "its certificate of equal work fails now"
    unproved = [
        f"{where} {cell.get('certificate') or 'missing'}"
        for where, cell in (("in the baseline", old), ("in this round", new))
        if not flags.comparable({"certificate": "", **cell})
    ]
    if unproved:
        return "not compared", f"equal work is not certified: {', '.join(unproved)}"
    doubts, earlier = flags.excluding(new), flags.excluding(old)
    if doubts and not earlier:
        return "broken", "; ".join(map(flags.flag, doubts))
    if earlier:
        where = "in both rounds" if doubts else "in the baseline"
        return "not compared", f"{where}: {'; '.join(map(flags.flag, doubts or earlier))}"
    return "", ""


def _happened(cell: Cell) -> str:
    return ": ".join(filter(None, (forms.STATUS[cell["status"]], cell["reason"])))


def _test(compared: Sequence[tuple[Comparison, Values, Values]]) -> None:
    """Set p-values and intervals of all rows that have repetitions enough to show anything."""
    family = [each for each in compared if permutation.least_p(len(each[1]), len(each[2])) <= ERROR]
    if not family:
        return
    before = _matrix([first for _, first, _ in family])
    now = _matrix([second for _, _, second in family])
    found = permutation.compare(before, now)
    for cell, (row, _, _) in enumerate(family):
        row |= {
            "ratio_low": float(found.low[cell]),
            "ratio_high": float(found.high[cell]),
            "p": float(found.p[cell]),
            "p_corrected": float(found.corrected[cell]),
        }


def _matrix(values: Sequence[Values]) -> np.ndarray:
    """A row a repetition, a column a cell; NaN where that repetition is not ok."""
    numbers = sorted({number for each in values for number in each})
    return np.array([[each.get(number, math.nan) for each in values] for number in numbers])


def _verdict(row: Comparison, first: list[float], second: list[float], tolerance: float) -> str:
    matters = not 1 - tolerance <= row["ratio"] <= 1 + tolerance
    worse = row["ratio"] > 1 if row["better"] == "lower" else row["ratio"] < 1
    direction = "regression" if worse else "improvement"
    if not row["ratio_low"] <= 1 <= row["ratio_high"]:
        return direction if matters else "small difference"
    disjoint = max(first) < min(second) or max(second) < min(first)
    if disjoint and matters and min(len(first), len(second)) >= FEWEST:
        return f"possible {direction}"
    return "too few repetitions" if row["p"] is None else "not significantly different"


def is_bad(rows: Iterable[Comparison]) -> bool:
    """Whether anything is worse for sure, or broken."""
    return any(row["verdict"] in BAD for row in rows)


def show(tsv: Path, html: Path) -> tuple[list[str], bool]:
    """(lines for a terminal, is_bad) of a comparison that was written."""
    rows = cast(list[Comparison], read_table(tsv))
    return [*lines(rows), f"All cells, and what else differs: {html}"], is_bad(rows)


def lines(rows: Sequence[Comparison]) -> list[str]:
    """What was found, then a line for each cell that is bad, better, or may be."""
    if not rows:
        return ["Neither round has a cell."]
    found = [f"Round {rows[0]['round']} beside {rows[0]['baseline']}: {_counted(rows)}."]
    found += [text for text in (_too_few(rows), _by_chance(rows)) if text]
    for row in rows:
        if row["verdict"] in tuple(VERDICTS)[:5]:
            found.append(f"  {row['verdict']}: {title(row)} {row['case']}: {_numbers(row)}")
    return found


def _numbers(row: Comparison) -> str:
    if row["verdict"] == "broken":
        return row["reason"]
    text = (
        f"{change(row['ratio'])} ({interval(row)}), "
        f"{forms.number(row['baseline_median'])} → {forms.number(row['median'])} {row['unit']}"
    )
    return text if row["p"] is None else f"{text}, corrected p = {row['p_corrected']:.2g}"


def change(ratio: float) -> str:
    """0.893 -> '-10.7 %'."""
    return f"{(ratio - 1) * 100:+.1f} %"


def interval(row: Comparison) -> str:
    """'-12.1 % to -9.0 %', or that the repetitions are too few to exclude any ratio on a side."""
    low, high = row["ratio_low"], row["ratio_high"]
    if low > 0 and math.isfinite(high):
        return f"{change(low)} to {change(high)}"
    if low > 0:
        return f"{change(low)} or more"
    return f"{change(high)} or less" if math.isfinite(high) else "unbounded"


def _counted(rows: Sequence[Comparison]) -> str:
    """'24 cells compared: 1 regression, 23 not significantly different; 2 not compared'."""
    counts = Counter(row["verdict"] for row in rows)
    compared = sum(counts[verdict] for verdict in COMPARED)
    said = [_count(counts[verdict], verdict) for verdict in COMPARED if counts[verdict]]
    text = f"{labels.plural(compared, 'cell')} compared{': ' if said else ''}{', '.join(said)}"
    others = [verdict for verdict in VERDICTS if verdict not in COMPARED and counts[verdict]]
    return "; ".join([text, *(_count(counts[verdict], verdict) for verdict in others)])


def _count(count: int, verdict: str) -> str:
    """'2 regressions', '3 too few repetitions', '1 only in the baseline'."""
    if verdict in ("new", "gone"):
        return f"{count} {VERDICTS[verdict][0].lower()}"
    nouns = ("regression", "improvement", "small difference")
    return labels.plural(count, verdict) if verdict.endswith(nouns) else f"{count} {verdict}"


def _too_few(rows: Sequence[Comparison]) -> str:
    """Said where no cell has repetitions enough to show a difference."""
    compared = [row for row in rows if row["verdict"] in COMPARED]
    if not compared or any(row["p"] is not None for row in compared):
        return ""
    most = max(compared, key=lambda row: min(row["baseline_n_ok"], row["n_ok"]))
    first, second = most["baseline_n_ok"], most["n_ok"]
    count = str(second) if first == second else f"{first} and {second}"
    least = forms.percent(permutation.least_p(first, second))
    return (
        f"{count} repetitions a side cannot show a significant difference: the smallest p that "
        f"they can give is {least}, and {forms.percent(ERROR)} or less is needed. 4 or more a side "
        "can show one; 7 are a good choice."
    )


def _by_chance(rows: Sequence[Comparison]) -> str:
    """How many cells would look like a possible change if nothing had changed."""
    if not any(row["verdict"].startswith("possible") for row in rows):
        return ""
    counts = [
        (row["baseline_n_ok"], row["n_ok"])
        for row in rows
        if row["verdict"] in COMPARED and min(row["baseline_n_ok"], row["n_ok"]) >= FEWEST
    ]
    expected = sum(2 / math.comb(first + second, first) for first, second in counts)
    return (
        "Possible changes: even if nothing had changed, all repetitions of one round would be "
        f"below all of the other in about {expected:.2g} of {labels.plural(len(counts), 'cell')}."
    )


def title(row: Mapping[str, Any]) -> str:
    """'ResNet-50 v1.5, JAX [xla]'."""
    known = row["workload"] in workloads.NAMES
    return f"{labels.workload(row) if known else row['workload']}, {labels.implementation(row)}"


def _flags(cell: Mapping[str, Any], name: str = "flags") -> list[str]:
    """A cell's flags in words; one of another version as it is."""
    found = []
    for flag in (cell.get(name) or "").split():
        try:
            found.append(flags.flag(flag))
        except KeyError:
            found.append(flag)
    return found


def page(
    before: Round, now: Round, rows: Sequence[Comparison], differ: Differences, tolerance: float
) -> str:
    """The comparison as one HTML page that needs nothing else."""
    sections = [
        (verdict, *VERDICTS[verdict], [row for row in rows if row["verdict"] == verdict])
        for verdict in VERDICTS
    ]
    counts = Counter(row["verdict"] for row in rows)
    content = {
        "before": before,
        "now": now,
        "lead": [_counted(rows) + ".", *filter(None, (_too_few(rows), _by_chance(rows)))],
        "changed": _changed(differ),
        "counts": counts,
        "compared": sum(counts[verdict] for verdict in COMPARED),
        "sections": [section for section in sections if section[-1]],
        "open": tuple(VERDICTS)[:5],
        "with_ratio": COMPARED,
        "differ": differ,
        "key": key,
        "title": title,
        "notes": _notes,
        "change": change,
        "interval": interval,
        "scale": _scale(rows),
        "sides": "Slower | faster" if _of_speeds(rows) else "Lower | higher",
        "bad": is_bad(rows),
        "outcome": _outcome(counts),
        "tolerance": tolerance,
        "error_rate": ERROR,
        "labels": labels,
        "forms": forms,
        "style": markupsafe.Markup((tables.TEMPLATES / "style.css").read_text(encoding="utf-8")),
    }
    return tables.templates().get_template("compare.html.j2").render(content)


def _of_speeds(rows: Sequence[Comparison]) -> bool:
    return all(row["metric"] == "throughput" for row in rows)


def _outcome(counts: Mapping[str, int]) -> str:
    if any(counts[verdict] for verdict in BAD):
        return "✗ Worse or broken: see below."
    possible = counts["possible regression"]
    also = f", but {_count(possible, 'possible regression')}" if possible else ""
    return f"✓ Nothing is shown to be worse or broken{also}."


def _changed(differ: Differences) -> list[str]:
    """What differs, in a sentence: of all cells, then of frameworks; where, not how."""
    found = []
    if differ.everywhere:
        found.append(labels.listed([each.what for each in differ.everywhere]))
    for name, own in differ.of_framework.items():
        found.append(f"{name}: {labels.listed([each.what for each in own])}")
    return found


def _notes(row: Comparison) -> list[str]:
    """What a reader must know of this cell alone: fewer repetitions, flags of either round."""
    found = [
        f"{ok} of {asked} repetitions ok {where}"
        for prefix, where in (("baseline_", "in the baseline"), ("", "in this round"))
        if (ok := value_of(row, f"{prefix}n_ok")) != (asked := value_of(row, f"{prefix}n_asked"))
    ]
    old, new = _flags(row, "baseline_flags"), _flags(row)
    partial = flags.FLAGS["partial"]
    for flag in dict.fromkeys([*old, *new]):
        if flag != partial:
            where = (
                "both rounds"
                if flag in old and flag in new
                else ("the baseline" if flag in old else "this round")
            )
            found.append(f"{flag} ({where})")
    return found


def _scale(rows: Iterable[Comparison]) -> Any:
    """Where a ratio stands on a strip from 0 to 100 with 1 in its middle, alike for all cells."""
    ends = [
        abs(math.log(row[end]))
        for row in rows
        if row["verdict"] in COMPARED
        for end in ("ratio", "ratio_low", "ratio_high")
        if 0 < row[end] < math.inf
    ]
    widest = min(max([*ends, math.log(1.05)]), math.log(4))

    def place(ratio: float) -> str:
        share = math.log(ratio) / widest if ratio > 0 else -1.0
        return f"{50 + 49 * max(-1.0, min(1.0, share)):.1f}"

    return place
