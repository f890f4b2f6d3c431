"""The window as the stopwatch saw it, and what contradicts it: a rank alone says nothing here.

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
#: A restart writes what was written at the start, and moments: so much more of that may it take,
#: and so many seconds for what is made for the first time. Measured with ResNet-50, GPT and Wide &
#: Deep in all eight frameworks: 0.4 to 1.7 times the writing, at most 0.3 s more.
RESTART_SHARE, RESTART_SECONDS = 1.5, 0.5
#: A sample of a GPU's use is of at most so many seconds (nvml.h, nvmlDeviceGetSamples).
SAMPLE_SECONDS = 1.0
#: Of a core, threads may use so much while nothing is asked of them: they look for work ever so
#: often, as those of a communication library do.
POLLING = 0.2


def window(told, begin, end, queued):
    """A rank's entry of the record's `window`.

    told: what the rank says of its own window. begin, end: Moments of the stopwatch's clock, at
    which the ranks were let go, and at which this one was done. queued: how long the stopwatch
    stood in the queue for a core meanwhile, and the rank beside its own window; None where that is
    not known.
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


def queued(told, seen):
    """How long a rank stood in the queue for a core before its own window began and behind its end;
    None: unknown.

    told: what the rank says of its own window, with how long it was queued in it.
    """
    begin, end, within = seen["window"].queued, seen["ended"].queued, told["queued"]
    return None if None in (begin, end, within) else max(0.0, end - begin - within)


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
        "before_seconds": _between(seen, "rested", "window"),
        "window_seconds": _between(seen, "window", "ended"),
        "behind_seconds": _between(seen, "ended", "end"),
        "waited_seconds": round(begin.at - seen["rested"].at, 3) if "rested" in seen else None,
        "elapsed_seconds": round(end.at - begin.at, 3),
    }


def gpus(use, begin, end):
    """What a rank's entry of `processes` says of its GPUs; {} where a node has none.

    use: what the node noted (host.gpu_processes, host.gpu_busy). begin, end: Moments of the window.
    """
    if not use:
        return {}
    within = [percent for utc, percent in use["busy"] if begin.utc < utc <= end.utc]
    # a sample is of the time before it
    behind = [percent for utc, percent in use["busy"] if utc > end.utc + SAMPLE_SECONDS]
    return {
        "gpus_allowed": use["own"],
        "gpus": use["gpus"],
        "gpu_percent": _mean(within),
        "gpu_percent_behind": _mean(behind),
    }


def _mean(values):
    return round(sum(values) / len(values), 1) if values else None


def _between(seen, first, last):
    if first not in seen or last not in seen:
        return None
    return round(max(0.0, seen[last].computed - seen[first].computed), 3)


def too_much(entry, steps, may_work):
    """Why the processes of a `processes` entry did more than the case allows, or "".

    steps: of the window. may_work: whether a rank's processor may have work that no step asked for
    (early_return.may_work).
    """
    allowed, strange = entry["cores_allowed"], set(entry["cores"]) - set(entry["cores_allowed"])
    if strange:
        return "its threads may run on cores %s, but the case gives it %s" % (
            _listed(entry["cores"]),
            _listed(allowed),
        )
    other = set(entry.get("gpus", ())) - set(entry.get("gpus_allowed", ()))
    if other:
        return "its processes compute on the GPUs %s, which are not its own" % _listed(
            sorted(other)
        )
    elapsed, spent = entry["elapsed_seconds"], entry["window_seconds"]
    slack = TICKS * tree.tick() * entry["processes"]
    if spent > len(allowed) * elapsed * (1 + SHARE) + slack:
        return (
            "its processes computed for %.2f s in a window of %.2f s: more than its %d core(s) can"
            % (spent, elapsed, len(allowed))
        )
    before, restart = entry["before_seconds"], entry["restart_seconds"]
    if before is None or may_work:
        return ""
    part_of_a_step = LATE_STEPS * spent / steps
    most = RESTART_SHARE * entry["write_seconds"] + RESTART_SECONDS + part_of_a_step + slack
    if restart > most:
        return (
            "the restart computed for %.2f s, where the first writing of the weights took %.2f s: "
            "%.2f s are allowed" % (restart, entry["write_seconds"], most)
        )
    most = part_of_a_step + LATE_SECONDS + SPIN_SECONDS * len(allowed)
    most += POLLING * entry["waited_seconds"] + slack
    if before > most:
        return (
            "its processes computed for %.2f s between the restart and the window, where nothing "
            "is to be done; %.2f s are allowed" % (before, most)
        )
    return ""


def _listed(cores):
    return ", ".join(map(str, cores))
