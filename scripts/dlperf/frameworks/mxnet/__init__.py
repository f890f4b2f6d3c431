"""MXNet 1.9: Gluon, imperative or hybridized; KVStore over parameter servers, or Horovod on GPUs.

Fastest settings its best users choose: hybridize(static_alloc, static_shape), cuDNN autotune on a
GPU, as many servers as ranks (one took 7 % longer on two). The servers stay on the ranks' cores.
Horovod is taken where a GPU's environment has it; else the store is dist_device_sync. None of the
GPU's side has run on one; Horovod has on CPUs, over gloo, with certificates of two ranks.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.mxnet.process import (  # noqa: F401
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
        return "MXNet has no switch that turns TF32 on"
    return ""


FRAMEWORK = Framework(
    title="MXNet",
    compilers={"none": "imperative", "static": "hybridize(static_alloc, static_shape)"},
    default_compiler={"cpu": "static", "cuda": "static"},
    half={"cpu": ("bfloat16",), "cuda": ("float16",)},
    float64_compilers=("static", "none"),
    float64_exchange=True,
    shards_tables=True,
    unsupported=unsupported,
    reaches={
        "frameworks/horovod.py: subprocess": "whether there is a Horovod, without importing it",
        "frameworks/mxnet/process.py: ctypes": "how the framework's library is loaded",
    },
)
