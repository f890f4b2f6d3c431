"""What a rank's processes do, read from /proc by the stopwatch: nothing of it is said by the rank.

In: the process that a rank began as. Out: a Reading of it and of all that it started: processor
time, threads, and the cores on which they may run. A process whose parent ended is not lost: this
process adopts it (`adopt`), and its session says which rank it is of, or that it left them all.
"""

import ctypes
import os
import time
from typing import Dict, List, NamedTuple, Optional

from dlperf.contract.timer import queued

PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class Reading(NamedTuple):
    """A tree of processes at one moment.

    at: seconds of this node's clock. user, kernel: processor time, in seconds, of all its threads,
    and of those of its processes that ended. queued: how long the first threads of all have stood
    in the queue for a core (the first process may only have started the rank's, as a container
    does); None where the kernel does not count that. cores: those on which at least one of its
    threads may run. processes, threads: how many there are.
    """

    at: float
    user: float
    kernel: float
    queued: Optional[float]
    cores: List[int]
    processes: int
    threads: int

    @property
    def computed(self):
        """Processor time, in user mode and in the kernel."""
        return self.user + self.kernel


class Process(NamedTuple):
    """What /proc/PID/stat says of a process; times in ticks, of it and of its ended children.

    state: as there; "Z" of one that ended and for which nobody has waited, whose times still count.
    """

    pid: int
    state: str
    parent: int
    session: int
    user: int
    kernel: int
    threads: int


def tick():
    """Seconds of a tick, which /proc counts in."""
    return 1.0 / os.sysconf("SC_CLK_TCK")


def adopt(on=True):
    """Become the parent of each process below this one whose own parent ends (Linux)."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, int(on))


def processes(proc="/proc"):
    """{pid: Process} of all that may be read."""
    found = {}
    for name in os.listdir(proc):
        if name.isdigit():
            each = _process(int(name), proc)
            if each:
                found[each.pid] = each
    return found


def _process(pid, proc):
    try:
        with open("%s/%d/stat" % (proc, pid), "rb") as stream:
            # the name, in brackets, may be any bytes
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 18:
        return None
    user, kernel, user_below, kernel_below = map(int, fields[11:15])
    return Process(
        *(pid, fields[0].decode(), int(fields[1]), int(fields[3])),
        *(user + user_below, kernel + kernel_below, int(fields[17])),
    )


def children(there, pid):
    """The Processes whose parent is `pid`."""
    return [each for each in there.values() if each.parent == pid]


def below(there, roots):
    """The Processes of these pids and all that they started and that are there."""
    children: Dict[int, List[int]] = {}
    for each in there.values():
        children.setdefault(each.parent, []).append(each.pid)
    found, left = {}, [pid for pid in roots if pid in there]
    while left:
        pid = left.pop()
        if pid not in found:
            found[pid] = there[pid]
            left += children.get(pid, ())
    return list(found.values())


def read(pid, others=(), there=None, proc="/proc"):
    """The Reading of process `pid`, of `others` that belong to it, and of all below them.

    there: what `processes` says, if it was just asked.
    """
    own = below(processes(proc) if there is None else there, [pid, *others])
    second = tick()
    alive = [each for each in own if each.state != "Z"]
    threads = [thread for each in alive for thread in _threads(each.pid, proc)]
    first = [queued("%s/%d/task/%d/schedstat" % (proc, each.pid, each.pid)) for each in alive]
    known = [each for each in first if each is not None]
    return Reading(
        at=time.perf_counter(),
        user=second * sum(each.user for each in own),
        kernel=second * sum(each.kernel for each in own),
        queued=sum(known) if known else None,
        cores=sorted(set().union(*map(_cores, threads))),
        processes=len(alive),
        threads=sum(each.threads for each in alive),
    )


def together(one, other):
    """A Reading of what was seen at any of two moments; `one` may be None."""
    if one is None:
        return other
    return other._replace(
        cores=sorted(set(one.cores) | set(other.cores)),
        processes=max(one.processes, other.processes),
        threads=max(one.threads, other.threads),
    )


def _threads(pid, proc):
    try:
        return [int(each) for each in os.listdir("%s/%d/task" % (proc, pid))]
    except OSError:  # the process has just ended
        return []


def _cores(thread):
    """The cores on which a thread may run."""
    try:
        return os.sched_getaffinity(thread)
    except OSError:  # it has just ended
        return set()


def queued_here():
    """Seconds that all threads of this process have stood in the queue for a core; None: unknown.

    Threads that ended are not counted.
    """
    path = "/proc/self/task/%s/schedstat"
    found = [queued(path % thread) for thread in os.listdir("/proc/self/task")]
    known = [each for each in found if each is not None]
    return sum(known) if known else None
