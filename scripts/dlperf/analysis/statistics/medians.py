"""Medians with exact intervals, spread, and intervals of ratios.

In: the values of a cell's repetitions. Out: numbers with the coverage that so few values really
give. Everything is exact arithmetic on the order of the values: no normal distribution is assumed,
and no bootstrap, whose intervals are too narrow for small n.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """`coverage`: least probability that [low, high] holds the true value."""

    low: float
    high: float
    coverage: float


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


@functools.cache
def order_coverage(n: int, k: int) -> float:
    """Coverage of [x(k), x(n+1-k)], the k-th smallest to the k-th largest of n, for the median.

    Each value is below the median with probability 1/2, so the number below it is B(n, 1/2) and

        P(x(k) <= median <= x(n+1-k)) = P(k <= B <= n-k) = 1 - 2 * sum_{i<k} C(n,i) / 2^n,

    exact for a continuous distribution and a lower bound for any other (David & Nagaraja, Order
    Statistics, 3rd ed., section 7.1; Conover, Practical Nonparametric Statistics, section 3.2).
    """
    if not 1 <= k <= (n + 1) // 2:
        raise ValueError(f"no {k}-th smallest and largest among {n} values")
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


@functools.cache
def order_rank(n: int, confidence: float = CONFIDENCE) -> int:
    """The largest k whose interval [x(k), x(n+1-k)] reaches `confidence`; 1 where none does."""
    reaching = [k for k in range(1, (n + 1) // 2 + 1) if order_coverage(n, k) >= confidence]
    return max(reaching, default=1)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The narrowest symmetrical order-statistic interval of the median that reaches `confidence`.

    Where n is too small for that (below 6, for 95 %), the smallest to the largest value, with the
    coverage that this has: n=3 75 %, n=5 93.75 %, n=6 96.9 %, n=7 98.4 %, n=9 [x2, x8] 96.1 %.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    ordered, n = sorted(values), len(values)
    k = order_rank(n, confidence)
    return Interval(ordered[k - 1], ordered[n - k], order_coverage(n, k))


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Interval of median(numerator) / median(denominator); all values must be above 0.

    If both medians are in their intervals, the ratio is in [low/high, high/low]. By Bonferroni's
    inequality that has at least probability 1 - (1 - c1) - (1 - c2), whether or not the samples
    are independent. It is conservative: ends of both intervals must coincide for the ratio to
    reach its own, so the true coverage is higher than stated. Each median gets half of the error.
    """
    if min(*numerator, *denominator) <= 0:
        raise ValueError("a ratio needs values above 0")
    each = 1 - (1 - confidence) / 2
    above, below = median_interval(numerator, each), median_interval(denominator, each)
    coverage = max(0.0, 1 - (1 - above.coverage) - (1 - below.coverage))
    return Interval(above.low / below.high, above.high / below.low, coverage)


def standard_deviation(values: Sequence[float]) -> float:
    """Of a sample of two or more: the root of the sum of squares about the mean over n - 1.

    As statistics.stdev, which works in fractions and takes thirty times as long; sums are exact
    to the last bit here too.
    """
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (len(values) - 1))


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1) over the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return standard_deviation(values) / statistics.fmean(values)


def median_absolute_deviation(values: Sequence[float]) -> float:
    """Median of the distances from the median; a normal distribution's is 0.6745 sigma."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


#: Least number of values among which one can be marked as an outlier. Of 3 or 4 values, the median
#: distance from the median is the distance of a neighbour or two: too little to judge the others.
OUTLIER_LEAST = 5
#: From so large a modified z score on, by the number of values: where all of them are drawn from
#: one normal distribution, one is marked in 5 % of cells (benchmarks/intervals.py simulates that).
#: Iglewicz and Hoaglin advise 3.5, which would mark one in 21 % of cells of 5, in 10 % of 20.
OUTLIER_SCORES = {
    **{5: 8.0, 6: 5.6, 7: 5.9, 8: 5.0, 9: 5.1, 10: 4.6, 11: 4.7, 12: 4.4, 13: 4.4, 14: 4.2},
    **{15: 4.3, 16: 4.1, 17: 4.2, 18: 4.1, 19: 4.1},
}
OUTLIER_SCORE = 4.0  # of 20 values and more


def modified_z_scores(values: Sequence[float]) -> list[float]:
    """0.6745 (x - median) / MAD of each value (Iglewicz & Hoaglin 1993, section 3.3).

    Where more than half of the values are equal, the MAD is 0 and the mean distance from the
    median stands in for it: (x - median) / (1.253314 mean distance). All 0 where all are equal.
    """
    middle, deviation = median(values), median_absolute_deviation(values)
    scale = deviation / 0.6745
    if not scale:
        scale = 1.253314 * statistics.fmean(abs(value - middle) for value in values)
    return [(value - middle) / scale if scale else 0.0 for value in values]


def outliers(values: Sequence[float]) -> list[str]:
    """'low', 'high' or '' for each value: far from the others by its modified z score.

    For marking, never for leaving out: no statistic here drops a value.
    """
    if len(values) < OUTLIER_LEAST:
        return [""] * len(values)
    least = OUTLIER_SCORES.get(len(values), OUTLIER_SCORE)
    return [
        "" if abs(score) < least else "low" if score < 0 else "high"
        for score in modified_z_scores(values)
    ]
