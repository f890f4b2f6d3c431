"""One rank of a repetition: prepare, warm up, meet, time, wait, meet, and leave the raw facts.

    python -m dlperf.measure.rank SPEC

SPEC is the Run as JSON; the raw facts go to `Run.result`, a JSON file that the stopwatch reads.
"""

import json
import math
import os
import resource
import sys
import time
import traceback

from dlperf import frameworks, workloads
from dlperf.contract import files
from dlperf.contract.run import Run, Unsupported
from dlperf.measure import host
from dlperf.measure.meeting import Guest

# What frameworks and allocators say when memory ends; the words are in their own messages.
OUT_OF_MEMORY = (
    "out of memory",
    "outofmemory",
    "resource_exhausted",
    "resource exhausted",
    "oom when allocating",
    "bad_alloc",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate",
    "memory allocation failure",
)


def main(spec):
    run = Run.load(spec)
    try:
        result = measure(run)
    except BaseException as error:  # the stopwatch must learn of every end, Ctrl-C included
        traceback.print_exc()
        result = failure(error)
    files.write(run.result, json.dumps(result))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: some frameworks hang or abort in their own exit handlers (MindSpore, Horovod,
    # gloo), after everything that counts is on disk.
    os._exit(0 if result["status"] == "ok" else 1)


def failure(error):
    text = "%s: %s" % (type(error).__name__, error)
    if isinstance(error, Unsupported):
        return {"status": "unsupported", "reason": str(error)}
    memory = isinstance(error, MemoryError) or any(word in text.lower() for word in OUT_OF_MEMORY)
    return {"status": "oom" if memory else "crashed", "reason": text[:2000]}


def measure(run):
    """Return the rank's raw facts: steps, window, memory, parity."""
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    framework = frameworks.load(run.framework)
    framework.start(run)
    guest.phase("build")
    work = workloads.load(run.workload, run.framework).training(run)
    expected = workloads.parameter_count(run.workload, run.dimensions)
    if work.parameters != expected:
        raise ValueError(
            "%s of %s has %d trainable parameters, not %d: another model"
            % (run.workload, run.framework, work.parameters, expected)
        )

    work.weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))

    guest.phase("warmup")
    warmup_started = time.perf_counter()
    handle = None
    for _ in range(run.warmup_steps):
        handle = work.step()
    work.wait()
    if work.loss:
        work.loss(handle)
    work.batches.fill()
    warmup_seconds = time.perf_counter() - warmup_started

    facts = window(run, framework, work, guest)
    facts["warmup_seconds"] = warmup_seconds
    losses = facts["loss"]
    if not all(math.isfinite(value) for value in losses or ()):
        raise ValueError("the loss is not finite: %s" % losses)

    guest.phase("stop")
    facts["memory"] = dict(
        framework.memory(run),
        rank=run.rank,
        host_peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    parity = {
        "precision": run.precision,
        "compiler": run.compiler,
        "threads": run.cores_per_device if run.device == "cpu" else None,
        "mkl_cpu_type": os.environ.get("MKL_DEBUG_CPU_TYPE"),
        "parameters": work.parameters,
        "network_interface": run.interface if run.distributed else None,
        # Equal over frameworks, or not one input. A framework's own reader has none: None.
        "data_digest": work.batches.first_batch_sha256,
    }
    parity.update(work.batches.parity)
    parity.update(framework.parity(run))
    parity.update(work.parity)
    facts["parity"] = parity
    guest.wait("measured")  # nobody leaves while a peer still needs the group
    work.batches.close()
    framework.stop(run)
    facts["status"] = "ok"
    return facts


def window(run, framework, work, guest):
    """Time the measured steps. Nothing in here but the steps, a clock and the final wait."""
    energy = host.EnergyCounter(run)
    timer = framework.step_timer(run)
    waited = work.batches.waited_seconds
    clock, step, mark = time.perf_counter, work.step, timer.mark
    handles = []
    guest.phase("window")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    energy.start()
    guest.wait("window")
    start_utc, start = time.time(), clock()
    mark()
    for _ in range(run.measured_steps):
        handles.append(step())
        mark()
    work.wait()
    end = clock()
    end_utc = time.time()
    joules = energy.stop()
    spent = resource.getrusage(resource.RUSAGE_SELF)
    guest.wait("end")
    cpu = spent.ru_utime + spent.ru_stime - usage.ru_utime - usage.ru_stime
    facts = {
        "window": {
            "rank": run.rank,
            "node": host.name(),
            "start": start,
            "end": end,
            "start_utc": start_utc,
            "end_utc": end_utc,
        },
        "clock": timer.clock,
        "seconds": timer.seconds(),
        # a rank may have none: of layers in pipeline parallel, only the last ones' have
        "loss": [work.loss(handle) for handle in handles] if work.loss else None,
        "cpu_seconds": cpu,
        "loader_seconds": work.batches.waited_seconds - waited,
    }
    if joules is not None:
        facts["energy"] = {"device": run.rank, "joules": joules, "counter": energy.counter}
    return facts


if __name__ == "__main__":
    main(sys.argv[1])
