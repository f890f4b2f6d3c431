"""Whether `wait` returned too early: what the last step gives may not be computed after it.

After the window these results are read twice. A `wait` that waited for nothing leaves work to the
first read: its thread computes, or sleeps until other threads have computed. The second read shows
what reading costs when nothing is left. But a first read may take longer without any work: the
kernel gives it new memory, and on a busy machine it stands in the queue for a core, or sleeps until
another thread releases the interpreter's lock, or until a page comes from the disk. So neither the
kernel's nor the queue's time counts; and on a CPU, where work is user time, sleep counts only as
far as the process computed meanwhile.
"""

import resource
import time
from typing import NamedTuple

#: Of a step: so much of it, and so many seconds, may be worked after `wait` returned.
LATE_STEPS, LATE_SECONDS = 0.5, 0.02


class Spent(NamedTuple):
    """Seconds that passed, by three clocks.

    elapsed: the wall clock. reading: of these, what the calling thread computed or slept: not what
    the kernel worked for it, nor what it stood in the queue for a core. computing: the user time of
    all threads of the process, so up to `elapsed` for each core.
    """

    elapsed: float
    reading: float
    computing: float

    def since(self, start):
        return Spent(*(now - before for now, before in zip(self, start)))


def spent():
    """The three clocks now; only differences mean something."""
    kernel = resource.getrusage(resource.RUSAGE_THREAD).ru_stime
    elapsed = time.perf_counter()
    return Spent(elapsed, elapsed - kernel - queued(), computed())


def computed():
    """Seconds of user time of all threads of this process since it started."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def queued(path="/proc/thread-self/schedstat"):
    """Seconds that this thread has stood in the queue for a core; 0 of a kernel that counts none.

    The file has nanoseconds on a core, nanoseconds in the queue, and how often it got a core
    [Linux, Documentation/scheduler/sched-stats.rst].
    """
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def check(run, read, step_seconds, step_computing):
    """Raise RuntimeError where the last results took half a step of work after `wait` returned.

    read(): reads them. step_seconds: of a step in the window. step_computing: its user time.
    """
    # on a busy machine a step takes longer than its work
    step = min(step_seconds, step_computing) if run.device == "cpu" else step_seconds
    limit = LATE_STEPS * step + LATE_SECONDS
    late = late_work(run, read, limit)
    if late > limit:
        raise RuntimeError(
            "`wait` returned %.3f s too early: the last results took so much more work" % late
        )


def late_work(run, read, limit):
    """Seconds of work that a first read took more than a second one."""
    first, again = spent_by(read), spent_by(read)
    late = first.reading - again.reading
    if late <= limit or run.device != "cpu":
        return late
    # Threads that read ahead, or that spin until there is work, compute beside any read: they do
    # so when nothing is read, too.
    idle = spent_by(lambda: time.sleep(first.elapsed))
    return min(late, first.computing - max(again.computing, idle.computing))


def spent_by(action):
    start = spent()
    action()
    return spent().since(start)
