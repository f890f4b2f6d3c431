"""Intervals of medians and ratios: exact, and never claiming more than they cover."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dlperf.analysis.statistics.medians import (
    coefficient_of_variation,
    median_interval,
    order_coverage,
    order_rank,
    ratio_interval,
)

positive = st.floats(1e-3, 1e6)


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    [
        (1, 1, 0.0),
        (2, 1, 0.5),
        (3, 1, 0.75),
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (7, 1, 0.984375),
        (9, 2, 0.9609375),
    ],
)
def test_intervals_of_few_values_have_the_coverage_that_is_in_the_literature(n, rank, coverage):
    assert order_rank(n) == rank
    assert order_coverage(n, rank) == coverage


@given(st.integers(1, 300), st.data())
def test_coverage_is_the_binomial_probability(n, data):
    k = data.draw(st.integers(1, (n + 1) // 2))
    expected = stats.binom.cdf(n - k, n, 0.5) - stats.binom.cdf(k - 1, n, 0.5)
    assert math.isclose(order_coverage(n, k), expected, abs_tol=1e-9)


@given(st.integers(6, 300), st.sampled_from([0.8, 0.9, 0.95, 0.975]))
def test_the_interval_is_the_narrowest_that_reaches_the_confidence(n, confidence):
    k = order_rank(n, confidence)
    assert order_coverage(n, k) >= confidence or k == 1
    if k < (n + 1) // 2:
        assert order_coverage(n, k + 1) < confidence


@given(st.lists(positive, min_size=1, max_size=40))
def test_the_interval_holds_the_median_and_is_made_of_values(values):
    interval = median_interval(values)
    assert interval.low <= statistics.median(values) <= interval.high
    assert {interval.low, interval.high} <= set(values)


@given(st.lists(positive, min_size=6, max_size=40, unique=True))
def test_the_interval_agrees_with_scipy(values):
    theirs = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    ours = median_interval(values)
    # scipy's may take an asymmetric interval; ours is never wider than the one it takes
    assert ours.low >= theirs.low or ours.high <= theirs.high


def test_intervals_cover_the_true_median_as_often_as_they_say():
    """By simulation too, for a heavy tail: the formula knows no distribution."""
    dice, hits, tries = random.Random(1), 0, 4000
    for _ in range(tries):
        interval = median_interval([math.tan(math.pi * (dice.random() - 0.5)) for _ in range(7)])
        hits += interval.low <= 0 <= interval.high
    assert abs(hits / tries - 0.984375) < 4 * math.sqrt(0.984375 * 0.015625 / tries)


def test_an_interval_needs_a_value():
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


@given(st.lists(positive, min_size=1, max_size=20), st.lists(positive, min_size=1, max_size=20))
def test_the_interval_of_a_ratio_holds_the_ratio_of_the_medians(above, below):
    interval = ratio_interval(above, below)
    ratio = statistics.median(above) / statistics.median(below)
    assert interval.low <= ratio * (1 + 1e-12) and ratio <= interval.high * (1 + 1e-12)
    assert 0 <= interval.coverage <= 1


def test_the_coverage_of_a_ratio_is_bonferronis_bound():
    assert ratio_interval([2, 2.1, 2.2], [1, 1.1, 1.2]) == (2 / 1.2, 2.2 / 1, 0.5)
    assert ratio_interval(range(10, 17), range(1, 8)).coverage == 1 - 2 * (1 - 0.984375)
    assert ratio_interval([3], [2]).coverage == 0


def test_a_ratio_covers_at_least_what_it_says():
    dice, hits, tries = random.Random(2), 0, 2000
    for _ in range(tries):
        above = [math.exp(dice.gauss(1, 0.1)) for _ in range(7)]
        below = [math.exp(dice.gauss(0, 0.1)) for _ in range(7)]
        interval = ratio_interval(above, below)
        hits += interval.low <= math.e <= interval.high
    assert hits / tries >= interval.coverage


def test_a_ratio_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        ratio_interval([1.0], [0.0])


def test_the_coefficient_of_variation_takes_the_sample_deviation():
    assert coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    assert coefficient_of_variation([10.0]) is None
