"""Intervals, ranks and marks are right as often as they say, whatever the noise: by simulation.

Each share found in N rounds may miss the stated probability p by 4 sqrt(p (1 - p) / N), which a
right one does once in 16,000 tries; seeds are fixed.
"""

import importlib.util
import math
import sys

import numpy as np
import pytest
from conftest import ROOT

from dlperf.analysis.statistics.medians import median_interval, order_coverage, order_rank
from dlperf.analysis.statistics.separation import POWER, false_ranking

path = ROOT / "benchmarks" / "intervals.py"
spec = importlib.util.spec_from_file_location("benchmark_of_intervals", path)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)

SIZES = (3, 5, 6, 7, 9)
ROUNDS = 10_000
EVERY = pytest.mark.parametrize("name", simulation.DISTRIBUTIONS)


def margin(probability: float, rounds: int = ROUNDS) -> float:
    return 4 * math.sqrt(max(probability * (1 - probability), 1 / rounds) / rounds)


def dice(*seed: object) -> np.random.Generator:
    return np.random.default_rng([ord(each) for each in str(seed)])


def test_the_simulation_takes_the_intervals_that_cells_have():
    values = dice("same").standard_normal((50, 9))
    low, high = simulation.intervals(values)
    for row, *ends in zip(values, low, high, strict=True):
        found = median_interval([float(value) for value in row])
        assert [found.low, found.high] == ends


@EVERY
@pytest.mark.parametrize("n", SIZES)
def test_an_interval_holds_the_true_median_as_often_as_stated(name, n):
    stated = order_coverage(n, order_rank(n))
    found = simulation.median_coverage(name, n, ROUNDS, dice("median", name, n))
    if name in simulation.CONTINUOUS:
        assert abs(found - stated) < margin(stated)
    else:  # with ties it may only hold it more often
        assert found > stated - margin(stated)


@EVERY
@pytest.mark.parametrize("n", SIZES)
def test_an_interval_of_a_ratio_holds_the_true_ratio_at_least_as_often_as_stated(name, n):
    each = order_coverage(n, order_rank(n, 0.975))
    stated = max(0, 2 * each - 1)
    found = simulation.ratio_coverage(name, n, ROUNDS, dice("ratio", name, n))
    assert found > stated - margin(stated)


@EVERY
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("cells", [2, 8])
def test_equal_cells_are_told_apart_as_often_as_the_ranking_states(name, n, cells):
    stated, rounds = false_ranking((n,) * cells), ROUNDS // 2
    found = simulation.false_rankings(name, n, cells, rounds, dice("rank", name, n, cells))
    if name in simulation.CONTINUOUS:
        assert abs(found - stated) < margin(stated, rounds)
    else:
        assert found < stated + margin(stated, rounds)


@pytest.mark.parametrize("n", [6, 7])
def test_eight_equal_frameworks_are_ranked_falsely_in_fewer_than_one_round_of_twenty(n):
    assert false_ranking((n,) * 8) < 0.05
    assert false_ranking((3,) * 8) > 0.7  # and what 3 repetitions are worth is said


@pytest.mark.parametrize("n", SIZES)
def test_unequal_noise_misleads_no_more_often_than_intervals_miss(n):
    """Equal medians, every second cell ten times as noisy: some interval must miss the median."""
    bound = 1 - order_coverage(n, order_rank(n)) ** 8
    found = simulation.false_rankings("normal", n, 8, ROUNDS // 2, dice(n), (1, 10))
    assert false_ranking((n,) * 8) < found < bound


@pytest.mark.parametrize("n", [4, 6, 9])
def test_the_detectable_difference_is_found_nearly_as_often_as_aimed_at(n):
    """Aimed at with noise that is known; that of a cell is taken from its own few values."""
    found = simulation.power("normal", n, ROUNDS, dice("power", n))
    assert POWER - 0.12 < found < POWER


@pytest.mark.parametrize("n", [5, 6, 7, 9, 12, 20])
def test_an_outlier_is_marked_in_one_undisturbed_cell_of_twenty(n):
    found = simulation.marked("normal", n, ROUNDS, dice("mark", n))
    assert abs(found - 0.05) < margin(0.05)
