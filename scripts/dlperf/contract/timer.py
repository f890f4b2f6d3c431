"""Clocks: of single steps, which never wait for the device, and what a rank times itself by.

The clocks are looked up here, before a framework or a page is imported: one that puts another
function in the place of `time.perf_counter` does not change what is timed. What throughput is
computed from is no clock of a rank at all, but the stopwatch's own (measure/stopwatch.py).
"""

from time import perf_counter, sleep

__all__ = ["HostTimer", "perf_counter", "queued", "sleep"]


def queued(path="/proc/thread-self/schedstat"):
    """Seconds that a thread has stood in the queue for a core; None of a kernel that counts none.

    The file has nanoseconds on a core, nanoseconds in the queue, and how often it got a core
    [Linux, Documentation/scheduler/sched-stats.rst].
    """
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


class HostTimer:
    """Host time between returns of `step()`.

    Where a framework queues its work, a step's time is the time to queue it; only the whole window
    (which ends with a wait) gives the throughput.
    """

    clock = "host"

    def __init__(self):
        self._times = []
        self.mark = self._make_mark()

    def _make_mark(self):
        append, clock = self._times.append, perf_counter
        return lambda: append(clock())

    def seconds(self):
        """Seconds of each step: one less than the marks."""
        return [after - before for before, after in zip(self._times, self._times[1:])]
