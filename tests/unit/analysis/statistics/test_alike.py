"""Trainings converge alike, or not, or it cannot be told."""

import numpy as np
import pytest

from dlperf.analysis.statistics.alike import ALIKE, UNKNOWN, UNLIKE, compare


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


def test_equal_values_are_alike_and_one_alone_is_compared_with_nothing():
    assert {each.verdict for each in compare([[4224.0] * 3, [4224.0] * 3])} == {ALIKE}
    assert compare([[4224.0], []]) == [None, None]


def test_chance_alone_calls_any_unlike_in_one_round_of_twenty_at_most():
    wrong = sum(
        any(each.verdict == UNLIKE for each in compare(drawn(4, 4, 0.1, seed)))
        for seed in range(60)
    )
    assert wrong <= 7
