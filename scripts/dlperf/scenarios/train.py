"""Training throughput: measured steps between two barriers, nothing in between but the steps."""

import functools
import math
from typing import Dict

from dlperf import workloads
from dlperf.contract.run import Run
from dlperf.contract.timer import perf_counter
from dlperf.contract.work import parts
from dlperf.scenarios import Metric, early_return

TITLE = "training"
TRAINS = True
COUNTED = False
RUN = Run
QUEUED = True
CURVED = False
MARKED: Dict[str, float] = {}  # no latencies


def prepare(run, implementation):
    return implementation.training(run)


def warm(run, work, handle, initial):
    """What the window's end does, once before: nothing is made there for the first time."""
    read(work, handle)
    work.batches.fill()


def most_steps(run, work, handle):
    """Any number: what a step leaves is a loss."""


def timed_steps(settings, trial):
    """How many steps a window has that lasts `minimum_seconds`: at least those that are asked for.

    trial: the `seconds` that so many took before, and the `most` that ranks have room for.
    """
    asked = settings["measured_steps"]
    paced = math.ceil(settings["minimum_seconds"] * asked / trial["seconds"])
    if trial["most"] is not None:
        paced = min(paced, trial["most"])
    return max(asked, paced)


def window(run, work, stopwatch):
    """Time the measured steps."""
    handles, window = timed(run, work, stopwatch, lambda handles: read(work, handles[-1]))
    # a rank may have none: of layers in pipeline parallel, only the last ones' have
    losses = [work.loss(handle) for handle in handles] if work.loss else None
    losses = losses and [value for value in losses if value is not None]
    if not all(math.isfinite(value) for value in losses or ()):
        raise ValueError("the loss is not finite: %s" % losses)
    return {"window": window, "loss": losses}


def timed(run, work, stopwatch, read, is_free=False):
    """(the handles of the measured steps, this rank's window), for every scenario that queues.

    Nothing between its ends but the steps, a clock and the final wait. stopwatch: what the rank
    meets its peers with (measure/rank.py). `clock` and `mark` are plain functions, looked up before
    the window. read(handles): reads what steps gave. is_free: whether that should cost nothing.
    """
    clock, step, mark = perf_counter, work.step, stopwatch.mark
    handles = []
    computed = stopwatch.taken().user
    stopwatch.open()
    start = clock()
    mark()
    for _ in range(stopwatch.steps):
        handles.append(step())
        mark()
    work.wait()
    end = clock()
    stopwatch.ended()
    computed = stopwatch.taken().user - computed
    of_a_step = (end - start) / stopwatch.steps, computed / stopwatch.steps
    all_read = functools.partial(read, handles)
    early_return.check(run, all_read, *of_a_step, stopwatch.taken, is_free=is_free)
    stopwatch.close()
    return handles, stopwatch.window(start, end)


def read(work, handle):
    """Read a loss and, unless that takes files, the first weights."""
    if work.loss:
        work.loss(handle)
    if not work.weights_in_files:
        _, array = next(iter(work.weights.read()))
        next(iter(parts(array)))


def mean_losses(facts):
    """A loss a step: the mean over the ranks that have one."""
    having = [each["loss"] for each in facts if each["loss"]]
    return [sum(losses) / len(having) for losses in zip(*having)]


def summary(facts, case, settings):
    """What the record says of all ranks' windows: `steps` and `samples`."""
    found = throughput_summary(facts, case, settings)
    found["steps"]["loss"] = mean_losses(facts)
    return found


def throughput_summary(facts, case, settings):
    """The same without losses: what a window of steps says in any scenario."""
    first = facts[0]
    return {
        "steps": {
            "warmup": settings["warmup_steps"],
            "measured": settings["measured_steps"],
            "clock": first["clock"],
            "seconds": first["seconds"],
            "loader_seconds": max(each["loader_seconds"] for each in facts),
        },
        "samples": case.global_batch_size * settings["measured_steps"],
    }


def window_seconds(record):
    """Last rank's end - the start, which all share, by the stopwatch's clock, which is one."""
    ranks = record["window"]
    return max(rank["end"] for rank in ranks) - min(rank["start"] for rank in ranks)


def throughput(record, case):
    return record["samples"] / window_seconds(record)


def step_time(record, case):
    """Milliseconds an update: the window over its steps."""
    return 1000 * window_seconds(record) / record["steps"]["measured"]


def memory(record, case):
    """The most that a rank took of its device, in GiB: of its GPU; on a CPU, of the host.

    Of a GPU all that the process holds counts (cache, context and communication included) where the
    framework says it, else what it allocated.
    """
    for key in ("device_total_peak_bytes", "device_peak_bytes"):
        values = [rank[key] for rank in record["memory"] if rank.get(key) is not None]
        if values:
            return max(values) / 2.0**30
    if record["settings"]["device"] != "cpu" or not record["memory"]:
        return None
    return max(rank["host_peak_rss_bytes"] for rank in record["memory"]) / 2.0**30


def energy(record, case):
    """Joules a sample, of all devices together."""
    joules = [each["joules"] for each in record.get("energy", ())]
    return sum(joules) / record["samples"] if joules else None


def tokens(record, case):
    """Tokens per second, of workloads whose samples are made of tokens."""
    count = workloads.of(case.workload).tokens_per_sample
    return throughput(record, case) * count(case.dimensions) if count else None


def tflops(record, case):
    """TFLOP/s per device: the workload's arithmetic, whatever was computed beside it."""
    flops = _flops_per_sample(case.workload, case.dimensions, case.scenario)
    return throughput(record, case) * flops / case.devices / 1e12


def hardware_tflops(record, case):
    """TFLOP/s per device with what activation checkpointing computes again (Narayanan et al. 2021).

    None of a case that computes nothing twice: it would be `tflops`.
    """
    again = workloads.of(case.workload).recomputed_flops_per_sample
    if not (again and case.layout.activation_checkpointing):
        return None
    flops = again(case.dimensions) / case.devices / 1e12
    return tflops(record, case) + throughput(record, case) * flops


@functools.lru_cache(maxsize=None)
def _flops_per_sample(workload, dimensions, scenario):
    """Counted once, not for each of a case's repetitions: a model has hundreds of tensors."""
    return workloads.of(workload).flops_per_sample(dimensions, scenario)


METRICS = (
    Metric("throughput", "{samples}/s", "higher", "Throughput", throughput, True),
    Metric("step_time", "ms", "lower", "Step time", step_time),
    Metric("memory", "GiB", "lower", "Peak memory per device", memory),
    Metric("energy", "J/{sample}", "lower", "Energy per sample", energy),
    Metric("tokens", "tokens/s", "higher", "Tokens per second", tokens, True),
    Metric("tflops", "TFLOP/s", "higher", "Arithmetic per device", tflops),
    Metric(
        "hardware_tflops",
        "TFLOP/s",
        "higher",
        "Arithmetic with recomputation",
        hardware_tflops,
    ),
)
SHOWN = ("throughput",)
