"""Verdicts on figures of others: each claim, its interval, and how often it is wrong by chance."""

import importlib.util
import math
import sys

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.analysis.statistics import ERROR
from dlperf.analysis.statistics.equivalence import (
    ABOVE,
    APART,
    BELOW,
    UNDECIDED,
    WITHIN,
    Judged,
    judge,
)

path = ROOT / "benchmarks" / "intervals.py"
spec = importlib.util.spec_from_file_location("benchmark_of_verdicts", path)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)

#: Seven repetitions around 100, within 1 %.
STEADY = (99.2, 99.6, 99.8, 100.0, 100.1, 100.5, 100.8)
NOISY = (80.0, 90.0, 95.0, 100.0, 106.0, 111.0, 120.0)


def against(figure: float, values=STEADY, margin: float = 0.05) -> Judged:
    (found,) = judge([(values, [figure])], margin)
    return found


@pytest.mark.parametrize(
    ("figure", "claim"),
    [
        *((100, WITHIN), (98, WITHIN), (102, WITHIN), (88, ABOVE), (112, BELOW)),
        *((95.2, APART), (105.4, APART)),  # nearly 5 % away: beyond it or not
    ],
)
def test_one_published_number_is_a_constant(figure, claim):
    found = against(figure)
    assert found.claim == claim
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(100 / figure)


def test_a_noisy_cell_is_not_equal_because_it_is_noisy():
    """The wrong test, of a difference, would find none."""
    found = against(100, NOISY)
    assert found.claim == UNDECIDED
    assert found.low < 0.95 and found.high > 1.05


def test_the_interval_of_one_cell_beside_a_constant_is_students():
    found, logs = against(100), np.log(STEADY)
    half = 2.4469118511449697 * logs.std(ddof=1) / math.sqrt(7)  # t(0.975, 6)
    assert found.low == pytest.approx(math.exp(logs.mean() - half - math.log(100)))
    assert found.high == pytest.approx(math.exp(logs.mean() + half - math.log(100)))


def test_repetitions_on_both_sides_are_tested_as_two_samples():
    (found,) = judge([(STEADY, [1.01 * value for value in STEADY])], 0.05)
    assert found.claim == WITHIN
    assert found.ratio == pytest.approx(1 / 1.01)
    assert found.high - found.low > against(101).high - against(101).low  # their noise counts too
    (found,) = judge([(STEADY, NOISY)], 0.05)
    assert found.claim == UNDECIDED
    (found,) = judge([([1.2 * value for value in STEADY], STEADY)], 0.05)
    assert found.claim == ABOVE


def test_a_wider_margin_reproduces_more_and_finds_less():
    assert against(93, margin=0.05).claim == ABOVE
    assert against(93, margin=0.1).claim == WITHIN


def test_the_larger_the_table_the_stricter_is_its_test():
    alone = against(96.2)
    assert alone.claim == WITHIN
    many = judge([(STEADY, [96.2])] * 50, 0.05)
    assert {found.claim for found in many} == {APART}
    assert many[0].p == alone.p and many[0].corrected == pytest.approx(50 * alone.p)
    assert many[0].low < alone.low < alone.high < many[0].high


def test_nothing_is_claimed_that_the_medians_deny():
    """The means are equal, and six of seven repetitions are 7 % faster."""
    values = [107.0] * 6 + [67.0]
    assert np.mean(np.log(values)) == pytest.approx(math.log(100), abs=0.01)
    found = against(100, values)
    assert found.claim == UNDECIDED and found.high >= 1.07


@pytest.mark.parametrize(("n", "claim"), [(4, UNDECIDED), (5, UNDECIDED), (6, WITHIN), (9, WITHIN)])
def test_without_any_scatter_the_number_of_repetitions_decides(n, claim):
    found = against(100, [101.0] * n)
    assert found.claim == claim
    assert found.p == 2.0 ** (1 - n)
    if claim == UNDECIDED:
        assert (found.low, found.high) == (0, math.inf)
    (both,) = judge([([101.0] * n, [100.0] * n)], 0.05)
    assert both.p == 2.0 ** (1 - 2 * n)


def test_on_an_end_of_the_margin_nothing_is_claimed():
    assert against(100, [105.0] * 9).claim == APART
    assert against(100, [95.0] * 9).claim == APART


@pytest.mark.parametrize("values", [[], [100.0], [99.0, 101.0], [99.0, 100.0, 101.0]])
def test_fewer_than_four_repetitions_cannot_be_judged(values):
    with pytest.raises(ValueError, match="repetitions|above 0|too few"):
        judge([(values, [100.0])], 0.05)


def test_two_or_three_repetitions_of_theirs_are_no_constant():
    with pytest.raises(ValueError, match="3 values are too few"):
        judge([(STEADY, [99.0, 100.0, 101.0])], 0.05)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_speed_has_no_ratio(wrong):
    for pair in ((STEADY, [wrong]), ((*STEADY[1:], wrong), [100.0])):
        with pytest.raises(ValueError, match="above 0"):
            judge([pair], 0.05)


def test_no_pairs_have_no_claims():
    assert judge([], 0.05) == []


values = st.lists(st.floats(50, 150), min_size=4, max_size=9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(values, st.floats(60, 140).map(lambda x: [x]) | values), max_size=6))
def test_the_claim_is_what_the_interval_says(pairs):
    for found in judge(pairs, 0.05):
        inside = found.low >= 0.95 and found.high <= 1.05
        claims = [
            *([WITHIN] if inside else []),
            *([ABOVE] if found.low > 1.05 else []),
            *([BELOW] if found.high < 0.95 else []),
        ]
        if not any(
            math.isclose(end, by, rel_tol=1e-9) for end in found[1:3] for by in (0.95, 1.05)
        ):
            holds = found.low <= 1 <= found.high
            assert found.claim == (claims or [UNDECIDED if holds else APART])[0]
        assert (found.corrected <= ERROR) == (found.claim in (WITHIN, ABOVE, BELOW))


@settings(max_examples=100, deadline=None)
@given(values, values)
def test_seen_from_the_other_side_faster_is_slower(own, other):
    (one,), (turned,) = judge([(own, other)], 0.05), judge([(other, own)], 0.05)
    assert turned.low == pytest.approx(1 / one.high)
    assert turned.ratio == pytest.approx(1 / one.ratio)


ROUNDS = 1000
#: By how much a share of so many rounds may miss a stated one: once in 16,000 tries.
MISSED = 4 * math.sqrt(ERROR * (1 - ERROR) / ROUNDS)


@pytest.mark.parametrize("name", simulation.DISTRIBUTIONS)
@pytest.mark.parametrize(("n", "there"), [(4, 1), (7, 1), (7, 7)])
def test_on_an_end_of_the_margin_five_percent_of_cells_have_a_wrong_verdict(name, n, there):
    """Called equal, or beyond it: whatever the noise, and whether theirs is known or not."""
    for end, beyond in ((1.05, ABOVE), (0.95, BELOW)):
        dice = np.random.default_rng([n, there, len(name)])
        found = simulation.claims(name, n, 1, ROUNDS, dice, end, there)
        assert found[WITHIN] + found[beyond] < ERROR + MISSED
        if name == "normal":
            assert abs(found[WITHIN] - ERROR / 2) < MISSED


@pytest.mark.parametrize("ratios", [[1.05] * 8, [1.05] * 4 + [1] * 4, [1.2] * 6 + [0.95] * 2])
def test_of_a_whole_table_five_percent_have_any_wrong_verdict(ratios):
    dice, wrong = np.random.default_rng(8), 0
    for _ in range(ROUNDS):
        own = np.array(ratios)[:, None] * np.exp(0.01 * dice.standard_normal((8, 5)))
        judged = judge([(values.tolist(), [1.0]) for values in own], 0.05)
        wrong += any(
            found.claim == APART if ratio == 1 else found.claim in (WITHIN, ABOVE, BELOW)
            for ratio, found in zip(ratios, judged, strict=True)
            if ratio != 1.2
        )
    assert wrong / ROUNDS < ERROR + MISSED
