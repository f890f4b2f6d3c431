"""Whether trainings converge alike: each framework's samples to the target against all others'.

In: each framework's values, one a seed. Out: its ratio to the others with an interval, a p-value,
and a verdict. As MLPerf's reference convergence points do it, but against the other frameworks in
place of a reference, two-sided and exact (mlcommons/logging, rcp_checker).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dlperf.analysis.statistics.medians import median, ratio_interval
from dlperf.analysis.statistics.permutation import p_values
from dlperf.analysis.statistics.separation import rejected

#: As far from 1 the whole interval of the ratio may be for "alike".
MARGIN = 0.10
ALIKE, UNLIKE, UNKNOWN = "alike", "unlike", "too few seeds to tell"


class Verdict(NamedTuple):
    """ratio: of a framework's median to that of all others together, with its interval. p: of a
    permutation test, corrected for no number of frameworks. verdict: UNLIKE where Holm's correction
    of all p rejects that nothing differs; ALIKE where the interval lies within MARGIN."""

    ratio: float
    low: float
    high: float
    p: float
    verdict: str


def compare(cells: Sequence[Sequence[float]]) -> list[Verdict | None]:
    """The verdict of each cell against all others; None of one without values, or alone."""
    having = [index for index, values in enumerate(cells) if values]
    found: list[Verdict | None] = [None] * len(cells)
    if len(having) < 2:
        return found
    p = []
    for index in having:
        others = _others(cells, index)
        alone, _ = p_values(np.array(cells[index])[:, None], np.array(others)[:, None])
        p.append(alone[0])
    for index, own, differs in zip(having, p, rejected(np.array(p)), strict=True):
        values, others = cells[index], _others(cells, index)
        interval = ratio_interval(values, others)
        within = interval.low >= 1 - MARGIN and interval.high <= 1 + MARGIN
        verdict = UNLIKE if differs else ALIKE if within else UNKNOWN
        ratio = median(values) / median(others)
        found[index] = Verdict(ratio, interval.low, interval.high, float(own), verdict)
    return found


def _others(cells: Sequence[Sequence[float]], index: int) -> list[float]:
    return [value for other, values in enumerate(cells) if other != index for value in values]
