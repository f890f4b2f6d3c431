"""One module a framework: what it can do, and how its processes start, meet and end.

A module imports its framework only inside functions, so that the plan can read what it can do
without having it. Every module has, in this order:

    TITLE, COMPILERS, DEFAULT_COMPILER
    FLOAT64_COMPILERS                  those under which a certificate can run in float64
    FLOAT64_EXCHANGE                   whether ranks then exchange gradients as they do when timed
    unsupported(case) -> str           why it cannot do a case, or ""
    environment(run) -> dict           variables that must stand before the process starts
    services(run) -> list              processes beside a node's ranks, of which `run` is the first:
                                       (name, argv, variables)
    start(run)                         threads, seeds, precision, group of ranks
    step_timer(run)                    a clock for single steps (contract/timer.py)
    memory(run) -> dict                device_peak_bytes, device_total_peak_bytes (None on CPU)
    parity(run) -> dict                what the process really had, read back from it
    Weights                            trained weights by canonical name, for certificates
    optimize(run, implementation, start, gradients)    its optimiser alone, read likewise
    stop(run)                          leave the group
"""

import functools
import importlib

NAMES = (
    "pytorch",
    "tensorflow",
    "tensorflow1",
    "mxnet",
    "paddlepaddle",
    "oneflow",
    "mindspore",
    "jax",
    "hugectr",
)


def load(name):
    """Return the module of framework `name`."""
    return importlib.import_module("dlperf.frameworks." + name)


@functools.lru_cache(maxsize=None)
def find(name):
    """Return the module of framework `name`, or None while there is only its name."""
    try:
        return load(name)
    except ModuleNotFoundError as error:
        if error.name != "dlperf.frameworks." + name:
            raise
        return None
