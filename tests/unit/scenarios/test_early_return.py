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

from dlperf.contract import timer
from dlperf.measure import tree
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
    end = timer.queued() + seconds
    while timer.queued() < end:
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
        # of the whole, not of each turn: a turn takes up to a tick of the kernel's clock longer
        end = user_time.own() + seconds
        while user_time.own() < end and not stop.is_set():
            compute(0.005)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def taken():
    """What the stopwatch would answer: this process, and those below it."""
    reading = tree.read(os.getpid())
    return early_return.Taken(reading.user, reading.computed)


def check(first, device="cpu", step=(STEP, STEP), again=lambda: None, data="synthetic"):
    reads = iter([first, again])
    run = SimpleNamespace(device=device, data=data, cores=[0])
    early_return.check(run, lambda: next(reads)(), *step, taken)


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
    with crowded():  # by processes that are below this one, as if they were its own
        check(stand_in_the_queue, device, data="sample")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_read_that_always_takes_work_is_none(device):
    check(compute, device, again=compute)


def test_threads_that_read_ahead_all_the_time_are_no_work():
    with beside():
        slow = 1.2 * early_return.LATE_SECONDS + 0.6 * LATE
        check(lambda: time.sleep(slow), step=(LATE, LATE), data="sample")


def in_a_child(seconds=1e9):
    """A read that leaves a process behind, which computes for so long and then sleeps."""

    def read():
        while_ = f"while time.process_time() < {seconds}: pass"
        command = f"import time\n{while_}\ntime.sleep(60)"
        children.append(subprocess.Popen([sys.executable, "-c", command]))

    return read


children: list[subprocess.Popen] = []


@pytest.fixture
def on_one_core():
    """As a rank is, and all that it starts."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    yield
    os.sched_setaffinity(0, own)
    while children:
        with children.pop() as child:
            child.kill()


@pytest.mark.usefixtures("on_one_core")
def test_a_process_that_goes_on_behind_the_reads_is_an_error():
    with pytest.raises(RuntimeError, match="did not come to rest"):
        check(in_a_child())
    with pytest.raises(RuntimeError, match="too early: behind it, the rank's processes computed"):
        check(in_a_child(0.5))


@pytest.mark.usefixtures("on_one_core")
def test_a_thread_that_goes_on_behind_the_reads_is_an_error():
    with beside(), pytest.raises(RuntimeError, match="did not come to rest"):
        check(lambda: None)
    with beside(0.6), pytest.raises(RuntimeError, match="too early: behind it"):
        check(lambda: None)


def test_threads_that_look_for_work_for_a_while_are_none():
    """As OpenMP's do, when a parallel region has ended."""
    with beside(0.2):
        check(lambda: None)


def test_a_kernel_that_counts_no_queue_has_none(tmp_path):
    assert timer.queued(str(tmp_path / "missing")) is None
    for text in ("", "0", "n/a n/a n/a\n"):
        (tmp_path / "schedstat").write_text(text)
        assert timer.queued(str(tmp_path / "schedstat")) is None
    (tmp_path / "schedstat").write_text("7000000000 2500000000 12\n")
    assert timer.queued(str(tmp_path / "schedstat")) == 2.5
