"""Whether `wait` returned too early: what the last step gives may not be computed after it.

After the window these results are read twice. A `wait` that waited for nothing leaves work to the
first read: its thread computes, or sleeps until other threads have computed. The second read shows
what reading costs when nothing is left. But a first read may take longer without any work: the
kernel gives it new memory, and on a busy machine it stands in the queue for a core, or sleeps until
another thread releases the interpreter's lock, or until a page comes from the disk. So neither the
kernel's nor the queue's time counts; and on a CPU, where work is user time, sleep counts only as
far as the rank's processes computed meanwhile. Where results are plain arrays on the host, reading
costs nothing at all, and a second read, which could compute as much as the first, is no excuse.
Work that no read waits for, in a thread or in another process, shows where the rank itself has
nothing to do: on a CPU its processes must come to rest. That is seen by a piece of work of our own.
On a machine that is busy otherwise, whoever has work left gets as much of a core as this thread
does.

User time is what the stopwatch reads of all the rank's processes: `taken()` asks it.
"""

import hashlib
from resource import RUSAGE_THREAD, getrusage
from typing import NamedTuple

from dlperf.contract.timer import perf_counter, queued, sleep

#: Of a step: so much of it, and so many seconds, may be worked after `wait` returned.
LATE_STEPS, LATE_SECONDS = 0.5, 0.02
#: Threads that wait actively look for work for so long: Intel's OpenMP for 0.2 s by default
#: (KMP_BLOCKTIME), the others for less.
SPIN_SECONDS = 0.25
#: Processes rest where they take less than so much, while this thread takes so much more; this is
#: tried until this thread has taken REST_SECONDS. /proc counts hundredths of a second.
RESTING, LOOK_SECONDS, REST_SECONDS = 0.05, 0.1, 0.8
BLOCK = bytes(1 << 18)


class Taken(NamedTuple):
    """What all the rank's processes have taken of the processor since they began, in seconds.

    user: in user mode. computed: in the kernel, too.
    """

    user: float
    computed: float


class Spent(NamedTuple):
    """Seconds that passed, by three clocks.

    elapsed: the wall clock. reading: of these, what the calling thread computed or slept: not what
    the kernel worked for it, nor what it stood in the queue for a core. computing: the user time of
    all the rank's processes, so up to `elapsed` for each core.
    """

    elapsed: float
    reading: float
    computing: float


def check(run, read, step_seconds, step_computing, taken, at_rest=True, is_free=False):
    """Raise RuntimeError where the last results took half a step of work after `wait` returned.

    read(): reads them. step_seconds: of a step in the window. step_computing: its user time, of all
    the rank's processes. taken(): what these have Taken by now. at_rest: whether they must come to
    rest, where no thread reads batches beside the steps. is_free: whether a read should cost
    nothing.
    """
    # on a busy machine a step takes longer than its work
    step = min(step_seconds, step_computing) if run.device == "cpu" else step_seconds
    limit = LATE_STEPS * step + LATE_SECONDS
    begun = taken().user
    late, again = late_work(run, read, limit, taken, is_free)
    if late > limit:
        raise RuntimeError(
            "`wait` returned %.3f s too early: the last results took so much more work" % late
        )
    if not at_rest or may_work(run.device, run.data):
        return
    own = getrusage(RUSAGE_THREAD).ru_utime
    resting = rest(taken)
    own = getrusage(RUSAGE_THREAD).ru_utime - own
    # a read is not work that was left: the second one shows what it costs
    behind = taken().user - begun - own - 2 * again.computing
    limit += SPIN_SECONDS * len(run.cores)
    if behind > limit or not resting:
        raise RuntimeError(
            "`wait` returned too early: behind it, the rank's processes computed for %.3f s beside "
            "the reading%s; %.3f s are allowed"
            % (behind, "" if resting else ", and did not come to rest", limit)
        )


def check_restart(run, taken):
    """Raise RuntimeError where something computes although a restart is over, and waited for."""
    if not may_work(run.device, run.data) and not rest(taken):
        raise RuntimeError(
            "behind the restart, the rank's processes did not come to rest: something computes "
            "that no step asked for"
        )


def may_work(device, data):
    """Whether a rank's processor may have work that no step asked for: batches that are read ahead.

    With GPUs it is no matter: there a processor does not compute steps.
    """
    return device != "cpu" or data != "synthetic"


def late_work(run, read, limit, taken, is_free=False):
    """(seconds of work that a first read took more than a second one, or than nothing; what the
    second one took)."""
    first, again = spent_by(read, taken), spent_by(read, taken)
    if is_free:
        again = Spent(0.0, 0.0, 0.0)
    late = first.reading - again.reading
    if late <= limit or run.device != "cpu":
        return late, again
    # Threads that read ahead, or that spin until there is work, compute beside any read: they do
    # so when nothing is read, too.
    idle = spent_by(lambda: sleep(first.elapsed), taken)
    return min(late, first.computing - max(again.computing, idle.computing)), again


def spent_by(action, taken):
    """What an action took: Spent."""
    computing, start = taken().user, _clocks()
    action()
    end = _clocks()
    return Spent(*(now - before for now, before in zip(end, start)), taken().user - computing)


def _clocks():
    """`elapsed` and `reading` now; only differences mean something."""
    kernel = getrusage(RUSAGE_THREAD).ru_stime
    elapsed = perf_counter()
    return elapsed, elapsed - kernel - (queued() or 0.0)


def rest(taken):
    """Whether the rank's processes take hardly anything, in time, while this thread computes."""
    until = _own() + REST_SECONDS
    while _own() < until:
        start, before = _own(), taken().computed
        while _own() < start + LOOK_SECONDS:
            hashlib.sha256(BLOCK)  # without the interpreter's lock
        after = taken().computed
        if after - before - (_own() - start) <= RESTING:
            return True
    return False


def _own():
    """Processor time of this thread."""
    usage = getrusage(RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime
