"""DeepSpeed on PyTorch: its engine, which shards a model's state over replicas by ZeRO.

What it has from PyTorch is PyTorch's here too: modules, fused AdamW, copies of batches. Fastest
settings its best users choose: torch's fused AdamW on ZeRO's flat partitions, exchange beside the
backward pass on a GPU, no timers that wait for it. The GPU path has not run: there was no GPU where
this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.deepspeed.process import (  # noqa: F401
    environment,
    memory,
    parity,
    reset_peak,
    services,
    start,
    step_timer,
    stop,
)

FRAMEWORK = Framework(
    title="DeepSpeed",
    compilers={"none": "eager"},
    default_compiler={"cpu": "none", "cuda": "none"},
    half={"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")},
    float64_compilers=(),  # its master weights are float32
    float64_exchange=False,
    shards_tables=False,
    resets_peak=True,
    ways=("zero_stage", "activation_checkpointing"),
    # Inductor's, Triton's, and those of operators that are compiled when they are used first
    compiles_into=("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    reaches={
        "frameworks/pytorch/training.py: inspect": "which arguments this DataParallel takes",
    },
)
