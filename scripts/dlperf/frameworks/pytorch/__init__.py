"""PyTorch: eager or torch.compile, autocast, DistributedDataParallel over gloo or NCCL.

Fastest settings its best users choose: channels_last for convolutions, cuDNN autotune, fused
optimisers; on a GPU, Inductor with CUDA graphs, and batches that are copied one ahead. The GPU path
has not run: there was no GPU where this was written.
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
DEFAULT_COMPILER = {"cpu": "none", "cuda": "inductor"}
HALF = {"cpu": ("bfloat16", "float16"), "cuda": ("bfloat16", "float16")}
FLOAT64_COMPILERS = ("none", "inductor")
FLOAT64_EXCHANGE = True
SHARDS_TABLES = True


def unsupported(case):
    return ""
