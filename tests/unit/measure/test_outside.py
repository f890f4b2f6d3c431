"""The window is the stopwatch's; a rank's clock, cores and processor time must fit it."""

import pytest

from dlperf.measure import outside
from dlperf.measure.meeting import Moment
from dlperf.measure.tree import Reading


def window(ours=2.0, own=2.0, queued=0.0):
    told = {"rank": 0, "node": "n", "start": 50.0, "end": 50.0 + own}
    return outside.window(told, Moment(10.0, 1e9), Moment(10.0 + ours, 1e9 + ours), queued)


def reading(at, computed, cores=(0,), processes=1):
    return Reading(at, computed, 0.0, 0.0, list(cores), processes, 4)


def seen(window_seconds=1.9, before=0.0, cores=(0,), processes=1, elapsed=2.0, restart=0.5):
    """Readings of a rank that computed for so long in a window of so many seconds."""
    return {
        "write": reading(0.0, 0.0),
        "written": reading(0.5, 0.5),
        "restart": reading(3.0, 3.4 - restart),
        "restarted": reading(3.4, 3.4),
        "rested": reading(3.5, 3.5),
        "window": reading(4.0, 3.5 + before, cores, processes),
        "ended": reading(4.0 + elapsed, 3.5 + before + window_seconds, cores, processes),
        "end": reading(6.5, 3.6 + before + window_seconds),
    }


def too_much(allowed=(0,), steps=10, may_work=False, **changes):
    return outside.too_much(outside.entry(0, allowed, seen(**changes)), steps, may_work)


def test_the_window_is_the_stopwatchs():
    found = window(ours=2.5, own=2.4, queued=0.01)
    assert (found["start"], found["end"], found["end_utc"]) == (10.0, 12.5, 1e9 + 2.5)
    assert (found["rank_start"], found["rank_end"]) == (50.0, 52.4)


@pytest.mark.parametrize(
    ("ours", "own", "queued"),
    [(2.0, 1.9995, 0.0), (2.0, 1.95, 0.0), (2.0, 1.2, 1.5), (2.0, 1.2, None), (900.0, 900.5, 0.0)],
    ids=["quiet", "messages", "busy", "no queue is counted", "clocks of two nodes drift"],
)
def test_what_scheduling_explains_is_no_disagreement(ours, own, queued):
    assert outside.disagreement(window(ours, own, queued)) == ""


@pytest.mark.parametrize(
    ("ours", "own", "queued"),
    [(2.0, 1.8, 0.0), (2.0, 1.0, 0.5), (2.0, 2.1, 9.0), (2.0, 4.0, None), (2.0, -1.0, None)],
    ids=["slower", "slower and busy", "faster", "faster, no queue is counted", "backwards"],
)
def test_a_clock_of_a_ranks_own_is_an_error_with_both_numbers(ours, own, queued):
    said = outside.disagreement(window(ours, own, queued))
    assert f"{own:.3f} s by its own clock, but {ours:.3f} s by the stopwatch's" in said


def test_a_rank_that_keeps_to_its_cores_and_its_window_is_right():
    assert too_much() == ""
    assert too_much(allowed=(0, 1), cores=(0, 1), window_seconds=3.95) == ""
    assert too_much(window_seconds=2.0 + 3 * 0.01) == "", "/proc counts in ticks"


def test_a_thread_that_may_run_elsewhere_is_an_error():
    assert too_much(cores=(0, 2, 5)) == (
        "its threads may run on cores 0, 2, 5, but the case gives it 0"
    )


@pytest.mark.parametrize(("spent", "cores"), [(2.2, (0,)), (4.3, (0, 1)), (3.9, (0,))])
def test_more_time_than_the_cores_have_is_an_error_with_its_numbers(spent, cores):
    said = too_much(allowed=cores, cores=cores, window_seconds=spent)
    assert f"computed for {spent:.2f} s in a window of 2.00 s" in said


def test_work_between_restart_and_window_is_an_error_unless_batches_are_read_then():
    assert "0.60 s between the restart and the window" in too_much(before=0.6)
    assert too_much(before=0.6, may_work=True) == ""
    assert too_much(before=0.3) == "", "threads look for work for a while"


def test_a_restart_that_does_more_than_to_write_is_an_error():
    said = too_much(restart=2.0)
    assert said.startswith(
        "the restart computed for 2.00 s, where the first writing of the weights"
    )
    assert too_much(restart=1.2) == ""


def test_where_nothing_is_trained_there_is_no_restart():
    readings = {key: each for key, each in seen().items() if key in ("window", "ended", "end")}
    found = outside.entry(0, (0,), readings)
    assert found["restart_seconds"] is found["before_seconds"] is found["waited_seconds"] is None
    assert found["behind_seconds"] == pytest.approx(0.1)
    assert outside.too_much(found, 10, False) == ""


def test_a_kernel_that_counts_no_queue_leaves_it_open():
    readings = seen()
    readings["ended"] = readings["ended"]._replace(queued=0.75)
    assert outside.queued({"queued": 0.5}, readings) == 0.25, "what is beside its own window"
    assert outside.queued({"queued": None}, readings) is None
    readings["ended"] = readings["ended"]._replace(queued=None)
    assert outside.queued({"queued": 0.5}, readings) is None


def test_a_gpu_that_is_not_the_ranks_own_is_an_error():
    begin, end = Moment(0.0, 100.0), Moment(2.0, 102.0)
    use = {"own": ["0"], "gpus": ["0"], "busy": [[101.0, 90], [102.0, 70], [102.5, 50], [104.0, 3]]}
    found = outside.gpus(use, begin, end)
    assert (found["gpu_percent"], found["gpu_percent_behind"]) == (80, 3)
    entry = {**outside.entry(0, (0,), seen()), **found}
    assert outside.too_much(entry, 10, True) == ""
    entry["gpus"] = ["0", "1"]
    assert "compute on the GPUs 1, which are not its own" in outside.too_much(entry, 10, True)
    assert outside.gpus(None, begin, end) == {}
