"""Inference: the throughput of queued batches, and the latency of one batch at a time.

Two windows, and never a number of one from the other. In the first all batches are queued and the
device is waited for once. In the second one batch at a time goes from an array on the host to
outputs on the host, a closed loop with one request in flight: the time of service, not of a
response under load.
"""

import itertools
import math

from dlperf.contract.run import Run
from dlperf.contract.timer import perf_counter
from dlperf.scenarios import Metric, train

TITLE = "inference"
TRAINS = False
COUNTED = False
RUN = Run
CURVED = False
#: Percentiles of latency that are reported.
PERCENTILES = (50, 90, 95, 99)
#: Half of what an interval of 95 % leaves out: of so many batches that no interval of order
#: statistics reaches so far, a percentile is not told.
TAIL = 0.025
#: Fingerprints of the outputs of different batches are further apart than this: float32 sees it.
LEAST_BETWEEN = 1e-5


def prepare(run, implementation):
    return implementation.inference(run)


def warm(run, work, handle, initial):
    """What the windows do, once before: nothing is made there for the first time."""
    work.outputs(handle)
    for _ in range(3):
        work.answer(*work.batches.next())
    work.batches.fill()


def window(run, work, stopwatch):
    """Time both windows."""
    handles, window = train.timed(run, work, stopwatch, work.outputs)
    queued = [fingerprint(work.outputs(handle)) for handle in handles]
    del handles
    seconds, answered = latencies(run, work, stopwatch)
    if work.batches.constant:
        check(work, queued=queued, answered=answered)
    latency = {"rank": run.rank, "seconds": seconds, "outputs": answered[0]}
    return {"window": window, "latency": latency}


def latencies(run, work, stopwatch):
    """(seconds from host to host, fingerprint of the outputs) of each batch, one at a time."""
    clock, answer, next_batch = perf_counter, work.answer, work.batches.next
    seconds, answered = [], []
    stopwatch.meet("latency")
    for _ in range(stopwatch.steps):
        batch = next_batch()
        begin = clock()
        outputs = answer(*batch)
        seconds.append(clock() - begin)
        answered.append(fingerprint(outputs))
    stopwatch.meet("answered")
    return seconds, answered


def fingerprint(outputs):
    """[a fixed random projection of the outputs over their norm, their norm]: all of them count."""
    import numpy as np  # not for the plan

    flat = np.asarray(outputs).ravel().astype(np.float64)
    signs = np.resize(np.random.RandomState(1).choice([-1.0, 1.0], 8191), flat.size)
    norm = float(np.sqrt(flat @ flat))
    if not math.isfinite(norm):
        raise ValueError("outputs are not finite")
    return [float(flat @ signs) / max(norm, 1e-300), norm]


def check(work, **timed):
    """Raise RuntimeError where a batch did not get its own outputs: nothing is cached or left out.

    Batches come in turn. Each must be nearer to the outputs of its own place in the turn than half
    of what is between those of any two places.
    """
    turn = work.batches.distinct
    own = [fingerprint(work.answer(*work.batches.next())) for _ in range(turn)]
    between = min(far(one, other) for one, other in itertools.combinations(own, 2))
    if between <= LEAST_BETWEEN:
        raise RuntimeError("different batches get the same outputs")
    for name, found in timed.items():
        first = min(range(turn), key=lambda place: far(found[0], own[place]))
        for index, value in enumerate(found):
            if far(value, own[(first + index) % turn]) > between / 2:
                raise RuntimeError("%s batch %d has not its own outputs" % (name, index + 1))


def far(one, other):
    """How unlike two fingerprints are."""
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]) / max(one[1], other[1], 1e-300))


def summary(facts, case, settings):
    """What the record says of all ranks: `steps` and `samples` of the first window, `latency`."""
    found = train.throughput_summary(facts, case, settings)
    found["latency"] = {
        "clock": "host",
        "from": "an array on the host",
        "to": "outputs on the host",
        "in_flight": 1,
        "ranks": [each["latency"] for each in facts],
    }
    return found


def percentile(seconds, share):
    """The ceil(share n)-th smallest of n, in milliseconds; None of too few to tell an interval.

    Two-sided, 95 %, by order statistics: share^n must not be above 2.5 %. So p99 takes 368 batches.
    """
    if len(seconds) < least(share):
        return None
    return 1000 * sorted(seconds)[math.ceil(round(share * len(seconds), 9)) - 1]


def least(share):
    """Of how many batches a percentile can be told."""
    return math.ceil(math.log(TAIL) / math.log(max(share, 1 - share)))


def all_seconds(record):
    return [value for rank in record["latency"]["ranks"] for value in rank["seconds"]]


def mean(record, case):
    seconds = all_seconds(record)
    return 1000 * math.fsum(seconds) / len(seconds)


def largest(record, case):
    return 1000 * max(all_seconds(record))


def _percentile(percent):
    share = percent / 100.0
    return Metric(
        "latency_p%d" % percent,
        "ms",
        "lower",
        "Latency, p%d" % percent,
        lambda record, case: percentile(all_seconds(record), share),
        lacking="a p%d takes %d batches in a repetition" % (percent, least(share)),
    )


METRICS = (
    Metric("throughput", "{samples}/s", "higher", "Throughput", train.throughput, True),
    Metric("latency_mean", "ms", "lower", "Mean latency", mean),
    *map(_percentile, PERCENTILES),
    Metric("latency_max", "ms", "lower", "Largest latency", largest),
    Metric("memory", "GiB", "lower", "Peak memory per device", train.memory),
    Metric("energy", "J/{sample}", "lower", "Energy per sample", train.energy),
    Metric("tokens", "tokens/s", "higher", "Tokens per second", train.tokens, True),
    Metric("tflops", "TFLOP/s", "higher", "Arithmetic per device", train.tflops),
)
SHOWN = ("throughput", "latency_p50", "latency_p99")
MARKED = {"latency_p50": 0.5, "latency_p99": 0.99}
