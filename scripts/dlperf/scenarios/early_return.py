"""Whether `wait` returned too early: what the last step gives may not be computed after it.

After the window these results are read twice. A `wait` that waited for nothing leaves work to the
first read: its thread computes, or sleeps until other threads have computed. The second read shows
what reading costs when nothing is left. But a first read may take longer without any work: the
kernel gives it new memory, and on a busy machine it stands in the queue for a core, or sleeps until
another thread releases the interpreter's lock, or until a page comes from the disk. So neither the
kernel's nor the queue's time counts; and on a CPU, where work is user time, sleep counts only as
far as the rank's processes computed meanwhile. Where results are plain arrays on the host, reading
costs nothing at all, and a second read, which could compute as much as the first, is no excuse.
Work that no read waits for, in a thread or in another process, shows when the rank does nothing: on
a CPU its processes must come to rest.

User time is what the stopwatch reads of all the rank's processes: `computed()` asks it.
"""

from resource import RUSAGE_THREAD, getrusage
from typing import NamedTuple

from dlperf.contract.timer import perf_counter, queued, sleep

#: Of a step: so much of it, and so many seconds, may be worked after `wait` returned.
LATE_STEPS, LATE_SECONDS = 0.5, 0.02
#: Threads that wait actively look for work for so long: Intel's OpenMP for 0.2 s by default
#: (KMP_BLOCKTIME), the others for less.
SPIN_SECONDS = 0.25
#: Processes rest where they take less than so much of a core. They are looked at as often as /proc,
#: which counts hundredths of a second, can tell, and for so long.
RESTING, LOOK_SECONDS, REST_SECONDS = 0.25, 0.1, 1.0


class Spent(NamedTuple):
    """Seconds that passed, by three clocks.

    elapsed: the wall clock. reading: of these, what the calling thread computed or slept: not what
    the kernel worked for it, nor what it stood in the queue for a core. computing: the user time of
    all the rank's processes, so up to `elapsed` for each core.
    """

    elapsed: float
    reading: float
    computing: float


def check(run, read, step_seconds, step_computing, computed, at_rest=True, is_free=False):
    """Raise RuntimeError where the last results took half a step of work after `wait` returned.

    read(): reads them. step_seconds: of a step in the window. step_computing: its user time, of all
    the rank's processes. computed(): the user time that these have taken by now. at_rest: whether
    they must come to rest, where no thread reads batches beside the steps. is_free: whether a read
    should cost nothing.
    """
    # on a busy machine a step takes longer than its work
    step = min(step_seconds, step_computing) if run.device == "cpu" else step_seconds
    limit = LATE_STEPS * step + LATE_SECONDS
    begun = computed()
    late, again = late_work(run, read, limit, computed, is_free)
    if late > limit:
        raise RuntimeError(
            "`wait` returned %.3f s too early: the last results took so much more work" % late
        )
    if not at_rest or run.device != "cpu" or run.data != "synthetic":
        return
    resting = rest(computed)
    # a read is not work that was left: the second one shows what it costs
    behind = computed() - begun - 2 * again.computing
    limit += SPIN_SECONDS * len(run.cores)
    if behind > limit or not resting:
        raise RuntimeError(
            "`wait` returned too early: behind it, the rank's processes computed for %.3f s beside "
            "the reading%s; %.3f s are allowed"
            % (behind, "" if resting else ", and did not come to rest", limit)
        )


def late_work(run, read, limit, computed, is_free=False):
    """(seconds of work that a first read took more than a second one, or than nothing; what the
    second one took)."""
    first, again = spent_by(read, computed), spent_by(read, computed)
    if is_free:
        again = Spent(0.0, 0.0, 0.0)
    late = first.reading - again.reading
    if late <= limit or run.device != "cpu":
        return late, again
    # Threads that read ahead, or that spin until there is work, compute beside any read: they do
    # so when nothing is read, too.
    idle = spent_by(lambda: sleep(first.elapsed), computed)
    return min(late, first.computing - max(again.computing, idle.computing)), again


def spent_by(action, computed):
    """What an action took: Spent."""
    computing, start = computed(), _clocks()
    action()
    end = _clocks()
    return Spent(*(now - before for now, before in zip(end, start)), computed() - computing)


def _clocks():
    """`elapsed` and `reading` now; only differences mean something."""
    kernel = getrusage(RUSAGE_THREAD).ru_stime
    elapsed = perf_counter()
    return elapsed, elapsed - kernel - (queued() or 0.0)


def rest(computed):
    """Wait until the rank's processes compute hardly anything; whether they come to that in time."""
    until = perf_counter() + REST_SECONDS
    while perf_counter() < until:
        before, start = computed(), perf_counter()
        sleep(LOOK_SECONDS)
        if computed() - before <= RESTING * (perf_counter() - start):
            return True
    return False
