"""One process that times windows of the same steps in turns: bare, and under the stopwatch.

    python benchmarks/windows.py SPEC MEETING [MEETING ...]

SPEC is a Run as JSON; each MEETING (address of a barrier's server) serves one window, and a pair
has two windows of each kind, so ordered that a steady drift cancels out. Leaves a list of
{"bare": seconds}, one a pair, in the Run's result file; the windows under the stopwatch are timed
by its side of the meetings. Python 3.7.
"""

import json
import os
import sys
import time

from dlperf import frameworks, workloads
from dlperf.contract.run import Run
from dlperf.measure.door import TOKEN
from dlperf.measure.meeting import Guest
from dlperf.measure.rank import Stopwatch
from dlperf.scenarios.train import window

ORDER = (
    ("bare", "stopwatch", "stopwatch", "bare"),
    ("stopwatch", "bare", "bare", "stopwatch"),
)


def main(spec, meetings):
    count = len(meetings) // 2
    run = Run.load(spec)
    framework = frameworks.load(run.framework)
    framework.start(run)
    work = workloads.load(run.workload, run.framework).training(run)
    work.weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
    for _ in range(run.warmup_steps):
        work.step()
    work.wait()
    bare(run, work)  # the first window of a process differs from all others: leave it out
    pairs = []
    meetings = iter(meetings)
    token = os.environ.pop(TOKEN)
    for index in range(count):
        pair = {"bare": 0.0}
        for kind in ORDER[index % 2]:
            if kind == "bare":
                pair["bare"] += bare(run, work)
            else:
                guest = Guest(next(meetings), run.rank, token)
                stopwatch = Stopwatch(run, framework, work, guest, *2 * [run.measured_steps])
                window(run, work, stopwatch)
        pairs.append(pair)
    with open(run.result, "w") as stream:
        json.dump(pairs, stream)
    os._exit(0)  # some frameworks hang in their own exit handlers


def bare(run, work):
    """Seconds of the loop that anyone would write."""
    start = time.perf_counter()
    for _ in range(run.measured_steps):
        work.step()
    work.wait()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
