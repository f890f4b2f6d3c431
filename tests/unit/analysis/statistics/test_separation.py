"""When two cells are told apart: ranks with ties, and the chance that equal cells are."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.analysis.statistics.medians import median_interval, order_coverage, order_rank
from dlperf.analysis.statistics.separation import (
    POWER,
    detectable,
    false_ranking,
    false_separation,
    ranks,
    separating_shift,
)

interval = st.tuples(st.floats(1, 2), st.floats(1, 2)).map(lambda each: tuple(sorted(each)))


def test_intervals_that_overlap_share_their_ranks():
    assert ranks([(8, 9), (5, 7), (6, 7.5), (1, 2)]) == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert ranks([(1, 9), (5, 6), (7, 8)]) == [(1, 3), (2, 3), (1, 2)]
    assert ranks([(1, 2), (2, 3)]) == [(1, 2), (1, 2)]  # touching is not apart


@settings(max_examples=40, deadline=None)
@given(st.lists(interval, min_size=1, max_size=6))
def test_every_order_of_medians_within_the_intervals_agrees_with_the_ranks(intervals):
    for ends in itertools.product((0, 1), repeat=len(intervals)):
        inside = [each[end] for each, end in zip(intervals, ends, strict=True)]
        for value, (best, last) in zip(inside, ranks(intervals), strict=True):
            assert best <= 1 + sum(other > value for other in inside) <= last


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 3), (2, 2), (3, 3), (3, 5), (4, 4), (6, 6)])
def test_the_chance_of_a_false_separation_counts_all_orders(n, m):
    """Against every way in which n of n + m places can fall to one of the cells."""
    apart = total = 0
    for own in itertools.combinations(range(n + m), n):
        others = [place for place in range(n + m) if place not in own]
        one, two = median_interval(own), median_interval(others)
        apart += one.low > two.high or two.low > one.high
        total += 1
    assert false_separation(n, m) == pytest.approx(apart / total)
    assert false_ranking((n, m)) == pytest.approx(apart / total)


def test_the_chance_of_a_false_ranking_is_below_bonferronis_bound_and_above_one_pairs():
    for n, cells in itertools.product((3, 6, 7, 9, 20), (3, 8, 16)):
        pair = false_separation(n, n)
        assert pair < false_ranking((n,) * cells) < math.comb(cells, 2) * pair
    assert false_ranking((3,)) == pytest.approx(0, abs=1e-12)
    assert false_ranking((3, 3, 9, 9)) == false_ranking((3, 3, 9, 9))


def test_three_repetitions_show_no_difference_however_large():
    assert false_separation(3, 3) == pytest.approx(0.1)
    assert detectable([1.0, 1.01, 1.02]) is None
    assert detectable([1.0]) is None
    assert detectable([1.0, 1.01, 1.02, 1.03]) is not None


@pytest.mark.parametrize("n", [4, 6, 9])
def test_the_detectable_difference_grows_with_noise(n):
    values = [1 + 0.001 * place for place in range(n)]
    noisy = [1 + 0.01 * place for place in range(n)]
    assert 0 < detectable(values) < detectable(noisy)
    assert detectable([2.0] * n) == 0


def test_more_repetitions_detect_less():
    shifts = [separating_shift(n) for n in (9, 12, 15, 20, 50)]
    assert shifts == sorted(shifts, reverse=True)
    # of large samples, both ends of an interval are 1.253 x 1.96 / sqrt(n) from the median
    power = 0.8416 * math.sqrt(2) * 1.2533 / math.sqrt(400)
    assert separating_shift(400) == pytest.approx(2 * 2.456 / math.sqrt(400) + power, rel=0.05)
    assert POWER == 0.8 and order_coverage(400, order_rank(400)) >= 0.95
