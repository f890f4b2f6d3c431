"""TensorFlow 1.15: one session graph a rank; Horovod over gloo (CPU) or NCCL (GPU).

Fastest settings its best users choose: a static graph run by `make_callable`, one thread pool of
the size of the rank's cores, Winograd and cuDNN autotune as NVIDIA's containers set them on a GPU.
The GPU path has not run: there was no GPU where this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.tensorflow1.process import (  # noqa: F401
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
        return "TensorFlow 1.15 is older than TF32"
    if case["device"] == "cpu" and case["compiler"] == "xla":
        return "TensorFlow 1.15 compiles nothing by XLA on a CPU: ON_1 has no effect"
    if case["device"] == "cpu" and case["precision"].startswith("amp"):
        return "TensorFlow 1.15's mixed-precision graph rewrite has no effect on a CPU"
    return ""


FRAMEWORK = Framework(
    title="TensorFlow 1",
    compilers={"none": "session graph", "xla": "XLA (auto-clustering, ON_1)"},
    default_compiler={"cpu": "none", "cuda": "none"},
    half={"cpu": (), "cuda": ("float16",)},
    float64_compilers=("none",),
    float64_exchange=True,
    shards_tables=True,
    unsupported=unsupported,
    reaches={
        "frameworks/horovod.py: subprocess": "whether there is a Horovod, without importing it",
    },
)
