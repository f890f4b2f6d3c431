"""One package a framework: what it can do, how its processes start and end, how it trains.

A package imports its framework only inside functions, but for training.py, so that the plan can
read what it can do without having it. In every package:

    __init__.py     FRAMEWORK, a contract.framework.Framework: what it can do, and what it cannot;
                    and the functions of process.py
    process.py      environment(run) -> dict    variables that must stand before the process starts
                    services(run) -> list       processes beside a node's ranks, of which `run` is
                                                the first: (name, argv, variables)
                    start(run)                  threads, seeds, precision, group of ranks
                    step_timer(run)             a clock for single steps (contract/timer.py)
                    memory(run) -> dict         device_peak_bytes, device_total_peak_bytes (None on
                                                a CPU)
                    parity(run) -> dict         what the process really had, read back from it
                    reset_peak(run)             where it `resets_peak`: count the peak of device
                                                memory anew, and return what it was, or None where
                                                it goes on
                    stop(run)                   leave the group
    training.py     train(run, network, loss, optimizer, weights, put, layout, parity) -> Work
                                                data parallel, mixed precision, compiling,
                                                accumulation and the step, alike for all workloads;
                                                its docstring says what a page's `loss` and `put`
                                                are, and what else the framework has to be told
                    Weights                     trained weights by canonical name
                    optimize(run, implementation, start, gradients)
                                                a page's optimiser alone, for certificates
    inference.py    infer(run, network, …) -> Inference
                                                the fastest way from batches to outputs, alike for
                                                all workloads
"""

import functools
import importlib
import os

from dlperf import workloads
from dlperf.contract.layout import Layout
from dlperf.contract.run import Unsupported

#: The narrow type that a precision asks for; `amp` leaves it to the device and the framework.
ASKED = {"amp_bf16": "bfloat16", "amp_fp16": "float16"}


def _names():
    """The lines of names.txt: beside the code, so that a new one makes no certificate stale."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.txt")) as stream:
        return tuple(stream.read().split())


#: The frameworks, in the order of tables.
NAMES = _names()


def load(name):
    """Return the package of framework `name`."""
    return importlib.import_module("dlperf.frameworks." + name)


def of(name):
    """The contract.framework.Framework of framework `name`: what it can do."""
    return load(name).FRAMEWORK


def reset_peak(name, run):
    """Count the peak of device memory anew in framework `name`; return what it was before.

    None where the framework counts on: its peak is the whole process's.
    """
    return load(name).reset_peak(run) if of(name).resets_peak else None


def load_training(name):
    """Return what framework `name` does in training; it imports the framework."""
    return importlib.import_module("dlperf.frameworks.%s.training" % name)


def unsupported(case):
    """Why the framework of a case (its identity, and the device) cannot do it, or ""."""
    framework, precision, device = case["framework"], case["precision"], case["device"]
    own = of(framework)
    if precision == "tf32" and device == "cpu":
        return "TF32 is a format of GPUs: ask for fp32"
    for name in Layout(**case["layout"]).asked():
        if name not in ("accumulation", *own.ways):
            has = ", ".join(own.ways) or "none"
            return "%s has no %s here [its ways to split a model: %s]" % (own.title, name, has)
    reason = own.unsupported(case) or workloads.unsupported_in(framework, case)
    if case.get("tables") == "sharded" and not own.shards_tables:
        return "%s's ranks share no tables out here yet: ask for `tables: replicated`" % own.title
    if not reason and precision in ASKED and ASKED[precision] not in own.half[device]:
        where = {"cpu": "a CPU", "cuda": "a GPU"}[device]
        return "%s has no mixed precision with %s on %s" % (
            own.title,
            ASKED[precision],
            where,
        )
    return reason


def ranks_of_node(name, devices):
    """The processes of framework `name` on a node with so many devices."""
    own = find(name)
    return 1 if own and own.one_rank_a_node else devices


def half(run):
    """The narrow type of a run's mixed precision: 'bfloat16' or 'float16'.

    Raises Unsupported where its precision asks for bfloat16 and the GPU is too old.
    """
    types = of(run.framework).half[run.device]
    asked = ASKED.get(run.precision)
    if asked == "bfloat16" and not run.has_bfloat16:
        raise Unsupported("bfloat16 needs compute capability 8.0; this GPU has " + run.capability)
    there = [each for each in types if each != "bfloat16" or run.has_bfloat16]
    if not there:
        raise Unsupported(
            "its mixed precision is in %s, for which this GPU is too old" % " or ".join(types)
        )
    return asked or there[0]


def narrow_type(run):
    """The narrow type in mixed precision, as `half` says it; else None."""
    return half(run) if run.amp else None


@functools.lru_cache(maxsize=None)
def find(name):
    """What framework `name` can do, as `of` says it; None while there is only its name."""
    try:
        return of(name)
    except ModuleNotFoundError as error:
        if error.name != "dlperf.frameworks." + name:
            raise
        return None
