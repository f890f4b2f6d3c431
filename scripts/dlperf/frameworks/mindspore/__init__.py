"""MindSpore: PYNATIVE or ms.jit, one process a rank, a scheduler beside them, MCCL or NCCL.

`graph` is ms.jit over the whole step, which compiles what GRAPH_MODE compiles. It is the default:
its users are told to train so, and on one core it takes a fifth less time than PYNATIVE (ResNet-50,
64 px, batch 8), for some 3 s of compilation in the warm-up. On a CPU operators are launched by the
calling thread: by default it spins while another thread computes, which on one core doubles or
triples a step. The CUDA path has not run on a GPU: it follows the documentation (the wheel has
kernels for CUDA 11.1 and 11.6 only).
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.mindspore.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case["precision"] == "tf32":
        return "MindSpore has no switch that turns TF32 on"
    if case["device"] == "cpu" and case["precision"].startswith("amp"):
        return (
            "MindSpore has no mixed precision to measure on a CPU: it refuses bfloat16 convolution "
            "and products, and computes those of float16 in float32, with casts around them"
        )
    if case.get("adam") == "dense":
        return (
            "MindSpore's Adam of all rows of a table does not pass its certificate: after five "
            "steps the deep table is 4 % off (a first step, and given gradients, are right)"
        )
    if case.get("adam") == "lazy" and case["scenario"] in ("train", "quality"):
        return _unsupported_rows(case)
    return ""


def _unsupported_rows(case):
    """Why Adam of touched rows cannot train a case, or ""."""
    if case["compiler"] == "none":
        return "PYNATIVE has no sparse gradients of tables: `adam: lazy` needs the compiler 'graph'"
    if case["device"] == "cuda":
        return "MindSpore's Adam of touched rows, FusedSparseLazyAdam, has no kernel for GPUs"
    if case["layout"]["accumulation"] > 1:
        return "MindSpore cannot add up sparse gradients of several micro-steps"
    return ""


FRAMEWORK = Framework(
    title="MindSpore",
    compilers={"none": "PYNATIVE", "graph": "ms.jit"},
    default_compiler={"cpu": "graph", "cuda": "graph"},
    half={"cpu": (), "cuda": ("float16",)},
    # No float64 convolution or batch-norm on a CPU. BERT needs neither, but something in its
    # float64 steps is float32 (first gradient 3.3e-6 off), and they take 10 GB a rank and four
    # minutes.
    float64_compilers=(),
    float64_exchange=False,
    shards_tables=True,
    unsupported=unsupported,
    ways=("tensor_parallel",),
)
