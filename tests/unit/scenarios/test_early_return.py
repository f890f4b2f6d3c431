"""A `wait` that leaves work to be done is caught; a slow first read without work is not.

Each first read takes 0.2 s in its own way, where a step of 0.1 s allows 0.07 s of work.
"""

import contextlib
import math
import mmap
import os
import resource
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import user_time

from dlperf.scenarios import early_return

STEP, LATE = 0.1, 0.2


def compute(seconds=LATE):
    user_time.compute(seconds)


def hold_the_lock(seconds=LATE):
    end = resource.getrusage(resource.RUSAGE_THREAD).ru_utime + seconds
    while resource.getrusage(resource.RUSAGE_THREAD).ru_utime < end:
        sum(range(1000))


def allocate(seconds=LATE):
    """Take new memory until the kernel has worked so long for this thread."""
    end = resource.getrusage(resource.RUSAGE_THREAD).ru_stime + seconds
    while resource.getrusage(resource.RUSAGE_THREAD).ru_stime < end:
        pages = mmap.mmap(-1, 1 << 24)
        pages[:: mmap.PAGESIZE] = bytes(len(pages) // mmap.PAGESIZE)  # a fault a page
        pages.close()


def stand_in_the_queue(seconds=LATE):
    """Compute until this thread has stood in the queue for a core for so long."""
    end = early_return.queued() + seconds
    while early_return.queued() < end:
        pass


@contextlib.contextmanager
def crowded():
    """This thread shares one core with eight other processes."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})  # children are pinned to that core too
    try:
        with contextlib.ExitStack() as others:
            for _ in range(8):
                command = [sys.executable, "-c", "while True: pass"]
                others.callback(others.enter_context(subprocess.Popen(command)).kill)
            yield
    finally:
        os.sched_setaffinity(0, own)


def in_a_thread(action):
    """A read that sleeps until another thread is done."""

    def read():
        thread = threading.Thread(target=action)
        thread.start()
        thread.join()

    return read


def polled(action):
    """A read that looks again and again whether another thread is done."""

    def read():
        thread = threading.Thread(target=action)
        thread.start()
        while thread.is_alive():
            time.sleep(0.001)

    return read


def in_two_threads():
    threads = [threading.Thread(target=compute, args=[LATE / 2]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def allocate_and_compute():
    allocate()
    compute()


def suspended():
    """Stop this whole process, as a batch system does that suspends a job."""
    pid = os.getpid()
    command = "import os, time; os.kill({0}, 19); time.sleep({1}); os.kill({0}, 18)"
    subprocess.run([sys.executable, "-c", command.format(pid, LATE)], check=True)


@contextlib.contextmanager
def beside(seconds=math.inf):
    """A thread that computes for so long or all the time, whoever reads."""
    stop = threading.Event()

    def busy():
        left = seconds
        while left > 0 and not stop.is_set():
            compute(0.005)
            left -= 0.005

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def check(first, device="cpu", step=(STEP, STEP), again=lambda: None):
    reads = iter([first, again])
    early_return.check(SimpleNamespace(device=device), lambda: next(reads)(), *step)


@pytest.mark.parametrize(
    "left",
    [
        compute,
        hold_the_lock,
        in_a_thread(compute),
        in_a_thread(hold_the_lock),
        in_two_threads,
        polled(compute),
        allocate_and_compute,
    ],
    ids=[
        "computed by the read itself",
        "in Python",
        "in another thread",
        "in another thread, in Python",
        "in two threads",
        "polled for",
        "beside new memory",
    ],
)
def test_work_that_is_left_to_the_read_is_an_error(left):
    with pytest.raises(RuntimeError, match="`wait` returned .* s too early"):
        check(left)


def test_work_is_caught_beside_a_thread_that_reads_ahead():
    with beside(LATE / 2), pytest.raises(RuntimeError, match="too early"):
        check(compute)


def test_a_step_that_is_left_is_caught_where_a_busy_machine_makes_steps_long():
    with pytest.raises(RuntimeError, match="too early"):
        check(compute, step=(5.0, LATE))


def test_a_read_that_waits_for_a_gpu_is_an_error():
    with pytest.raises(RuntimeError, match="too early"):
        check(lambda: time.sleep(LATE), device="cuda")


@pytest.mark.parametrize(
    "slow",
    [
        allocate,
        in_a_thread(allocate),
        lambda: time.sleep(LATE),
        suspended,
    ],
    ids=[
        "new memory",
        "new memory of another thread",
        "sleep: a page from the disk",
        "suspended",
    ],
)
def test_a_read_that_is_slow_without_work_is_none(slow):
    check(slow)


def test_new_memory_is_none_where_a_gpu_works():
    check(allocate, device="cuda")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_queue_for_a_core_is_none(device):
    with crowded():
        check(stand_in_the_queue, device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_read_that_always_takes_work_is_none(device):
    check(compute, device, again=compute)


def test_threads_that_compute_whether_or_not_anything_is_read_are_no_work():
    with beside():
        check(lambda: time.sleep(1.2 * early_return.LATE_SECONDS + 0.6 * LATE), step=(LATE, LATE))


def test_a_kernel_that_counts_no_queue_has_none(tmp_path):
    assert early_return.queued(str(tmp_path / "missing")) == 0
    for text in ("", "0", "n/a n/a n/a\n"):
        (tmp_path / "schedstat").write_text(text)
        assert early_return.queued(str(tmp_path / "schedstat")) == 0
    (tmp_path / "schedstat").write_text("7000000000 2500000000 12\n")
    assert early_return.queued(str(tmp_path / "schedstat")) == 2.5
