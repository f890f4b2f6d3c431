"""Which of many cells differ between two rounds, with one error rate for all of them together.

In: each cell's values in both rounds, a row a repetition. Out: p-values, of each cell alone and
corrected for the number of cells, and the interval of each ratio that belongs to the corrected
test. Exact by permutation: if nothing differs, it does not matter which round a repetition came
from, so the real allotment is compared with all others.

A repetition's values of all cells move together, so that what disturbs many cells at once is taken
into account, and the correction is Westfall and Young's step-down maxT: the largest statistic of
all cells in each permutation is what a cell's own has to reach (Resampling-Based Multiple Testing,
1993, section 2.6; Romano & Wolf, JASA 100, 2005). Holm's correction of rank tests, the common
choice, could show nothing here: with 7 repetitions a rank test's p is at least 0.0006, which 86
cells or more bring above 5 %.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dlperf.analysis.statistics import ERROR

#: Beyond this many allotments, as many are drawn: two times 7 repetitions have 3,432.
MOST = 10_000
#: Statistics that differ by less, as a share, are equal but for rounding.
ROUNDING = 1e-9
#: Logarithms that scatter by less do so by rounding.
SMALLEST = 1e-12
#: Where the ends of an interval are looked for, from outside: so many spreads from the difference
#: of the medians. An end beyond the first is called unbounded.
SEARCHED = (1e4, 100.0, *np.geomspace(10, 0.1, 12).tolist())
#: How often the distance between two of them is halved.
HALVINGS = 14


class Changes(NamedTuple):
    """The cells of two rounds compared: an array each, one number a cell.

    ratio: median of the round now over the one before. low, high: its interval, from 0 to infinity
    where the repetitions are too few to exclude anything. p: of the cell alone. corrected: p for
    all cells together; it is at most the error rate where the interval excludes 1, and above it
    everywhere else.
    """

    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    corrected: np.ndarray


def compare(before: np.ndarray, now: np.ndarray, error: float = ERROR) -> Changes:
    """Which cells differ significantly between two rounds, with the intervals that decide it.

    `before` and `now` as of `p_values`; each cell has a value in both. `error`: the probability of
    calling any cell different where only chance differs.

    An interval has all ratios that the cell's test does not reject, its values of the round now
    divided by that ratio, beside the cells that remain when the step-down correction has rejected
    what it can. So it holds the true ratio with a probability of 1 - error or more: the test is
    exact for each ratio, and other cells beside it only make it reject less. Where ratios that are
    not rejected lie on both sides of some that are, the interval has those too, and the cell does
    not differ significantly if 1 is among them. It always holds the ratio of the medians.
    """
    labels = allotments(len(before), len(now))
    values = np.log(np.concatenate([before, now]))
    found, p, corrected = _p_values(values, labels)
    ratio = np.nanmedian(now, axis=0) / np.nanmedian(before, axis=0)
    low, high = np.empty(len(p)), np.empty(len(p))
    remaining = corrected > error
    for cell, column in enumerate(values.T):
        others = remaining & (np.arange(len(p)) != cell)
        beside = found[:, others].max(axis=1, initial=-np.inf)
        low[cell], high[cell], beyond = _inverted(column, labels, beside, error)
        low[cell], high[cell] = min(low[cell], ratio[cell]), max(high[cell], ratio[cell])
        if low[cell] <= 1 <= high[cell] and corrected[cell] <= error:
            corrected[cell] = max(beyond, math.nextafter(error, 1))
    return Changes(ratio, low, high, p, corrected)


def least_p(before: int, now: int) -> float:
    """The smallest p-value that so many values a side can give: 0.1 for 3 and 3."""
    return (2 if before == now else 1) / math.comb(before + now, before)


def p_values(before: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p of each cell alone, p corrected for all cells); two-sided.

    `before` and `now` have a row a repetition and a column a cell, values above 0; NaN where a
    repetition has none. The corrected p-values hold the family-wise error rate: the probability
    that any cell at all is called different, where only chance differs.
    """
    values = np.log(np.concatenate([before, now]))
    _, alone, corrected = _p_values(values, allotments(len(before), len(now)))
    return alone, corrected


def _p_values(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(statistics: a row an allotment, a column a cell; p of each cell alone; corrected p)."""
    found = np.stack([statistic(column, labels) for column in values.T], axis=1)
    reached = found >= found[0] * (1 - ROUNDING)
    return found, reached.mean(axis=0), _step_down(found)


def _inverted(
    values: np.ndarray, labels: np.ndarray, beside: np.ndarray, error: float
) -> tuple[float, float, float]:
    """(low, high) of the ratios that one cell's test does not reject, and the largest p-value that
    was met of those that lie further from the ratio of the medians than 1 does.

    `values` are logarithms; `beside` has, for each allotment, the largest statistic of the cells
    that are tested together with this one.
    """
    now = ~labels[0]
    first, second = np.nanmedian(values[~now]), np.nanmedian(values[now])
    middle = float(second - first)
    distances = np.abs(values - np.where(now, second, first))
    spread = max(_upper_quartile(distances[None, ~np.isnan(values)])[0], SMALLEST)

    def p_of(difference: float) -> float:
        statistics = statistic(np.where(now, values - difference, values), labels)
        observed = statistics[0]  # whose allotment is the real one
        return float((np.maximum(statistics, beside) >= observed * (1 - ROUNDING)).mean())

    low, beyond_low = _end(p_of, middle, -spread, error)
    high, beyond_high = _end(p_of, middle, spread, error)
    with np.errstate(over="ignore"):
        return float(np.exp(low)), float(np.exp(high)), beyond_low if middle > 0 else beyond_high


def _end(
    p_of: Callable[[float], float], middle: float, step: float, error: float
) -> tuple[float, float]:
    """(the furthest difference from `middle`, towards `step`, that is not rejected; its p).

    It is looked for at SEARCHED multiples of `step`, from outside, and at 0 if that lies there, so
    that the decision about 0 is never between two of them; then by halving.
    """
    zero = -middle / step
    multiples = sorted({*SEARCHED, *([zero] if zero > 0 else [])}, reverse=True)
    rejected = math.inf
    for multiple in multiples:
        difference = 0.0 if multiple == zero else middle + multiple * step
        p = p_of(difference)
        if p > error:
            break
        rejected = multiple
    else:
        multiple, difference, p = 0.0, middle, 1.0
    if rejected == math.inf:
        return math.copysign(math.inf, step), p
    for _ in range(HALVINGS):
        between = (multiple + rejected) / 2
        if p_of(middle + between * step) > error:
            multiple, difference = between, middle + between * step
        else:
            rejected = between
    return difference, p


@functools.lru_cache(32)
def allotments(before: int, now: int) -> np.ndarray:
    """A row for each way to call `before` of all repetitions the first round; the real one first.

    All of them, or MOST drawn from a fixed seed. Of rounds with equally many repetitions each pair
    of ways that only swaps the two rounds is there once: the statistic is that of their distance.
    """
    count = before + now
    if math.comb(count, before) > MOST:
        drawn = np.random.default_rng(1).random((MOST, count)).argsort(axis=1) < before
        return np.concatenate([np.arange(count)[None] < before, drawn])
    chosen = list(itertools.combinations(range(count), before))
    if before == now:  # the second half are the complements of the first
        chosen = chosen[: len(chosen) // 2]
    labels = np.zeros((len(chosen), count), bool)
    labels[np.arange(len(chosen))[:, None], np.array(chosen)] = True
    return labels


def statistic(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """For each row of `labels`: the distance between the two groups' medians, over the spread.

    Spread is the upper quartile of all distances to the own group's median: a disturbed repetition
    in four does not change it. (By simulation, see docs/comparing.md.) 0 where a group is empty.
    """
    there = ~np.isnan(values)
    values, labels = values[there], labels[:, there]
    first, second = (_medians(np.where(side, values, np.nan)) for side in (labels, ~labels))
    distances = np.abs(values - np.where(labels, first[:, None], second[:, None]))
    spread = _upper_quartile(distances)
    apart = np.abs(first - second) / np.maximum(spread, SMALLEST)
    return np.nan_to_num(apart, nan=0.0)


def _upper_quartile(rows: np.ndarray) -> np.ndarray:
    """The upper quartile of each row, one of its numbers."""
    place = math.ceil(0.75 * rows.shape[1]) - 1
    return np.partition(rows, place, axis=1)[:, place]


def _medians(rows: np.ndarray) -> np.ndarray:
    """The median of each row's numbers; NaN where it has none. (np.nanmedian is far slower.)"""
    counts = np.count_nonzero(~np.isnan(rows), axis=1)
    rows = np.sort(rows, axis=1)  # NaN last
    line = np.arange(len(rows))
    middle = rows[line, np.maximum(counts - 1, 0) // 2] + rows[line, counts // 2]
    return np.where(counts == 0, np.nan, middle / 2)


def _step_down(found: np.ndarray) -> np.ndarray:
    """Corrected p-values: each cell against the largest statistic of all that are not above it."""
    observed = found[0]
    order = np.argsort(observed, kind="stable")
    p = np.empty(len(observed))
    largest = np.full(len(found), -np.inf)
    for cell in order:
        largest = np.maximum(largest, found[:, cell])
        p[cell] = (largest >= observed[cell] * (1 - ROUNDING)).mean()
    descending = order[::-1]
    p[descending] = np.maximum.accumulate(p[descending])
    return p
