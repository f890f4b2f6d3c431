"""PyTorch: eager or torch.compile, autocast, DistributedDataParallel over gloo or NCCL.

Fastest settings its best users choose: channels_last for convolutions, cuDNN autotune,
foreach/fused optimisers.
"""

from dlperf.frameworks.pytorch.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)

TITLE = "PyTorch"
COMPILERS = {"none": "eager", "inductor": "torch.compile (Inductor)"}
DEFAULT_COMPILER = {"cpu": "none", "cuda": "none"}
HALF = {"cpu": ("bfloat16", "float16"), "cuda": ("bfloat16", "float16")}
FLOAT64_COMPILERS = ("none", "inductor")
FLOAT64_EXCHANGE = True


def unsupported(case):
    return ""
