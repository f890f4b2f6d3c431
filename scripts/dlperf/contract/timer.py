"""Clocks for single steps. They never wait for the device: the window's length is timed apart."""

import time


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
        append, clock = self._times.append, time.perf_counter
        return lambda: append(clock())

    def seconds(self):
        """Seconds of each step: one less than the marks."""
        return [after - before for before, after in zip(self._times, self._times[1:])]
