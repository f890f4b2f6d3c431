"""Which cells differ: the error rate over many of them holds, and real changes are found."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noises import disturbed, drifting, heavy_tails, normal
from scipy import stats

from dlperf.analysis.statistics.permutation import (
    allotments,
    compare,
    least_p,
    p_values,
    statistic,
)

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


@st.composite
def two_rounds(draw):
    """Two rounds of some cells, with changes of all sizes, ties, constants and missing values."""
    before, now = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    columns = []
    for _ in range(draw(st.integers(1, 3))):
        values = draw(
            st.one_of(
                st.lists(st.floats(0.9, 1.1), min_size=before + now, max_size=before + now),
                st.lists(
                    st.sampled_from([1.0, 1.01]), min_size=before + now, max_size=before + now
                ),
                st.just([1.0] * (before + now)),
            )
        )
        change = draw(st.sampled_from([1.0, 0.97, 1.2, 50.0]))
        columns.append([*values[:before], *(change * value for value in values[before:])])
    speeds = np.array(columns).T
    if draw(st.booleans()) and before > 2:
        speeds[0, 0] = math.nan
    return speeds[:before], speeds[before:]


@settings(deadline=None)
@given(two_rounds())
def test_a_verdict_its_interval_and_its_corrected_p_never_disagree(rounds):
    found = compare(*rounds)
    for ratio, low, high, p, corrected in zip(*found, strict=True):
        assert 0 <= low <= ratio <= high
        assert (not low <= 1 <= high) == (corrected <= 0.05)
        assert p <= corrected + 1e-12
    _, plain = p_values(*rounds)
    assert (found.corrected >= plain - 1e-12).all()  # never more claims than the correction allows


def test_an_interval_is_the_inversion_of_its_test():
    """A round divided by a ratio inside is not significantly different, by one outside it is."""
    dice = np.random.default_rng(2)
    before, now = np.exp(0.02 * dice.standard_normal((2, 6, 1)))
    found = compare(before, 1.2 * now)
    for end, inwards in ((found.low[0], 1.001), (found.high[0], 0.999)):
        assert compare(before, 1.2 * now / (end * inwards)).corrected[0] > 0.05
        assert compare(before, 1.2 * now / (end / inwards)).corrected[0] <= 0.05


def test_an_interval_holds_the_true_change_as_often_as_stated():
    """Of a cell alone, and beside others that changed or did not: at least 95 %."""
    dice, rounds, missed = np.random.default_rng(10), 40, np.zeros(2)
    factors = np.array([1.0, 0.8, 1.0, 1.3])
    for _ in range(rounds):
        speeds = np.exp(heavy_tails(dice, (10, 4)))
        before, now = speeds[:5], speeds[5:] * factors
        for place, cells in enumerate(([1], [0, 1, 2, 3])):
            found = compare(before[:, cells], now[:, cells])
            inside = (found.low <= factors[cells]) & (factors[cells] <= found.high)
            missed[place] += np.mean(~inside)
    assert (missed / rounds <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / rounds)).all()


def test_few_repetitions_leave_an_interval_unbounded():
    """Of 3 and 3 the smallest p is 0.1, so nothing is rejected."""
    found = compare(np.array([[1.0], [1.1], [0.9]]), np.array([[10.0], [10.1], [9.9]]))
    assert (found.low[0], found.high[0]) == (0, math.inf) and found.corrected[0] > 0.05


def test_an_interval_is_wider_beside_many_cells():
    dice = np.random.default_rng(12)
    speeds = np.exp(normal(dice, (12, 20)))
    alone = compare(speeds[:6, :1], speeds[6:, :1])
    among = compare(speeds[:6], speeds[6:])
    assert among.low[0] < alone.low[0] and alone.high[0] < among.high[0]
