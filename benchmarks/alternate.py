"""One process that runs blocks of steps on command, under a framework's interpreter.

    python benchmarks/alternate.py SPEC MODULE [MODULE ...]

SPEC is a Run as JSON; each MODULE is NAME=FILE, a module with `training(run)`, or with
`inference(run)` where the Run's scenario is `infer`: then a step is an answer, from a batch's
arrays on the host to outputs on the host. Every line of input is `NAME STEPS`; the answer is one
JSON line: the seconds and the CPU seconds of that block. Python 3.7, for the oldest of the
frameworks.
"""

import importlib.util
import json
import os
import sys
import time

from dlperf.contract.work import Inference

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
        page, infers = load(name, path), run.scenario == "infer"
        works[name] = page.inference(run) if infers else page.training(run)
        if works[name].weights:  # ours; a public implementation starts by itself
            works[name].weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
        block(works[name], WARMUP_STEPS)
    ready = {name: about(work) for name, work in works.items()}
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


def about(work):
    """What the two must have in common, more or less: says whether they are of one model."""
    found = {"parameters": work.parameters}
    if isinstance(work, Inference):
        found["outputs"] = int(work.answer(*work.batches.next()).size)
    return found


def block(work, steps):
    """Seconds of `steps` steps, their last wait included, and the CPU seconds spent."""
    return answers(work, steps) if isinstance(work, Inference) else updates(work, steps)


def updates(work, steps):
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(steps):
        handle = work.step()
    work.wait()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "loss": work.loss(handle)}


def answers(work, steps):
    batches = [work.batches.next() for _ in range(steps)]
    cpu, start = time.process_time(), time.perf_counter()
    for batch in batches:
        work.answer(*batch)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
