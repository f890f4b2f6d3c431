"""One process that times windows of the same steps in turns: bare, and under the stopwatch.

    python benchmarks/windows.py SPEC MEETING [MEETING ...]

SPEC is a Run as JSON; there is a pair of windows for each MEETING (address of a barrier's server).
Leaves a list of {"bare": seconds, "stopwatch": seconds} in the Run's result file. Python 3.7.
"""

import json
import os
import sys
import time

from dlperf import frameworks, workloads
from dlperf.measure.meeting import Guest
from dlperf.measure.rank import window
from dlperf.measure.run import Run


def main(spec, meetings):
    run = Run.load(spec)
    framework = frameworks.load(run.framework)
    framework.start(run)
    work = workloads.load(run.workload, run.framework).training(run)
    for _ in range(run.warmup_steps):
        work.step()
    work.wait()
    bare(run, work)  # the first window of a process differs from all others: leave it out
    pairs = []
    for index, meeting in enumerate(meetings):
        guest = Guest(meeting, run.rank)
        pair = {}
        for kind in ("bare", "stopwatch") if index % 2 else ("stopwatch", "bare"):
            if kind == "bare":
                pair[kind] = bare(run, work)
            else:
                timed = window(run, framework, work, guest)["window"]
                pair[kind] = timed["end"] - timed["start"]
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
