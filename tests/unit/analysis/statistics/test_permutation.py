"""Which cells differ: the error rate over many of them holds, and real changes are found."""

import itertools
import math

import numpy as np
import pytest
from noises import disturbed, drifting, heavy_tails, normal
from scipy import stats

from dlperf.analysis.statistics.permutation import allotments, least_p, p_values, statistic

CELLS = 30


@pytest.mark.parametrize("noise", [heavy_tails, disturbed, drifting])
def test_of_two_equal_rounds_hardly_one_in_twenty_has_any_difference(noise):
    """The family-wise error rate over 30 cells, by simulation; 3 standard errors are allowed."""
    dice = np.random.default_rng(7)
    rounds = 80
    wrong = 0
    for _ in range(rounds):
        speeds = 100 * np.exp(noise(dice, (10, CELLS)))
        _, corrected = p_values(speeds[:5], speeds[5:])
        wrong += bool((corrected <= 0.05).any())
    assert wrong / rounds <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / rounds)


def test_cells_that_do_not_differ_stay_so_beside_many_that_do():
    dice = np.random.default_rng(8)
    rounds = 40
    wrong = 0
    for _ in range(rounds):
        speeds = 100 * np.exp(heavy_tails(dice, (10, CELLS)))
        speeds[5:, : CELLS // 2] *= 0.8
        _, corrected = p_values(speeds[:5], speeds[5:])
        wrong += bool((corrected[CELLS // 2 :] <= 0.05).any())
    assert wrong / rounds <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / rounds)


@pytest.mark.parametrize(
    ("cells", "noise", "least"), [(24, normal, 1.0), (120, normal, 1.0), (24, disturbed, 0.8)]
)
def test_a_change_of_a_tenth_is_found_in_seven_repetitions_however_many_cells(cells, noise, least):
    """With a coefficient of variation of 1 %, also where a repetition in ten is disturbed."""
    dice = np.random.default_rng(9)
    found, asked = 0, 0
    for _ in range(120 // cells):
        speeds = 100 * np.exp(noise(dice, (14, cells)))
        speeds[7:, :6] *= 0.9
        _, corrected = p_values(speeds[:7], speeds[7:])
        found += int((corrected[:6] <= 0.05).sum())
        asked += 6
    assert found / asked >= least


def test_three_repetitions_a_side_show_nothing_whatever_they_are():
    assert least_p(3, 3) == pytest.approx(0.1)
    assert least_p(4, 4) < 0.05
    p, corrected = p_values(np.array([[10.0], [10.1], [9.9]]), np.array([[1.0], [1.1], [0.9]]))
    assert p[0] == corrected[0] == pytest.approx(0.1)


def test_one_cell_alone_has_the_p_of_the_exact_test_in_scipy():
    dice = np.random.default_rng(3)
    before, now = 10 + dice.normal(0, 1, 5), 10.8 + dice.normal(0, 1, 6)

    def far_apart(first, second):
        first, second = np.log(first), np.log(second)
        middles = np.median(first), np.median(second)
        distances = np.sort(np.abs(np.r_[first - middles[0], second - middles[1]]))
        return abs(middles[0] - middles[1]) / distances[math.ceil(0.75 * 11) - 1]

    expected = stats.permutation_test(
        (before, now), far_apart, alternative="greater", n_resamples=np.inf
    )
    p, corrected = p_values(before[:, None], now[:, None])
    assert p[0] == corrected[0] == pytest.approx(expected.pvalue)


def test_the_correction_is_that_of_testing_every_set_of_cells():
    """Step-down maxT is the closed test: a cell's p is the largest of all sets that have it."""
    dice = np.random.default_rng(4)
    speeds = np.exp(dice.normal(0, 0.1, (8, 4)))
    speeds[4:, 0] *= 0.6
    found = np.stack([statistic(np.log(cell), allotments(4, 4)) for cell in speeds.T], axis=1)

    def p_of(cells):
        largest = found[:, cells].max(axis=1)
        return (largest >= largest[0] * (1 - 1e-9)).mean()

    sets = [list(each) for size in range(1, 5) for each in itertools.combinations(range(4), size)]
    _, corrected = p_values(speeds[:4], speeds[4:])
    for cell in range(4):
        assert corrected[cell] == pytest.approx(max(p_of(own) for own in sets if cell in own))


def test_it_does_not_matter_which_round_is_called_the_baseline():
    speeds = np.exp(np.random.default_rng(5).normal(0, 0.1, (9, 6)))
    there, back = p_values(speeds[:4], speeds[4:]), p_values(speeds[4:], speeds[:4])
    assert np.allclose(there, back)


def test_repetitions_that_are_missing_are_left_out():
    speeds = np.exp(np.random.default_rng(6).normal(0, 0.01, (10, 2)))
    speeds[5:] *= 0.8
    speeds[2, 0] = speeds[8, 0] = math.nan
    p, corrected = p_values(speeds[:5], speeds[5:])
    assert (corrected <= 0.05).all() and (p > 0).all()


def test_more_repetitions_than_can_be_permuted_are_drawn_always_alike():
    labels = allotments(10, 10)
    assert len(labels) == 10_001 and (labels.sum(axis=1) == 10).all()
    assert labels[0].tolist() == [True] * 10 + [False] * 10
    assert (labels == allotments(10, 10)).all()
