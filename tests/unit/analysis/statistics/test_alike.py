"""Trainings converge alike, or not, or it cannot be told."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.analysis.statistics import ERROR
from dlperf.analysis.statistics.alike import ALIKE, UNKNOWN, UNLIKE, compare

#: Samples to a target: some multiple of what lies between two evaluations, so with ties.
seeds = st.lists(st.integers(2, 9).map(lambda count: 512.0 * count), min_size=1, max_size=5)


def drawn(count, seeds, spread, seed=1):
    return (
        5000 * np.exp(spread * np.random.default_rng(seed).standard_normal((count, seeds)))
    ).tolist()


def test_many_seeds_of_little_scatter_are_alike():
    assert {each.verdict for each in compare(drawn(8, 7, 0.02))} == {ALIKE}


def test_one_that_takes_a_third_more_samples_is_unlike_and_only_that_one():
    cells = drawn(8, 5, 0.03)
    cells[2] = [1.33 * value for value in cells[2]]
    found = compare(cells)
    assert found[2].verdict == UNLIKE and found[2].ratio == pytest.approx(1.33, rel=0.05)
    assert UNLIKE not in [each.verdict for index, each in enumerate(found) if index != 2]


def test_two_seeds_with_much_scatter_tell_nothing():
    assert {each.verdict for each in compare(drawn(3, 2, 0.3))} == {UNKNOWN}


def test_equal_values_are_alike_if_there_are_enough_and_one_alone_is_compared_with_nothing():
    """Of 3 and 3 no difference could be shown, so neither can it be that there is none."""
    few = compare([[4224.0] * 3, [4224.0] * 3])
    assert {each[1:] for each in few} == {(0.0, np.inf, 1.0, UNKNOWN)}
    many = compare([[4224.0] * 5, [4224.0] * 5])
    assert {each[1:] for each in many} == {(1.0, 1.0, 1.0, ALIKE)}
    assert compare([[4224.0], []]) == [None, None]


def test_the_p_of_two_is_that_of_scipys_permutation_test():
    one, other = drawn(2, 5, 0.2)
    logs = np.log(one), np.log(other)
    expected = scipy.stats.permutation_test(
        logs, lambda x, y: abs(x.mean() - y.mean()), alternative="greater", n_resamples=np.inf
    )
    for each in compare([one, other]):  # one comparison, so there is nothing to correct
        assert each.p == pytest.approx(expected.pvalue)


@settings(deadline=None)
@given(st.lists(seeds, min_size=2, max_size=4))
def test_the_verdict_is_that_of_the_interval_and_of_the_corrected_p(cells):
    for each in compare(cells):
        assert each.low <= each.ratio * (1 + 1e-12) and each.ratio <= each.high * (1 + 1e-12)
        assert (each.verdict == UNLIKE) == (not each.low <= 1 <= each.high) == (each.p <= ERROR)


def test_a_ratio_at_the_end_of_an_interval_is_just_not_rejected():
    """Dividing by a ratio inside leaves no difference, by one outside does: the test, inverted."""
    cells = drawn(2, 6, 0.1)
    found = compare(cells)[0]
    for end, inwards in ((found.low, 1.001), (found.high, 0.999)):
        inside, outside = end * inwards, end / inwards
        assert compare([[value / inside for value in cells[0]], cells[1]])[0].p > ERROR
        assert compare([[value / outside for value in cells[0]], cells[1]])[0].p <= ERROR


def test_the_interval_holds_the_true_ratio_as_often_as_stated_and_chance_alone_is_seldom_unlike():
    dice, rounds, wrong, missed = np.random.default_rng(7), 150, 0, 0
    factors = np.array([1.0, 1.0, 1.3])
    for _ in range(rounds):
        cells = 5000 * np.exp(0.1 * dice.standard_normal((3, 5)))
        wrong += any(each.verdict == UNLIKE for each in compare(cells.tolist()))
        one, other, third = (cells * factors[:, None]).tolist()
        found = compare([third, [*one, *other]])[0]  # two groups: both tests are one
        missed += not found.low <= 1.3 <= found.high
    assert wrong / rounds < ERROR + 4 * (ERROR * (1 - ERROR) / rounds) ** 0.5
    assert missed / rounds < ERROR + 4 * (ERROR * (1 - ERROR) / rounds) ** 0.5
