"""Inference as a server in an open loop: requests arrive when they will, ready or not.

Each device serves one queue, a request at a time. Requests arrive by a Poisson process that does
not wait for answers, and the latency of one counts from the moment at which it was scheduled, not
from the one at which its turn came: a stall is paid for by all that queue up behind it (MLPerf's
Server scenario; the other way is called coordinated omission).
"""

import dataclasses
import math
import random

from dlperf.contract import run as contract
from dlperf.contract.timer import perf_counter, sleep
from dlperf.scenarios import Metric, infer, train

TITLE = "inference server"
TRAINS = False
COUNTED = False
QUEUED = False
CURVED = False
#: A sleep may end so many seconds late: for the last of them, the rank looks at the clock instead.
LOOKING = 0.002


@dataclasses.dataclass(frozen=True)
class Run(contract.Run):
    """What a rank is told beside: requests a second, and which repetition it is."""

    arrival_rate: int = 0
    repetition: int = 1


RUN = Run


def prepare(run, implementation):
    return infer.prepare(dataclasses.replace(run, scenario="infer"), implementation)


warm = infer.warm


def schedule(seed, repetition, rank, rate, count):
    """Seconds from the start at which requests arrive: `rate` a second, as a Poisson process.

    All frameworks have the same, each repetition and rank one of its own.
    """
    dice = random.Random("arrivals %d %d %d %d" % (seed, repetition, rank, rate))
    moments, now = [], 0.0
    for _ in range(count):
        now += dice.expovariate(rate)
        moments.append(now)
    return moments


def window(run, work, stopwatch):
    """Answer the measured requests, none before it is due."""
    clock, answer, next_batch = perf_counter, work.answer, work.batches.next
    mark = stopwatch.mark
    due = schedule(run.seed, run.repetition, run.rank, run.arrival_rate, stopwatch.steps)
    begun, ended, outputs = [], [], []
    stopwatch.open()
    start = clock()
    mark()
    for moment in due:
        batch = next_batch()
        _wait_until(start + moment)
        begun.append(clock() - start)
        outputs.append(answer(*batch))
        ended.append(clock() - start)
        mark()
    end = clock()
    stopwatch.ended()
    stopwatch.close()
    answered, first = infer.Answers(), stopwatch.batches_before
    while outputs:
        answered.add(outputs.pop(0))
    if work.batches.pooled:
        others = range(work.batches.distinct, work.batches.distinct + stopwatch.steps)
        infer.check(work, answered=answered.numbered(others))
    else:
        others = range(first, first + stopwatch.steps)
    return {
        "window": stopwatch.window(start, end),
        "server": {
            "rank": run.rank,
            "due": due,
            "begun": begun,
            "ended": ended,
            "outputs": answered.fingerprints[0],
        },
        "kept": {"answered": answered.kept_of(others)},
    }


def _wait_until(moment):
    while True:
        left = moment - perf_counter()
        if left <= 0:
            return
        if left > LOOKING:
            sleep(left - LOOKING)


def summary(facts, case, settings):
    """What the record says of all ranks: `steps` and `samples`, and of each request its moments."""
    found = train.throughput_summary(facts, case, settings)
    found["server"] = {
        "clock": "host",
        "arrivals": "poisson",
        "to": "outputs on the host",
        "ranks": [each["server"] for each in facts],
    }
    return found


def utilisation(record, case):
    """Percent of a device's time that the arriving requests take: from 100 on they pile up."""
    service = [
        end - begin
        for rank in record["server"]["ranks"]
        for begin, end in zip(rank["begun"], rank["ended"])
    ]
    return 100 * record["identity"]["arrival_rate"] * math.fsum(service) / len(service)


def saturated(record):
    """Whether requests pile up: then their latency is as long as the run, and no number of it.

    That is so where more arrive than can be answered, or where a queue did not empty once in the
    second half.
    """
    if utilisation(record, None) >= 100:
        return True
    for rank in record["server"]["ranks"]:
        half = len(rank["due"]) // 2
        behind = zip(rank["due"][half + 1 :], rank["ended"][half:])
        if not any(due >= ended for due, ended in behind):
            return True
    return False


def all_seconds(record):
    """Of each request, from the moment for which it was scheduled to its outputs.

    None at all where requests piled up.
    """
    if saturated(record):
        return []
    return [
        end - due
        for rank in record["server"]["ranks"]
        for due, end in zip(rank["due"], rank["ended"])
    ]


def _percentile(percent):
    share = percent / 100.0
    return Metric(
        "server_p%d" % percent,
        "ms",
        "lower",
        "Latency from arrival, p%d" % percent,
        lambda record, case: infer.percentile(all_seconds(record), share),
        lacking="a p%d takes %d requests in a repetition, and a queue that empties"
        % (percent, infer.least(share)),
    )


METRICS = (
    # the scenario's own one, as every repetition has it
    Metric("utilisation", "%", "lower", "Utilisation", utilisation),
    *map(_percentile, infer.PERCENTILES),
)
SHOWN = ("utilisation", "server_p50", "server_p99")
MARKED = {"server_p50": 0.5, "server_p99": 0.99}
