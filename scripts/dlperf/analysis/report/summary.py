"""What won where, by how much, and how sure: the report's summary.

In: rows of cells.tsv and measurements.tsv.gz. Out: a Standing for each table and topology in which
at least two implementations can be compared, and sentences on all of them together. Only cells
whose equal work is certified take part.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlperf.analysis.round import labels
from dlperf.analysis.schema.files import Row
from dlperf.analysis.statistics.medians import (
    Interval,
    order_coverage,
    order_rank,
    ratio_interval,
)
from dlperf.analysis.statistics.separation import false_separation

#: Above this many winners a sentence counts them, and the table says where.
NAMED = 3


@dataclass(frozen=True)
class Standing:
    """One table and topology: `best` has the highest median, `second` the next, `last` the lowest.

    `tied` have an interval that overlaps with best's, so they are not told apart from it.
    """

    best: Row
    second: Row
    last: Row
    tied: list[Row]
    compared: int
    over_second: float
    over_second_interval: Interval
    over_last: float
    efficiency: tuple[Row, Row] | None  # the cells with the lowest and the highest efficiency

    @property
    def where(self) -> str:
        row = self.best
        return (
            f"{labels.workload(row)} ({row['precision']}, batch {row['batch_size']}, "
            f"{labels.topology(row)})"
        )

    @property
    def tied_with(self) -> str:
        return labels.listed([labels.implementation(row) for row in self.tied])


def standings(cells: Sequence[Row], repetitions: Iterable[Row]) -> list[Standing]:
    """In the order of the plan; topologies of a table by their number of devices."""
    speeds: dict[tuple[str, str, str], list[float]] = {}
    for row in repetitions:
        if row["status"] == "ok":
            speeds.setdefault(_case(row), []).append(row["throughput"])
    groups: dict[tuple[str, int, int, int], list[Row]] = {}
    tables = list(dict.fromkeys(row["table"] for row in cells))
    for row in cells:
        if labels.comparable(row):
            place = row["table"], labels.devices(row), row["nodes"], row["devices_per_node"]
            groups.setdefault(place, []).append(row)
    places = sorted(groups, key=lambda place: (tables.index(place[0]), *place[1:]))
    return [_standing(groups[place], speeds) for place in places if len(groups[place]) > 1]


def _case(row: Row) -> tuple[str, str, str]:
    return row["workload"], row["framework"], row["case"]


def _standing(rows: Sequence[Row], speeds: dict[tuple[str, str, str], list[float]]) -> Standing:
    ordered = sorted(rows, key=lambda row: -row["throughput"])
    best, second, last = ordered[0], ordered[1], ordered[-1]
    scaled = [row for row in rows if row["efficiency"] is not None and labels.devices(row) > 1]
    scaled.sort(key=lambda row: row["efficiency"])
    return Standing(
        best=best,
        second=second,
        last=last,
        tied=[row for row in ordered[1:] if row["throughput_high"] >= best["throughput_low"]],
        compared=len(rows),
        over_second=best["throughput"] / second["throughput"],
        over_second_interval=ratio_interval(speeds[_case(best)], speeds[_case(second)]),
        over_last=best["throughput"] / last["throughput"],
        efficiency=(scaled[0], scaled[-1]) if scaled else None,
    )


def won(found: Sequence[Standing]) -> str:
    """What won where and by how much; what is not told apart."""
    if not found:
        return (
            "Nothing can be compared: nowhere do two implementations have a number and a "
            "certificate of equal work."
        )
    clear = [each for each in found if not each.tied]
    rest = [each for each in found if each.tied]
    count = labels.plural(len(found), "comparison")
    text = ""
    if len(clear) > NAMED:
        winners = Counter(labels.implementation(each.best) for each in clear)
        said = labels.listed([f"{name} in {times}" for name, times in winners.most_common()])
        factors = [each.over_second for each in clear]
        text = (
            f"In {len(clear)} of {count} one interval lies above all others: {said}, ahead of the "
            f"next by a factor of {min(factors):.2f} to {max(factors):.2f}. "
        )
    elif clear:
        said = "; ".join(map(_lead, clear))
        text = f"In {len(clear)} of {count} one interval lies above all others: {said}. "
    if rest:
        ties = [len(each.tied) for each in rest]
        others = f"{min(ties)} to {max(ties)} others" if min(ties) < max(ties) else f"{ties[0]}"
        if min(ties) == max(ties):
            others += " other" if ties[0] == 1 else " others"
        where = "In the rest" if clear else f"In none of {count} does one win: everywhere"
        text += f"{where}{',' if clear else ''} the highest median cannot be told apart from "
        text += f"{others}."
    return text.strip()


def _lead(each: Standing) -> str:
    low, high, _ = each.over_second_interval
    suspect = ", from a suspect cell" if "suspect:" in each.best["flags"] else ""
    return (
        f"{labels.implementation(each.best)} in {each.where}, at {each.over_second:.2f} times "
        f"{labels.implementation(each.second)} (interval {low:.2f} – {high:.2f}{suspect})"
    )


def certainty(asked: int, cells: Sequence[Row]) -> str:
    """What the intervals are worth: coverage, chance, noise. `asked`: repetitions a cell."""
    coverage = order_coverage(asked, order_rank(asked))
    chance = labels.percent(false_separation(asked, asked), 2)
    text = (
        f"A number is the median of {labels.plural(asked, 'repetition')}; its interval holds the "
        f"true median with a probability of {labels.percent(coverage)}, and two equally fast "
        f"implementations would look apart in {chance} of comparisons."
    )
    noise = [row["cv"] for row in cells if row["cv"] is not None]
    if noise:
        text += (
            " Over the repetitions of a cell, the coefficient of variation is "
            f"{labels.percent(statistics.median(noise), 1)} at the median and "
            f"{labels.percent(max(noise), 1)} at most."
        )
    return text


def lacking(cells: Sequence[Row]) -> str:
    """What has no number, too few repetitions, no certificate, or a reason for doubt."""
    total = labels.plural(len(cells), "cell")
    without = Counter(labels.STATUS[row["status"]] for row in cells if row["status"] != "ok")
    partial = sum(row["status"] == "ok" and row["n_ok"] < row["n_asked"] for row in cells)
    doubtful = sum("suspect:" in row["flags"] for row in cells)
    unproved = sum(row["status"] == "ok" and not labels.comparable(row) for row in cells)
    if without:
        said = labels.listed([f"{count} {status}" for status, count in without.items()])
        parts = [f"{sum(without.values())} of {total} without a number ({said})"]
    else:
        parts = [f"All {total} have a number"]
    if partial:
        parts.append(f"{partial} with fewer repetitions than asked for")
    if unproved:
        parts.append(f"{unproved} without a valid certificate of equal work, so in no comparison")
    text = "; ".join(parts) + "."
    if doubtful:
        be, them = ("is", "it") if doubtful == 1 else ("are", "them")
        text += f" {doubtful} {be} suspect: something disturbed {them}, and the tables say what."
    elif not without:
        text += " None is suspect."
    return text


def quality(cells: Sequence[Row], repetitions: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Counts at a glance: {what: (how many, of how many)}."""
    asked = [row for row in repetitions if row["status"] != "unsupported"]
    ok = [row for row in cells if row["status"] == "ok"]
    return {
        "repetitions": (sum(row["status"] == "ok" for row in asked), len(asked)),
        "measured": (len(ok), len(cells)),
        "certified": (sum(map(labels.comparable, ok)), len(ok)),
        "suspect": (sum("suspect:" in row["flags"] for row in ok), len(ok)),
    }
