"""When two cells are significantly different: beside their noise, and among how many."""

import itertools
import math
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.analysis.statistics.separation import (
    ERROR,
    LEAST,
    corrected,
    deciding_level,
    detectable,
    higher,
    pairwise,
    ranks,
    rejected,
    shift,
    welch,
)

speeds = st.lists(st.floats(1, 2), min_size=2, max_size=7)


def cell(place: float, n: int = 5, noise: float = 0.01) -> list[float]:
    """n values about exp(place)."""
    return [math.exp(place + noise * (2 * number / (n - 1) - 1)) for number in range(n)]


def test_the_p_values_are_those_of_welchs_test():
    dice = np.random.default_rng(1)
    samples = [
        dice.normal(place, noise, n) for place, noise, n in ((0, 1, 4), (2, 9, 7), (1, 2, 5))
    ]
    found = welch(
        np.array([each.mean() for each in samples]),
        np.array([each.var(ddof=1) / len(each) for each in samples]),
        np.array([len(each) for each in samples]),
    )
    for p, (one, other) in zip(found, itertools.combinations(samples, 2), strict=True):
        assert p == pytest.approx(scipy.stats.ttest_ind(one, other, equal_var=False).pvalue)


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=10))
def test_holms_correction_rejects_step_by_step(p):
    expected = [False] * len(p)
    for done, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[place] * (len(p) - done) > ERROR:
            break
        expected[place] = True
    assert rejected(np.array(p)).tolist() == expected
    assert rejected(np.array([p, p])).tolist() == [expected, expected]


def test_a_cell_is_higher_by_more_than_noise():
    one, same, above = cell(0), cell(0.001), cell(0.1)
    assert higher([one, same, above]).tolist() == [
        [False, False, False],
        [False, False, False],
        [True, True, False],
    ]
    assert not higher([cell(0, noise=0.1), cell(0.1, noise=0.1)]).any()


def test_more_cells_make_more_pairs_so_each_of_them_must_differ_by_more():
    two = [cell(0, noise=0.1), cell(0.2, noise=0.1)]
    assert higher(two)[1, 0]
    others = [cell(0.1, noise=0.1)] * 6
    assert not higher([*two, *others])[1, 0]


def test_one_noisy_cell_does_not_blur_the_others():
    assert higher([cell(0), cell(0.05), cell(0.02, noise=2)]).tolist() == [
        [False, False, False],
        [True, False, False],
        [False, False, False],
    ]


def test_what_medians_deny_is_not_claimed():
    """Two very slow repetitions lower a mean; the median of that cell is the higher one."""
    slow = [1e-8, 1e-8, 1.01, 1.01, 1.01, 1.01, 1.01] * 8
    steady = [1.0] * 55 + [0.9999]
    logs = np.log(slow), np.log(steady)
    assert scipy.stats.ttest_ind(*logs, equal_var=False).pvalue < ERROR
    assert not higher([slow, steady]).any()


def test_cells_of_three_repetitions_differ_significantly_from_none_and_count_for_no_pair():
    few = [cell(3, n=3), cell(-3, n=3)]
    assert LEAST == 4 and not higher(few).any()
    assert not higher([few[0], cell(0)]).any() and not higher([[1.0]]).any()
    two = [cell(0, noise=0.1), cell(0.2, noise=0.1)]
    found = higher([few[0], *two, few[1]])
    assert found[2, 1] and found.sum() == 1


def test_cells_without_scatter_differ_if_chance_could_hardly_make_them_so():
    """Of n and n values, all of one value and all of another: at most 2^(1 - 2n)."""
    assert higher([[2.0] * 4, [3.0] * 4]).tolist() == [[False, False], [True, False]]
    assert not higher([[2.0] * 9, [2.0] * 9]).any()
    many = [[float(place)] * 4 for place in range(1, 9)]
    assert not higher(many).any()  # 28 pairs x 2^-7 is 22 %
    assert higher([values * 2 for values in many]).sum() == 28


def test_a_cell_without_scatter_is_judged_by_the_others():
    found = higher([[1.0] * 5, cell(0.1), cell(0.001)])
    assert found[1, 0] and not found[0, 2] and not found[2, 0]


@settings(max_examples=50, deadline=None)
@given(st.lists(speeds, min_size=2, max_size=5))
def test_a_unit_changes_nothing_and_no_two_are_higher_than_each_other(cells):
    found = higher(cells)
    assert not (found & found.T).any()
    assert (higher([[1000 * value for value in values] for values in cells]) == found).all()
    medians = [float(np.median(values)) for values in cells]
    for one, other in zip(*np.nonzero(found), strict=True):
        assert medians[one] > medians[other]


def test_cells_that_are_not_significantly_different_share_their_ranks():
    better = np.zeros((4, 4), bool)
    assert ranks(better) == [(1, 4)] * 4
    better[0, 1:] = True
    better[1:3, 3] = True
    assert ranks(better) == [(1, 1), (2, 3), (2, 3), (4, 4)]
    better[1, 3] = False  # 1 and 3 are unknown, though 2 is above 3
    assert ranks(better) == [(1, 1), (2, 4), (2, 3), (3, 4)]


def test_fewer_than_four_repetitions_detect_nothing():
    assert detectable([1.0, 1.01, 1.02], 2) is None
    assert detectable([1.0], 2) is None
    assert detectable([1.0, 1.01, 1.02, 1.03], 2) is not None


@pytest.mark.parametrize("n", [4, 6, 9])
def test_the_detectable_difference_grows_with_noise_and_with_the_number_of_cells(n):
    quiet, noisy = cell(0, n, 0.001), cell(0, n, 0.01)
    assert 0 < detectable(quiet, 4) < detectable(noisy, 4) < detectable(noisy, 8)
    assert detectable([2.0] * n, 4) == 0


def test_more_repetitions_detect_less():
    for cells in (2, 8):
        shifts = [shift(n, cells) for n in (4, 5, 6, 7, 9, 20, 50)]
        assert shifts == sorted(shifts, reverse=True)
    # of large samples, a normal test's: 1.96 standard errors, and 0.8416 for the power
    assert shift(400, 2) == pytest.approx((1.96 + 0.8416) * math.sqrt(2 / 400), rel=0.01)


def some_cells(least: int = LEAST):
    """Cells of several values, some of them without scatter, with ties, or far from each other."""
    values = st.one_of(
        st.lists(st.floats(0.5, 2), min_size=least, max_size=7),
        st.lists(st.sampled_from([1.0, 1.01, 1.02]), min_size=least, max_size=9),
        st.tuples(st.floats(1e-3, 1e3), st.integers(least, 7)).map(lambda own: [own[0]] * own[1]),
    )
    return st.lists(values, min_size=2, max_size=5)


@settings(deadline=None)
@given(some_cells(least=2))
def test_a_verdict_and_its_interval_never_disagree(cells):
    found = pairwise(cells)
    for one, other in itertools.permutations(range(len(cells)), 2):
        low, high = found.low[one, other], found.high[one, other]
        assert found.higher[one, other] == (low > 1) and found.higher[other, one] == (high < 1)
        assert low <= statistics.median(cells[one]) / statistics.median(cells[other]) * (1 + 1e-9)
        assert high >= statistics.median(cells[one]) / statistics.median(cells[other]) * (1 - 1e-9)


@settings(deadline=None)
@given(some_cells())
def test_the_verdicts_are_those_of_welchs_test_with_holms_correction(cells):
    """By scipy's test and a loop, in place of ours."""
    pairs_of = list(itertools.combinations(range(len(cells)), 2))
    logs = [np.log(values) for values in cells]
    if any(np.ptp(own) < 1e-9 for own in logs):
        return  # has a p of its own: see the tests of cells without scatter
    p = [scipy.stats.ttest_ind(logs[i], logs[j], equal_var=False).pvalue for i, j in pairs_of]
    order = sorted(range(len(p)), key=p.__getitem__)
    if any(abs(p[place] * (len(p) - done) / ERROR - 1) < 1e-6 for done, place in enumerate(order)):
        return  # rounding decides
    found, going_on = higher(cells), True
    for done, place in enumerate(order):
        going_on = going_on and p[place] * (len(p) - done) <= ERROR
        i, j = pairs_of[place]
        middles = np.median(cells[i]), np.median(cells[j])
        up = going_on and logs[i].mean() > logs[j].mean() and middles[0] > middles[1]
        down = going_on and logs[i].mean() < logs[j].mean() and middles[0] < middles[1]
        if not math.isclose(*middles, rel_tol=1e-9):
            assert (found[i, j], found[j, i]) == (up, down)


def test_the_interval_of_two_cells_is_welchs():
    one, other = [1.0, 1.1, 1.3, 1.2, 1.15], [1.0, 0.9, 1.05, 0.95]
    found = pairwise([one, other])
    expected = scipy.stats.ttest_ind(np.log(one), np.log(other), equal_var=False)
    ends = np.exp(list(expected.confidence_interval(1 - ERROR)))
    assert [found.low[0, 1], found.high[0, 1]] == pytest.approx(ends)
    assert [found.low[1, 0], found.high[1, 0]] == pytest.approx(1 / ends[::-1])


def test_few_repetitions_or_none_that_scatter_may_leave_an_interval_unbounded():
    for cells in ([cell(0, n=3), cell(1)], [[2.0] * 4, [3.0] * 4] * 4, [[1.0], [2.0]]):
        found = pairwise(cells)
        assert (found.low[0, 1], found.high[0, 1]) == (0, math.inf)
    found = pairwise([[2.0] * 4, [3.0] * 4])  # but of two cells only: p = 2^-7
    assert found.low[1, 0] == pytest.approx(1.5) == found.high[1, 0]


def test_an_interval_is_wider_among_more_cells_that_do_not_differ():
    two = [cell(0), cell(0.004)]
    widths = [
        pairwise([*two, *([cell(0.002)] * others)]).high[1, 0]
        - pairwise([*two, *([cell(0.002)] * others)]).low[1, 0]
        for others in (0, 2, 6)
    ]
    assert widths == sorted(widths) and widths[0] < widths[-1]


def test_corrected_p_values_are_never_below_a_smaller_ones_and_never_above_1():
    assert corrected(np.array([0.01, 0.04, 0.03, 0.9])).tolist() == pytest.approx(
        [0.04, 0.09, 0.09, 0.9]
    )
    assert corrected(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]
    assert deciding_level(np.array([0.001, 0.002, 0.9])) == ERROR
    assert deciding_level(np.array([0.04, 0.04])) == ERROR / 2
    assert deciding_level(np.array([0.001, 0.001])) == ERROR
