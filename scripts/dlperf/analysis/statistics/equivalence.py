"""Whether cells have the values that somebody else had, within a margin: an equivalence test.

In: the values of each cell's repetitions, and of the figure that it is held against: its own
repetitions, or one number, which is taken as a constant. Out: a claim for each pair with the
interval of the ratio that decides it, and one error rate for all pairs together.

Schuirmann's two one-sided tests (1987, J. Pharmacokinet. Biopharm. 15:657-680) of the logarithms'
means, by Welch's test as in separation.py. "Not significantly different" would be the wrong test:
the noisier a cell, the more often it is true.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dlperf.analysis.statistics import ERROR, LEAST
from dlperf.analysis.statistics.medians import median
from dlperf.analysis.statistics.separation import (
    ROUNDING,
    corrected,
    deciding_level,
    standard_errors,
    without_scatter,
)

#: The interval lies within the margin; beyond it, above or below; it excludes 1 and holds an end of
#: the margin; it holds both.
WITHIN, ABOVE, BELOW, APART, UNDECIDED = "within", "above", "below", "apart", "undecided"


class Judged(NamedTuple):
    """ratio: of the medians, with the interval that decides the claim. p: of the claim that is made
    first as the level rises, of this pair alone. corrected: the same for all pairs together; it is
    at most ERROR where the claim is WITHIN, ABOVE or BELOW, and above it everywhere else."""

    ratio: float
    low: float
    high: float
    p: float
    corrected: float
    claim: str


def judge(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], margin: float) -> list[Judged]:
    """Judge each pair (values, values held against), all above 0; one of the latter is a constant.

    With the margin m, the ratio's logarithm d and its standard error e, the p-value is, with t the
    distribution function of Welch's degrees of freedom,

        2 max(t(-(d - log(1 - m)) / e), t(-(log(1 + m) - d) / e))   for d within the margin,
        2 t(-(d - log(1 + m)) / e)                                  above it,
        2 t(-(log(1 - m) - d) / e)                                  below it:

    both one-sided tests of equivalence, or the one of a difference beyond the margin, each at half
    of the level. So a pair whose true ratio is an end of the margin is called WITHIN with half of
    the level and beyond it with the other half. Holm's correction is over the pairs, and intervals
    are of the level at which it stops: they lie within the margin, or beyond it, where it rejects,
    and nowhere else. They are Student's or Welch's, widened to the ratio of the medians: nothing is
    claimed that the medians deny.

    Raises ValueError for values of fewer repetitions than can be judged.
    """
    if not pairs:
        return []
    numbers = [(_Values.of(own), _Values.of(other, constant=True)) for own, other in pairs]
    distance = np.array([own.mean - other.mean for own, other in numbers])
    middle = np.array([own.middle - other.middle for own, other in numbers])
    size, other_size = (np.array([each[side].size for each in numbers]) for side in (0, 1))
    square, other_square = (np.array([each[side].square for each in numbers]) for side in (0, 1))
    error, freedom, still = standard_errors(square, other_square, size, other_size)
    constant = without_scatter(size, other_size)
    least, most = np.minimum(distance, middle), np.maximum(distance, middle)
    regions = _regions(least, most, math.log(1 - margin), math.log(1 + margin))
    p = _p_values(distance, error, freedom, regions, margin)
    p = np.where(still, np.where(p < 1, constant, 1.0), p)
    low, high = _intervals(p, distance, middle, error, freedom, still, constant)
    for_all = corrected(p)
    return [
        Judged(
            math.exp(middle[index]),
            float(low[index]),
            float(high[index]),
            float(p[index]),
            float(for_all[index]),
            _claim(index, for_all, regions, low, high),
        )
        for index in range(len(pairs))
    ]


class _Values(NamedTuple):
    """Logarithms of a cell's values: mean, median, squared standard error of the mean, number."""

    mean: float
    middle: float
    square: float
    size: float

    @classmethod
    def of(cls, values: Sequence[float], constant: bool = False) -> "_Values":
        if not values or not all(0 < value < math.inf for value in values):
            raise ValueError("a ratio needs values above 0")
        if constant and len(values) == 1:
            only = math.log(values[0])
            return cls(only, only, 0.0, math.inf)
        if len(values) < LEAST:
            raise ValueError(f"{len(values)} values are too few: {LEAST} or more are needed")
        logs = np.log(values)
        square = float(logs.var(ddof=1)) / len(values)
        return cls(float(logs.mean()), math.log(median(values)), square, len(values))


def _regions(
    least: np.ndarray, most: np.ndarray, below: float, above: float
) -> dict[str, np.ndarray]:
    """In which regions the ratio of the means and that of the medians both lie; in none where they
    lie in two, or on an end of the margin."""
    return {
        WITHIN: (least > below + ROUNDING) & (most < above - ROUNDING),
        ABOVE: least > above + ROUNDING,
        BELOW: most < below - ROUNDING,
    }


def _p_values(
    distance: np.ndarray,
    error: np.ndarray,
    freedom: np.ndarray,
    regions: dict[str, np.ndarray],
    margin: float,
) -> np.ndarray:
    """Two-sided p-values of the claims of the regions; 1 where the ratio lies in none."""
    from scipy.special import stdtr  # a third of a second, which makers of tables need not spend

    under, over = math.log(1 - margin), math.log(1 + margin)
    tail = {
        WITHIN: np.minimum(distance - under, over - distance),
        ABOVE: distance - over,
        BELOW: under - distance,
    }
    p = np.ones(len(distance))
    for region, inside in regions.items():
        p = np.where(inside, 2 * stdtr(freedom, -tail[region] / error), p)
    return np.minimum(p, 1)


def _intervals(
    p: np.ndarray,
    distance: np.ndarray,
    middle: np.ndarray,
    error: np.ndarray,
    freedom: np.ndarray,
    still: np.ndarray,
    constant: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of the ratios, at the level at which Holm's correction of `p` stops."""
    from scipy.special import stdtrit

    level = float(deciding_level(p))
    half = np.where(still, ROUNDING, -stdtrit(freedom, level / 2) * error)
    half = np.where(still & (constant > level), np.inf, half)
    with np.errstate(over="ignore"):
        low = np.exp(np.minimum(distance - half, middle))
        high = np.exp(np.maximum(distance + half, middle))
    return low, high


def _claim(
    index: int,
    for_all: np.ndarray,
    regions: dict[str, np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
) -> str:
    """The claim of a pair: of its region where Holm's correction rejects, else of its interval."""
    if for_all[index] <= ERROR:
        return next(region for region, inside in regions.items() if inside[index])
    return UNDECIDED if low[index] <= 1 <= high[index] else APART
