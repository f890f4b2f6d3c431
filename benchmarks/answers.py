"""One process that answers the same batches in turns: in a bare loop, and as the scenario times it.

    python benchmarks/answers.py SPEC PAIRS

SPEC is a Run as JSON. A pair has two windows of each kind, so ordered that a steady drift cancels
out. Leaves a list of {"bare": seconds, "scenario": seconds}, medians of a pair's batches, in the
Run's result file. Python 3.7.
"""

import json
import os
import sys
import time

from dlperf import frameworks, workloads
from dlperf.contract.run import Run
from dlperf.scenarios import infer

ORDER = (("bare", "scenario", "scenario", "bare"), ("scenario", "bare", "bare", "scenario"))


class Alone:
    """The stopwatch of a rank without others, for so many steps."""

    def __init__(self, steps):
        self.steps = self.asked = steps

    def meet(self, name):
        pass


def main(spec, pairs):
    run = Run.load(spec)
    framework = frameworks.load(run.framework)
    framework.start(run)
    work = workloads.load(run.workload, run.framework).inference(run)
    work.weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
    bare(run, work)  # the first window of a process differs from all others: leave it out
    found = []
    for index in range(int(pairs)):
        seconds = {"bare": [], "scenario": []}
        for kind in ORDER[index % 2]:
            if kind == "bare":
                seconds[kind] += bare(run, work)
            else:
                seconds[kind] += infer.latencies(run, work, Alone(run.measured_steps))[0]
        found.append({kind: sorted(each)[len(each) // 2] for kind, each in seconds.items()})
    with open(run.result, "w") as stream:
        json.dump(found, stream)
    os._exit(0)  # some frameworks hang in their own exit handlers


def bare(run, work):
    """Seconds of each batch in the loop that anyone would write."""
    seconds, batch = [], work.batches.next()
    for _ in range(run.measured_steps):
        start = time.perf_counter()
        work.answer(*batch)
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
