"""Which cells of a table differ significantly, with one error rate for all pairs of them.

In: the values of each cell's repetitions. Out: an interval of each pair's ratio, which decides
whether the two differ; ranks with ties; and the smallest difference that this is likely to find.
Equal cells have equal means of logarithms; their noise may differ. benchmarks/intervals.py
simulates how often that is right.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dlperf.analysis.statistics import ERROR, LEAST
from dlperf.analysis.statistics.medians import median, standard_deviation

#: The probability with which `detectable` is found.
POWER = 0.8
#: Logarithms that differ by less are equal but for the rounding of floating-point numbers.
ROUNDING = 1e-12


class Pairwise(NamedTuple):
    """Intervals of the ratios of all pairs of cells: [i, j] is that of cell i's over cell j's.

    Two cells are significantly different where their interval excludes 1. The probability that any
    interval of the ranking excludes a ratio of 1 that is true is at most ERROR. Each interval holds
    the true ratio with a probability of 1 - ERROR or more. 0 to infinity: nothing is known, as of
    cells with fewer than LEAST values.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def higher(self) -> np.ndarray:
        """[i, j]: whether cell i's values are significantly higher than cell j's."""
        return self.low > 1


def pairwise(cells: Sequence[Sequence[float]]) -> Pairwise:
    """The intervals of all pairs of cells, whose values are all above 0.

    Cells of fewer than LEAST values differ significantly from none, and make no pairs.
    """
    low = np.zeros((len(cells), len(cells)))
    high = np.full((len(cells), len(cells)), np.inf)
    np.fill_diagonal(low, 1.0)
    np.fill_diagonal(high, 1.0)
    judged = [place for place, values in enumerate(cells) if len(values) >= LEAST]
    if len(judged) < 2:
        return Pairwise(low, high)
    logs = [np.log(cells[place]) for place in judged]
    lows, highs = intervals(
        np.array([math.log(median(cells[place])) for place in judged]),
        np.array([values.mean() for values in logs]),
        np.array([values.var(ddof=1) / len(values) for values in logs]),
        np.array([len(values) for values in logs]),
    )
    one, other = (np.array(judged)[places] for places in pairs(len(judged)))
    low[one, other], high[one, other] = lows, highs
    with np.errstate(divide="ignore"):
        low[other, one], high[other, one] = 1 / highs, 1 / lows
    return Pairwise(low, high)


def higher(cells: Sequence[Sequence[float]]) -> np.ndarray:
    """[i, j]: whether cell i's values, all above 0, are significantly higher than cell j's."""
    return pairwise(cells).higher


@functools.cache
def pairs(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The two cells of each pair, of which there are cells (cells - 1) / 2."""
    one, other = np.triu_indices(cells, 1)
    return one, other


def claims(
    medians: np.ndarray, means: np.ndarray, squares: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Of each pair of cells, 1 where the first is higher, -1 where it is lower, 0 where unknown:
    whether the interval of their ratio is above 1, below 1, or holds it. Axes as of `intervals`."""
    low, high = intervals(medians, means, squares, sizes)
    return np.where(low > 1, 1, np.where(high < 1, -1, 0))


def intervals(
    medians: np.ndarray, means: np.ndarray, squares: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of each pair's ratio: all ratios that Welch's test at `deciding_level` allows.

    The last axis of `medians`, `means` and `squares` (squared standard errors of the means), all of
    logarithms, is the cells; that of the result is `pairs`.

    A ratio is allowed where the test of the logarithms, the second cell's values multiplied by that
    ratio, does not reject that means are equal; or where means and medians then differ in opposite
    directions, since a difference that the medians deny is not claimed. Together that is Welch's
    interval, widened to the ratio of the medians where it does not hold that.
    """
    from scipy.special import stdtrit  # a third of a second, which makers of tables need not spend

    one, other = pairs(means.shape[-1])
    level = deciding_level(welch(means, squares, sizes))[..., None]
    error, freedom, still = _of_pairs(squares, sizes)
    half = np.where(still, ROUNDING, -stdtrit(freedom, level / 2) * error)
    half = np.where(still & (_constant(sizes) > level), np.inf, half)
    distance = means[..., one] - means[..., other]
    middle = medians[..., one] - medians[..., other]
    with np.errstate(over="ignore"):
        low = np.exp(np.minimum(distance - half, middle))
        high = np.exp(np.maximum(distance + half, middle))
    return low, high


def welch(means: np.ndarray, squares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Two-sided p-values that the means of the cells of each pair are equal, whatever their noise.

    Welch (1947, Biometrika 34:28-35): t = (m1 - m2) / sqrt(q1 + q2), q being a mean's squared
    standard error, with (q1 + q2)^2 / (q1^2 / (n1 - 1) + q2^2 / (n2 - 1)) degrees of freedom.

    Where neither cell has any scatter, t says nothing, and p is `_constant`.
    """
    from scipy.special import stdtr

    one, other = pairs(means.shape[-1])
    distance = np.abs(means[..., one] - means[..., other])
    error, freedom, still = _of_pairs(squares, sizes)
    p = 2 * stdtr(freedom, -distance / error)
    return np.where(still, np.where(distance > ROUNDING, _constant(sizes), 1.0), p)


def _of_pairs(squares: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The standard errors of all pairs of cells."""
    one, other = pairs(squares.shape[-1])
    return standard_errors(squares[..., one], squares[..., other], sizes[one], sizes[other])


def standard_errors(
    first: np.ndarray, second: np.ndarray, size: np.ndarray, other_size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(standard error of the difference of two means, degrees of freedom, whether neither cell has
    any scatter) of pairs of cells; the first two are 1 and finite where neither has.

    `first`, `second`: squared standard errors of the means. A known constant has the squared error
    0 and an infinite size; Welch's test is then Student's, with the other cell's n - 1 degrees.
    """
    still = first + second <= ROUNDING**2
    first, second = np.where(still, 0.5, first), np.where(still, 0.5, second)
    own = first**2 / (size - 1) + second**2 / (other_size - 1)
    return np.sqrt(first + second), (first + second) ** 2 / own, still


def without_scatter(size: np.ndarray, other_size: np.ndarray) -> np.ndarray:
    """p of two cells without any scatter that differ: 2^(1 - 2n), n being the smaller number.

    The probability that n values of one distribution all have one value, and n more all have one
    other value, is at most that; two values of equal probability reach it. Beside a known constant
    (of infinite size) it is 2^(1 - n): n values all lie on one side of their median so often.
    """
    smaller = np.minimum(size, other_size)
    return 2.0 ** (1 - np.where(np.isinf(np.maximum(size, other_size)), 1, 2) * smaller)


def _constant(sizes: np.ndarray) -> np.ndarray:
    """`without_scatter` of all pairs of cells."""
    one, other = pairs(len(sizes))
    return without_scatter(sizes[one], sizes[other])


def corrected(p: np.ndarray) -> np.ndarray:
    """Holm's corrected p-values of the hypotheses along the last axis (1979, Scand. J. Statist.
    6:65-70): the k-th smallest of m, times m + 1 - k, but not below any smaller one's, nor above 1.

    Where those that are at most ERROR are rejected, the probability of any false rejection is at
    most ERROR, whichever hypotheses are true.
    """
    order = np.argsort(p, axis=-1, kind="stable")
    ascending = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    found = np.empty(p.shape)
    np.put_along_axis(found, order, np.maximum.accumulate(ascending, axis=-1), -1)
    return np.minimum(found, 1)


def rejected(p: np.ndarray) -> np.ndarray:
    """Which of the hypotheses along the last axis Holm's correction rejects."""
    return corrected(p) <= ERROR


def deciding_level(p: np.ndarray) -> np.ndarray:
    """The level at which Holm's correction stops: ERROR over the number of p-values not rejected.

    All that it rejects are at or below that level, all others above it: one level decides them all.
    It is ERROR where everything is rejected. The last axis of `p` is the hypotheses.
    """
    left = p.shape[-1] - np.count_nonzero(rejected(p), axis=-1)
    return ERROR / np.maximum(left, 1)


def ranks(better: np.ndarray) -> list[tuple[int, int]]:
    """(best, last) place of each cell; `better[i, j]`: whether i is better than j. 1 is the best.

    The best place is 1 + the number of cells that are better, the last one is that of all less
    those that are worse; where it is unknown, places overlap: '1-3'. All places are right together
    where all that `better` says is right (Mogstad et al. 2024, Rev. Econ. Stud. 91:476-518).
    """
    return [
        (1 + int(above), len(better) - int(below))
        for above, below in zip(better.sum(axis=0), better.sum(axis=1), strict=True)
    ]


def detectable(values: Sequence[float], cells: int) -> float | None:
    """The smallest detectable difference of a cell from an equal one, as a share of its median.

    A second cell with as many repetitions and as much noise, but faster by this share, would differ
    significantly from it with the probability POWER, or more where others do too; both are in a
    ranking of that many cells. None for fewer than LEAST values. s being the standard
    deviation of this cell's logarithms,

        share = exp(shift(n, cells) s) - 1.

    Normal noise is assumed for this forecast; and s of n values is itself uncertain by about
    1 / sqrt(2 (n - 1)), 41 % of itself for n = 4, 25 % for 9. benchmarks/intervals.py prints which
    power is left, and for other noise.
    """
    if len(values) < LEAST:
        return None
    spread = standard_deviation([math.log(value) for value in values])
    return math.expm1(shift(len(values), cells) * spread)


@functools.cache
def shift(n: int, cells: int) -> float:
    """Standard deviations by which two normal cells of n must differ to be found so with POWER.

    By the strictest level of Holm's correction, ERROR / m for m pairs. With R = q1 / (q1 + q2),
    which is Beta((n-1)/2, (n-1)/2), Welch's degrees of freedom are (n - 1) / (R^2 + (1 - R)^2);
    q1 + q2 does not depend on R, so that t given R is noncentral t with 2n - 2 degrees of freedom
    and noncentrality shift sqrt(n / 2). Its power is integrated over R, and the shift bisected.
    """
    from scipy.special import nctdtr, roots_legendre, stdtrit

    nodes, weights = roots_legendre(64)
    r = (nodes + 1) / 2
    weights = weights * (r * (1 - r)) ** ((n - 3) / 2)
    weights = weights / weights.sum()
    count = cells * (cells - 1) / 2
    critical = -stdtrit((n - 1) / (r**2 + (1 - r) ** 2), ERROR / count / 2)
    low, high = 0.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        power = weights @ (1 - nctdtr(2 * n - 2, middle * math.sqrt(n / 2), critical))
        low, high = (middle, high) if power < POWER else (low, middle)
    return high
