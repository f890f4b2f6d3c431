"""The method of a search, with made-up memory in place of processes."""

import random
from collections.abc import Callable

import pytest

from dlperf.search.find import FULL, MOST_TRIES, SHORT, Found, Grid, Try, find

BATCHES = Grid(1, 65_536, 8, 1)
GB = 10**9


def search(
    how: Callable[[int, str], str], grid: Grid = BATCHES, memory: Callable[[int], float] = float
) -> tuple[Found, list[Try]]:
    """What is found where `how` says how a size ends and `memory` what it takes (0: not known)."""
    tries = []

    def attempt(value: int, kind: str) -> Try:
        status = how(value, kind)
        peak = int(memory(value)) if status == "ok" else 0
        tries.append(Try(value, kind, status, "" if status == "ok" else "no", 1.0, peak, 4 * GB))
        return tries[-1]

    return find(attempt, grid, 2), tries


def up_to(largest: int) -> Callable[[int, str], str]:
    return lambda value, kind: "ok" if value <= largest else "oom"


def unknown(value: int) -> float:
    return 0


@pytest.mark.parametrize("largest", [*range(1, 40), 100, 127, 128, 512, 615, 4095, 65_535])
def test_it_finds_what_a_scan_of_all_sizes_finds(largest):
    found, tries = search(up_to(largest), memory=unknown)
    scan = max(value for value in (*range(1, 16), *range(16, 65_537, 8)) if value <= largest)
    assert (found.value, found.above) == (scan, "oom")
    assert [each.status for each in tries if each.kind == FULL] == ["ok", "ok"]


@pytest.mark.parametrize("fixed", [0.3, 0.6, 1.0, 1.5])
@pytest.mark.parametrize("sample", [0.003, 0.0055, 0.008, 0.02, 0.06, 0.4])
def test_memory_that_grows_evenly_is_searched_in_12_tries(fixed, sample):
    def memory(value: int) -> float:
        return (fixed + sample * value) * GB

    found, tries = search(
        lambda value, kind: "ok" if memory(value) <= 4 * GB else "oom", memory=memory
    )
    assert memory(found.value) <= 4 * GB < memory(BATCHES.above(found.value))
    assert len(tries) <= 12


def test_memory_that_is_read_wrongly_costs_tries_and_no_truth():
    for seed in range(20):
        dice = random.Random(seed)
        noise = [dice.uniform(0.8, 1.2) for _ in range(65_537)]
        found, tries = search(up_to(616), memory=lambda value, n=noise: n[value] * value * 6e6)
        assert found == Found(616, "oom", found.ended_by)
        assert len(tries) <= 20


def test_the_largest_passes_full_repetitions_or_the_next_smaller_one_does():
    def how(value: int, kind: str) -> str:
        return "ok" if value <= (600 if kind == FULL else 616) else "oom"

    found, tries = search(how, memory=unknown)
    assert (found.value, found.above) == (600, "oom")
    assert [each.value for each in tries if each.kind == FULL and each.fits] == [600, 600]


def test_sizes_above_the_first_that_does_not_fit_are_tried_too():
    """Some libraries take less memory for more images, by another algorithm."""

    def how(value: int, kind: str) -> str:
        return "ok" if value <= 512 or 528 <= value <= 560 else "oom"

    found, tries = search(how, memory=unknown)
    assert (found.value, found.above) == (560, "oom")
    assert {576, 592} <= {each.value for each in tries if not each.fits}


@pytest.mark.parametrize("status", ["crashed", "timeout"])
def test_a_crash_or_a_timeout_is_no_end_of_memory(status):
    found, _ = search(lambda value, kind: "ok" if value <= 200 else status, memory=unknown)
    assert (found.value, found.above) == (200, status)


def test_the_end_of_the_grid_is_no_end_of_memory():
    found, tries = search(up_to(10**9), Grid(1, 100, 8, 1), unknown)
    assert (found.value, found.above, found.ended_by) == (96, "most", None)
    assert max(each.value for each in tries) == 96


def test_where_nothing_fits_the_least_was_tried():
    found, tries = search(up_to(0))
    assert (found.value, found.above) == (0, "oom")
    assert [each.value for each in tries] == [8, 4, 2, 1]


def test_what_cannot_run_at_all_is_tried_once():
    found, tries = search(lambda value, kind: "unsupported")
    assert (found.value, found.above, len(tries)) == (0, "unsupported", 1)


def test_a_search_ends_however_sizes_end():
    for seed in range(30):
        dice = random.Random(seed)
        found, tries = search(lambda value, kind, d=dice: d.choice(["ok", "oom", "crashed"]))
        assert len(tries) <= MOST_TRIES + 2
        assert found.value == 0 or any(each.fits and each.value == found.value for each in tries)


def test_a_dimension_is_searched_in_its_own_steps():
    grid = Grid(1_000_000, 10**9, 1_000_000, 1_000_000)
    found, tries = search(up_to(123_456_789), grid, lambda value: 28 * value + 5e8)
    assert (found.value, found.above) == (123_000_000, "oom")
    assert all(each.value % 1_000_000 == 0 for each in tries)


def test_short_tries_come_before_full_ones():
    _, tries = search(up_to(300), memory=unknown)
    first = next(number for number, each in enumerate(tries) if each.kind == FULL)
    assert all(each.kind == SHORT for each in tries[:first])
    assert {each.value for each in tries[:first]} >= {296, 304}


def test_a_size_that_a_framework_refuses_ends_no_search_of_smaller_ones():
    def attempt(value: int, kind: str) -> str:
        return "ok" if value < 134 else "unsupported"

    found, tries = search(attempt, memory=unknown)
    assert (found.value, found.above) == (128, "unsupported")
    assert [each.status for each in tries if each.kind == FULL] == ["ok", "ok"]
