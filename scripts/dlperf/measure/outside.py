"""The window as the stopwatch saw it, and what contradicts it: nothing here is said by a rank alone.

In: the moments at which the stopwatch let ranks go and heard that they were done, by its own clock,
and Readings (tree.py) of each rank's processes at those moments. Out: the record's `window` and
`processes`, and the first reason why the numbers do not count.
"""

from dlperf.measure import tree
from dlperf.measure.tree import Reading
from dlperf.scenarios.early_return import LATE_SECONDS, LATE_STEPS, SPIN_SECONDS

#: How much longer than a rank's own window the stopwatch's may be, beside what both stood in the
#: queue for a core: messages, and the interpreter's lock, which threads of the stopwatch share.
CLOCKS_SECONDS = 0.1
#: How far two clocks of one machine, or of two, may drift apart.
DRIFT = 1e-3
#: More processor time than cores have: by rounding of /proc/PID/stat, of user and of kernel time at
#: both ends, in each process, and so much of the window.
TICKS, SHARE = 4, 0.01
#: Of a core, threads may use so much while nothing is asked of them: they look for work ever so
#: often, as those of a communication library do.
POLLING = 0.2


def window(told, begin, end, queued):
    """A rank's entry of the record's `window`.

    told: what the rank says of its own window. begin, end: Moments of the stopwatch's clock, at
    which the ranks were let go, and at which this one was done. queued: how long the stopwatch
    stood in the queue for a core meanwhile, together with the rank; None where that is not known.
    """
    return {
        "rank": told["rank"],
        "node": told["node"],
        "start": begin.seconds,
        "end": end.seconds,
        "start_utc": begin.utc,
        "end_utc": end.utc,
        "rank_start": told["start"],
        "rank_end": told["end"],
        "queued_seconds": queued,
    }


def disagreement(entry):
    """Why the rank's clock of a `window` entry is not the stopwatch's, or ""."""
    ours, own = entry["end"] - entry["start"], entry["rank_end"] - entry["rank_start"]
    waited = entry["queued_seconds"]
    # where queues are not counted, a busy machine may explain any delay
    most = ours if waited is None else CLOCKS_SECONDS + waited
    drift = 0.001 + DRIFT * ours
    if own <= ours + drift and ours - own <= most + drift:
        return ""
    return "its window is %.3f s by its own clock, but %.3f s by the stopwatch's, of which %s" % (
        own,
        ours,
        _said(waited),
    )


def _said(waited):
    if waited is None:
        return "any part may be the queue for a core"
    return "messages and the queue for a core explain %.3f s" % (CLOCKS_SECONDS + waited)


def readings(seen):
    """moment -> Reading, of what a node noted of one rank."""
    return {moment: Reading(*fields) for moment, fields in (seen or {}).items()}


def queued(seen):
    """How long a rank's first thread stood in the queue for a core in its window; None: unknown."""
    begin, end = seen["window"].queued, seen["ended"].queued
    return None if begin is None or end is None else max(0.0, end - begin)


def entry(rank, allowed, seen):
    """A rank's entry of the record's `processes`, of its Readings by moment.

    Seconds are of processor time of all its processes. allowed: the cores that the case gives it.
    """
    begin, end = seen["window"], seen["ended"]
    # a short window may have been looked at at its ends alone
    moments = [seen[name] for name in ("window", "within", "ended") if name in seen]
    return {
        "rank": rank,
        "cores_allowed": sorted(allowed),
        "cores": sorted({core for each in moments for core in each.cores}),
        "processes": max(each.processes for each in moments),
        "threads": max(each.threads for each in moments),
        "write_seconds": _between(seen, "write", "written"),
        "restart_seconds": _between(seen, "restart", "restarted"),
        "before_seconds": _between(seen, "restarted", "window"),
        "window_seconds": _between(seen, "window", "ended"),
        "behind_seconds": _between(seen, "ended", "end"),
        "waited_seconds": round(begin.at - seen["restarted"].at, 3)
        if "restarted" in seen
        else None,
        "elapsed_seconds": round(end.at - begin.at, 3),
    }


def _between(seen, first, last):
    if first not in seen or last not in seen:
        return None
    return round(max(0.0, seen[last].computed - seen[first].computed), 3)


def too_much(entry, steps, reads_ahead):
    """Why the processes of a `processes` entry did more than the case allows, or "".

    steps: of the window. reads_ahead: whether threads read batches beside the steps, at any time.
    """
    allowed, strange = entry["cores_allowed"], set(entry["cores"]) - set(entry["cores_allowed"])
    if strange:
        return "its threads may run on cores %s, but the case gives it %s" % (
            _listed(entry["cores"]),
            _listed(allowed),
        )
    elapsed, spent = entry["elapsed_seconds"], entry["window_seconds"]
    slack = TICKS * tree.tick() * entry["processes"]
    if spent > len(allowed) * elapsed * (1 + SHARE) + slack:
        return (
            "its processes computed for %.2f s in a window of %.2f s: more than its %d core(s) can"
            % (spent, elapsed, len(allowed))
        )
    before = entry["before_seconds"]
    if before is None or reads_ahead:
        return ""
    most = LATE_STEPS * spent / steps + LATE_SECONDS + SPIN_SECONDS * len(allowed)
    most += POLLING * entry["waited_seconds"] + slack
    if before > most:
        return (
            "its processes computed for %.2f s between the restart and the window, where nothing is "
            "to be done; %.2f s are allowed" % (before, most)
        )
    return ""


def _listed(cores):
    return ", ".join(map(str, cores))
