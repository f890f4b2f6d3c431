"""Inference: the throughput of queued batches, and the latency of one batch at a time.

Two windows, and never a number of one from the other. In the first all batches are queued, and once
it is waited until all their outputs are on the host. In the second one batch at a time goes from an
array on the host to outputs on the host, a closed loop with one request in flight: the time of
service, not of a response under load. The first window may have more batches than are asked for,
so that it lasts long enough; the second one has no more.
"""

import itertools
import math
import random

from dlperf.contract.run import Run
from dlperf.contract.timer import perf_counter
from dlperf.scenarios import Metric, train

TITLE = "inference"
TRAINS = False
COUNTED = False
RUN = Run
QUEUED = True
CURVED = False
#: Percentiles of latency that are reported.
PERCENTILES = (50, 90, 95, 99)
#: Half of what an interval of 95 % leaves out: of so many batches that no interval of order
#: statistics reaches so far, a percentile is not told.
TAIL = 0.025
#: Fingerprints of the outputs of different batches are further apart than this: float32 sees it.
LEAST_BETWEEN = 1e-5
#: So many batches are answered one at a time before the windows.
WARMING = 3
#: So many batches of each window are answered once more behind it.
AGAIN = 3
#: What a window's outputs may take, until one of them is asked for.
KEPT_BYTES = 2**30


def prepare(run, implementation):
    return implementation.inference(run)


def warm(run, work, handle, initial):
    """What the windows do, once before: nothing is made there for the first time. How many batches
    that takes."""
    work.outputs(handle)
    for _ in range(WARMING):
        work.answer(*work.batches.next())
    work.batches.fill()
    return WARMING


def most_steps(run, work, handle):
    """Of how many batches the outputs can be held: they are read behind the window."""
    return max(1, (run.pool_bytes or KEPT_BYTES) // max(1, work.outputs(handle).nbytes))


def window(run, work, stopwatch):
    """Time both windows."""

    def read(handles):
        """All outputs: as they are there, that takes no time."""
        return [work.outputs(handle) for handle in handles]

    handles, window = train.timed(run, work, stopwatch, read, is_free=True)
    queued = Answers()
    while handles:
        queued.add(work.outputs(handles.pop(0)))
    seconds, answered = latencies(run, work, stopwatch)
    batches = work.batches
    if batches.pooled:
        places = [batches.order[step % len(batches.order)] for step in range(stopwatch.steps)]
        others = range(batches.distinct, batches.distinct + stopwatch.asked)
        check(work, queued=queued.numbered(places), answered=answered.numbered(others))
    else:  # in the order in which they are read, from the first one of the warm-up on
        first = stopwatch.batches_before
        places = range(first, first + stopwatch.steps)
        others = range(places.stop, places.stop + stopwatch.asked)
    kept = {"queued": queued.kept_of(places), "answered": answered.kept_of(others)}
    latency = {"rank": run.rank, "seconds": seconds, "outputs": answered.fingerprints[0]}
    return {"window": window, "latency": latency, "kept": kept}


class Answers:
    """A window's outputs: fingerprints of all, and as many as KEPT_BYTES hold themselves.

    Which of more are kept is drawn: every n-th, from a drawn one on.
    """

    def __init__(self):
        self.fingerprints, self._kept, self._every, self._first = [], {}, 1, 0
        self._bytes = 0

    def add(self, outputs):
        import numpy as np  # not for the plan

        if type(outputs) is not np.ndarray:
            raise TypeError("outputs are no NumPy array: %s" % type(outputs).__name__)
        place = len(self.fingerprints)
        self.fingerprints.append(fingerprint(outputs))
        if place % self._every != self._first:
            return
        self._kept[place] = outputs
        self._bytes += outputs.nbytes
        if self._bytes > KEPT_BYTES and len(self._kept) > 1:
            self._first += self._every * random.SystemRandom().randrange(2)
            self._every *= 2
            for other in [each for each in self._kept if each % self._every != self._first]:
                self._bytes -= self._kept.pop(other).nbytes

    def numbered(self, numbers):
        """Pairs of a batch's number and its fingerprint."""
        return list(zip(numbers, self.fingerprints))

    def kept_of(self, numbers):
        """Pairs of a batch's number and the outputs that are kept."""
        return [(numbers[place], outputs) for place, outputs in sorted(self._kept.items())]


def latencies(run, work, stopwatch):
    """(seconds from host to host, the Answers) of each batch, one at a time."""
    clock, answer, next_batch = perf_counter, work.answer, work.batches.next
    seconds, answered = [], Answers()
    stopwatch.meet("latency")
    for _ in range(stopwatch.asked):
        batch = next_batch()
        begin = clock()
        outputs = answer(*batch)
        seconds.append(clock() - begin)
        answered.add(outputs)
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

    timed: of each window pairs of a batch's number in the pool and the fingerprint of its outputs.
    No two batches may have the same. Some, which are drawn now, are answered once more: each must
    be nearer to its own outputs than half of what is between those of any two.
    """
    dice, again = random.SystemRandom(), {}
    for name, pairs in timed.items():
        seen = {}
        for number, found in pairs:
            if seen.setdefault(tuple(found), number) != number:
                raise RuntimeError("%s: different batches get the same outputs" % name)
        for number, _ in dice.sample(pairs, min(AGAIN, len(pairs))):
            again[number] = fingerprint(work.answer(*work.batches.batch(number)))
    between = min(
        (far(one, other) for one, other in itertools.combinations(again.values(), 2)),
        default=math.inf,
    )
    if between <= LEAST_BETWEEN:
        raise RuntimeError("different batches get the same outputs")
    for name, pairs in timed.items():
        for place, (number, found) in enumerate(pairs):
            if number in again and far(found, again[number]) > between / 2:
                raise RuntimeError("%s batch %d has not its own outputs" % (name, place + 1))


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
