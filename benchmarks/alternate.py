"""One process that runs blocks of training steps on command, under a framework's interpreter.

    python benchmarks/alternate.py SPEC MODULE [MODULE ...]

SPEC is a Run as JSON; each MODULE is NAME=FILE, a module with `training(run)`. Every line of input
is `NAME STEPS`; the answer is one JSON line: the seconds and the CPU seconds of that block. Python
3.7, for the oldest of the frameworks.
"""

import importlib.util
import json
import os
import sys
import time

WARMUP_STEPS = 3  # compilation, memory, the framework's own choice of kernels


def main(spec, modules):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what frameworks print must not mix with the answers
    from dlperf import frameworks, workloads
    from dlperf.contract.run import Run

    run = Run.load(spec)
    frameworks.load(run.framework).start(run)
    works = {}
    for each in modules:
        name, _, path = each.partition("=")
        works[name] = load(name, path).training(run)
        if works[name].weights:  # ours; a public implementation starts by itself
            works[name].weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
        block(works[name], WARMUP_STEPS)
    ready = {name: {"parameters": work.parameters} for name, work in works.items()}
    answers.write(json.dumps(ready) + "\n")
    answers.flush()
    for line in sys.stdin:
        name, steps = line.split()
        answers.write(json.dumps(block(works[name], int(steps))) + "\n")
        answers.flush()
    os._exit(0)  # some frameworks hang in their own exit handlers


def load(name, path):
    spec = importlib.util.spec_from_file_location("alternate_" + name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def block(work, steps):
    """Seconds of `steps` steps, their last wait included, and the CPU seconds spent."""
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(steps):
        handle = work.step()
    work.wait()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "loss": work.loss(handle)}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
