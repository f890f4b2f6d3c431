"""When two cells are told apart: ranks with ties, how often that errs, what could be told apart.

In: intervals of cells and the numbers of their repetitions. The rule is one for all of it: a cell
is faster than another where its interval lies entirely above the other's. Out: ranks, the chance
that the rule separates cells that are equal (exact, whatever the distribution), and the smallest
difference that it is likely to find.
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, betaln, ndtr, ndtri, roots_legendre

from dlperf.analysis.statistics.medians import order_rank, standard_deviation

#: Largest chance that two equal cells are told apart with which a difference counts as shown.
ERROR = 0.05
#: The probability with which `detectable` is found.
POWER = 0.8


def ranks(intervals: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """(best, last) place of each interval (low, high) among all of them; 1 is the fastest.

    The best place is 1 + the number of intervals that lie entirely above, the last one is that of
    all less those that lie entirely below: places overlap, as '1-3', where intervals do. All places
    are right together where all intervals hold their medians (Goldstein & Spiegelhalter 1996,
    J. R. Stat. Soc. A 159:385-443, on league tables; Mogstad et al. 2024, Rev. Econ. Stud.
    91:476-518).
    """
    return [
        (
            1 + sum(other_low > high for other_low, _ in intervals),
            len(intervals) - sum(other_high < low for _, other_high in intervals),
        )
        for low, high in intervals
    ]


@functools.cache
def false_separation(n: int, m: int) -> float:
    """Chance that the intervals of the medians of n and of m values from one distribution separate.

    x(r) > y(s) means that fewer than r of n values x come before y(s), the s-th of m values y. In
    any order of all n + m values, all orders being equally likely, j values x stand before y(s) in
    C(s-1+j, j) C(m-s+n-j, n-j) of C(n+m, n) ways, so that

        P(x(r) > y(s)) = sum_{j<r} C(s-1+j, j) C(m-s+n-j, n-j) / C(n+m, n),

    exact for a continuous distribution, whichever it is, and an upper bound where values tie
    (exceedances: Gumbel & von Schelling 1950, Ann. Math. Stat. 21:247-262; precedence tests:
    Balakrishnan & Ng 2006). Both directions are added. 3 and 3 values: 10 %; 6 and 6: 0.2 %.
    """
    return _precedes(n, m) + _precedes(m, n)


def _precedes(n: int, m: int) -> float:
    r, s = order_rank(n), m + 1 - order_rank(m)
    ways = sum(math.comb(s - 1 + j, j) * math.comb(m - s + n - j, n - j) for j in range(r))
    return ways / math.comb(n + m, n)


@functools.cache
def false_ranking(sizes: tuple[int, ...]) -> float:
    """Chance that any two of several equal cells are told apart; `sizes` are their repetitions.

    The family-wise error of a ranking: all medians and distributions being equal, at least one 'A
    is faster than B' is claimed. Nothing is separated where the highest low end L_i is not above
    the lowest high end H_j, so with uniform values, on whose ranks alone it depends,

        1 - sum_i  integral_0^1  f_i(u)  prod_{j != i} P(L_j <= u < H_j)  du,

    f_i being the density of L_i, the r-th smallest of n: Beta(r, n + 1 - r), and
    P(L_j <= u < H_j) the binomial probability that r to n - r values are at most u (n = 2r - 1,
    where the interval is a point, never holds u). Exact but for rounding: the integrand is a
    polynomial, to which Gauss-Legendre nodes are adapted. Bonferroni's bound, the number of pairs
    times false_separation, says the same less sharply.
    """
    nodes, weights = roots_legendre(min(512, (sum(sizes) + 2) // 2))
    u, w = (nodes + 1) / 2, weights / 2
    counts = Counter(sizes)
    held = {n: _held(n, u) for n in counts}
    none = 0.0
    for n in counts:
        r = order_rank(n)
        density = np.exp((r - 1) * np.log(u) + (n - r) * np.log1p(-u) - betaln(r, n + 1 - r))
        others = math.prod(held[m] ** (counts[m] - (m == n)) for m in counts)
        none += counts[n] * float(w @ (density * others))
    return max(0.0, 1 - none)


def _held(n: int, u: np.ndarray) -> np.ndarray:
    """P(L <= u < H) for the interval [L, H] of n uniform values."""
    r = order_rank(n)
    above, below = betainc(r, n + 1 - r, u), betainc(n + 1 - r, r, u)
    return above - below


def detectable(values: Sequence[float]) -> float | None:
    """The smallest detectable difference of a cell from an equal one, as a share of its median.

    A second cell with as many repetitions and as much noise, but faster by this share, would have
    an interval entirely above this cell's with the probability POWER. The rule that claims it errs
    in at most ERROR of pairs of equal cells, by `false_separation`; None where n is too small for
    that: 3 repetitions and fewer show no difference, however large. With x and y normal in
    logarithms and s the standard deviation of this cell's logarithms,

        share = exp(delta(n) s) - 1,   P(y(r) + delta > x(n+1-r)) = POWER in units of s.

    Normal noise is assumed for this forecast only, by no claim about what was measured; and s of n
    values is itself uncertain by about 1 / sqrt(2 (n - 1)), 41 % of itself for n = 4, 25 % for 9,
    which leaves a power of 71 to 75 %. benchmarks/intervals.py prints it, and for other noise.
    """
    n = len(values)
    if n < 2 or false_separation(n, n) > ERROR:
        return None
    return math.expm1(separating_shift(n) * standard_deviation(list(map(math.log, values))))


@functools.cache
def separating_shift(n: int, power: float = POWER) -> float:
    """Standard deviations between two normal cells of n that separate them with that power.

    P(y(r) + delta > x(s)) = integral of Beta(s, n+1-s)'s density (of x(s), as a share of its
    distribution) times P(y(r) > x(s) - delta), s = n + 1 - r (David & Nagaraja, Order Statistics,
    3rd ed., section 2.1).
    """
    from scipy.optimize import brentq  # half a second, which 3 repetitions need not spend

    r = order_rank(n)
    nodes, weights = roots_legendre(200)
    u, w = (nodes + 1) / 2, weights / 2
    s = n + 1 - r
    density = np.exp((s - 1) * np.log(u) + (n - s) * np.log1p(-u) - betaln(s, n + 1 - s))

    def reached(delta: float) -> float:
        return float(w @ (density * (1 - betainc(r, n + 1 - r, ndtr(ndtri(u) - delta))))) - power

    return float(brentq(reached, 0, 40, xtol=1e-6))
