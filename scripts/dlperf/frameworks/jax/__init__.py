"""JAX: one jitted program a step, over a mesh of processes by gloo or NCCL: data parallel,
tensor parallel and in a pipeline.

Fastest settings its best users choose: ahead-of-time compilation, donated state, bfloat16 for mixed
precision (no loss scaling; parameters stay float32), XLA's own choice of kernels, and a persistent
compilation cache in results/.cache/jax, so that only the first repetition compiles: the timed
window never does. Over several GPUs it has not run: that follows the documentation of
jax.distributed.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.jax.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case["compiler"] == "none":
        return (
            "JAX is written to be compiled: without jit each operation is a program of its own, "
            "which no user trains with; ask for compiler xla"
        )
    return ""


FRAMEWORK = Framework(
    title="JAX",
    compilers={"none": "op by op", "xla": "jax.jit (XLA)"},
    default_compiler={"cpu": "xla", "cuda": "xla"},
    half={"cpu": ("bfloat16",), "cuda": ("bfloat16",)},
    float64_compilers=("xla",),
    float64_exchange=True,
    shards_tables=True,
    unsupported=unsupported,
    ways=("tensor_parallel", "pipeline_parallel", "activation_checkpointing"),
)
