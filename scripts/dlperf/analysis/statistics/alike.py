"""Whether trainings converge alike: each framework's samples to the target against all others'.

In: each framework's values, one a seed. Out: its ratio to the others with an interval, a p-value,
and a verdict. As MLPerf's reference convergence points do it, but against the other frameworks in
place of a reference, two-sided and exact (mlcommons/logging, rcp_checker).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dlperf.analysis.statistics import ERROR
from dlperf.analysis.statistics.permutation import ROUNDING, allotments
from dlperf.analysis.statistics.separation import corrected, deciding_level

#: The whole interval of the ratio may be so far from 1 for "alike".
MARGIN = 0.10
ALIKE, UNLIKE, UNKNOWN = "alike", "significantly different", "too few seeds to tell"


class Verdict(NamedTuple):
    """ratio: of a framework's geometric mean to that of all others together, with its interval. p:
    of a permutation test, with Holm's correction for the number of frameworks. verdict: UNLIKE
    where the interval excludes 1; ALIKE where it lies within MARGIN."""

    ratio: float
    low: float
    high: float
    p: float
    verdict: str


def compare(cells: Sequence[Sequence[float]]) -> list[Verdict | None]:
    """The verdict of each cell against all others; None of one without values, or alone.

    All intervals are at the level at which Holm's correction stops, so that they exclude 1 where it
    rejects that nothing differs, and nowhere else.
    """
    having = [index for index, values in enumerate(cells) if values]
    found: list[Verdict | None] = [None] * len(cells)
    if len(having) < 2:
        return found
    tests = [_Test(cells[index], _others(cells, index)) for index in having]
    alone = np.array([test.p for test in tests])
    if len(having) == 2:  # one comparison, seen from both sides
        level, p_values = ERROR, alone
    else:
        level, p_values = float(deciding_level(alone)), corrected(alone)
    for index, test, p in zip(having, tests, p_values, strict=True):
        low, high = test.interval(level)
        within = low >= 1 - MARGIN and high <= 1 + MARGIN
        verdict = UNLIKE if low > 1 or high < 1 else ALIKE if within else UNKNOWN
        found[index] = Verdict(math.exp(test.difference), low, high, float(p), verdict)
    return found


def _others(cells: Sequence[Sequence[float]], index: int) -> list[float]:
    return [value for other, values in enumerate(cells) if other != index for value in values]


class _Test:
    """Pitman's permutation test of two groups' mean logarithms, and its inversion.

    Of an allotment that calls k of the n values of the one group its own, the difference of the
    means is a - b r if the one group's values are all lower by r, with b = k / n - (n - k) / m, m
    being the size of the other group. It is at least as large as the real one, |d - r|, for all r
    from d up to some distance on either side, as |b| <= 1. So p falls with the distance from d, and
    an interval's end is the distance that enough allotments reach. (Pitman 1937, Suppl. J. R.
    Statist. Soc. 4:119-130; the inversion: Maritz 1995, Distribution-Free Statistical Methods.)
    """

    def __init__(self, own: Sequence[float], others: Sequence[float]) -> None:
        labels = allotments(len(own), len(others)).astype(float)
        n, m, logs = len(own), len(others), np.log([*own, *others])
        a = labels @ logs / n - (1 - labels) @ logs / m
        k = labels[:, :n].sum(axis=1)
        b = k / n - (n - k) / m
        self.difference = float(a[0])
        c = a - b * self.difference
        c[np.abs(c) <= ROUNDING * np.abs(logs).max()] = 0
        self._below, self._above = self._distances(c, -b), self._distances(c, b)

    def _distances(self, c: np.ndarray, b: np.ndarray) -> np.ndarray:
        """How far from `difference` each allotment's distance is at least the real one, sorted."""
        slope = np.where(c > 0, 1 + b, np.where(c < 0, 1 - b, 1 - np.abs(b)))
        still = slope <= ROUNDING  # the real allotment, and where the groups only swap
        reached = np.where(still, np.inf, np.abs(c) / np.where(still, 1, slope))
        zero = abs(self.difference)  # where the ratio is 1: rounding may not decide
        reached[np.abs(reached - zero) <= ROUNDING * zero] = zero
        return np.sort(reached)

    @property
    def p(self) -> float:
        """Of the hypothesis that the ratio is 1."""
        reached = self._below if self.difference > 0 else self._above
        return float(np.mean(reached >= abs(self.difference)))

    def interval(self, level: float) -> tuple[float, float]:
        """(low, high) of the ratios that the test does not reject at this level."""
        place = -1 - math.floor(level * len(self._below))
        with np.errstate(over="ignore"):
            low, high = self.difference - self._below[place], self.difference + self._above[place]
            return float(np.exp(low)), float(np.exp(high))
