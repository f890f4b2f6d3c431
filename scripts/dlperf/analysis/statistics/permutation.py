"""Which of many cells differ between two rounds, with one error rate for all of them together.

In: each cell's values in both rounds, a row a repetition. Out: p-values, of each cell alone and
corrected for the number of cells. Exact by permutation: if nothing differs, it does not matter
which round a repetition came from, so the real allotment is compared with all others.

A repetition's values of all cells move together, so that what disturbs many cells at once is taken
into account, and the correction is Westfall and Young's step-down maxT: the largest statistic of
all cells in each permutation is what a cell's own has to reach (Resampling-Based Multiple Testing,
1993, section 2.6; Romano & Wolf, JASA 100, 2005). Holm's correction of rank tests, the common
choice, could show nothing here: with 7 repetitions a rank test's p is at least 0.0006, which 86
cells or more bring above 5 %.
"""

import itertools
import math

import numpy as np

#: Beyond this many allotments, as many are drawn: two times 7 repetitions have 3,432.
MOST = 10_000


def least_p(before: int, now: int) -> float:
    """The smallest p-value that so many values a side can give: 0.1 for 3 and 3."""
    return (2 if before == now else 1) / math.comb(before + now, before)


def p_values(before: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p of each cell alone, p corrected for all cells); two-sided.

    `before` and `now` have a row a repetition and a column a cell, values above 0; NaN where a
    repetition has none. The corrected p-values hold the family-wise error rate: the probability
    that any cell at all is called different, where only chance differs.
    """
    labels = allotments(len(before), len(now))
    values = np.log(np.concatenate([before, now]))
    found = np.stack([statistic(column, labels) for column in values.T], axis=1)
    reached = found >= found[0] * (1 - 1e-9)  # but for rounding
    return reached.mean(axis=0), _step_down(found)


def allotments(before: int, now: int) -> np.ndarray:
    """A row for each way to call `before` of all repetitions the first round; the real one first.

    All of them, or MOST drawn from a fixed seed.
    """
    count = before + now
    if math.comb(count, before) > MOST:
        drawn = np.random.default_rng(1).random((MOST, count)).argsort(axis=1) < before
        return np.concatenate([np.arange(count)[None] < before, drawn])
    chosen = list(itertools.combinations(range(count), before))
    labels = np.zeros((len(chosen), count), bool)
    labels[np.arange(len(chosen))[:, None], np.array(chosen)] = True
    return labels


def statistic(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """For each row of `labels`: how far apart the medians of the two groups are, over the spread.

    Spread is the upper quartile of all distances to the own group's median: a disturbed repetition
    in four does not change it. (By simulation, see docs/comparing.md.) 0 where a group is empty.
    """
    there = ~np.isnan(values)
    values, labels = values[there], labels[:, there]
    first, second = (_medians(np.where(side, values, np.nan)) for side in (labels, ~labels))
    distances = np.abs(values - np.where(labels, first[:, None], second[:, None]))
    distances.sort(axis=1)
    spread = distances[:, math.ceil(0.75 * len(values)) - 1]
    apart = np.abs(first - second) / np.maximum(spread, 1e-12)
    return np.nan_to_num(apart, nan=0.0)


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
        p[cell] = (largest >= observed[cell] * (1 - 1e-9)).mean()
    descending = order[::-1]
    p[descending] = np.maximum.accumulate(p[descending])
    return p
