"""TensorFlow 2: tf.function, XLA by jit_compile, MultiWorkerMirroredStrategy over gRPC or NCCL.

Fastest settings its best users choose. CPU: oneDNN kernels (asked for: TensorFlow's own choice
depends on the CPU; they more than halve a step), operators one after another, each on all cores of
the rank. GPU: XLA, threads of its own that launch kernels, memory that grows (so that its peak can
be read), cuDNN's autotune (the default) and its persistent batch-norm. The GPU path has not run:
there was no GPU where this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.tensorflow.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case.get("tables") == "sharded" and case["compiler"] == "xla":
        return (
            "XLA compiles no collectives between processes, which the lookup of a sharded table "
            "has inside: ask for the compiler 'none', or for `tables: replicated`"
        )
    if case["layout"]["tensor_parallel"] > 1 and case["compiler"] == "xla":
        return (
            "XLA does not compile what a split model exchanges inside: on a CPU no collective "
            "between processes, on a GPU no maximum; ask for the compiler 'none'"
        )
    return ""


FRAMEWORK = Framework(
    title="TensorFlow",
    compilers={"none": "tf.function", "xla": "XLA, jit_compile=True"},
    default_compiler={"cpu": "none", "cuda": "xla"},
    half={"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")},
    float64_compilers=("none", "xla"),
    float64_exchange=True,
    shards_tables=True,
    unsupported=unsupported,
    ways=("tensor_parallel",),
)
