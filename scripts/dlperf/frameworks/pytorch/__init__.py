"""PyTorch: eager or torch.compile, autocast, DistributedDataParallel over gloo or NCCL.

Fastest settings its best users choose: channels_last for convolutions, cuDNN autotune, fused
optimisers; on a GPU, Inductor with CUDA graphs, and batches that are copied one ahead. The GPU path
has not run: there was no GPU where this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.pytorch.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)

FRAMEWORK = Framework(
    title="PyTorch",
    compilers={"none": "eager", "inductor": "torch.compile (Inductor)"},
    default_compiler={"cpu": "none", "cuda": "inductor"},
    half={"cpu": ("bfloat16", "float16"), "cuda": ("bfloat16", "float16")},
    float64_compilers=("none", "inductor"),
    float64_exchange=True,
    shards_tables=True,
)
