"""Megatron-LM on PyTorch: megatron-core's GPT, split over ranks, by its own schedules.

What it has from PyTorch is PyTorch's here too: fused attention, AdamW, copies of batches. Fastest
settings its users choose that its wheel has: fused biases and losses, exchange beside the backward
pass. What needs Transformer Engine or Apex, which are built with CUDA's compiler, is not used. The
GPU path has not run: there was no GPU where this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.contract.layout import Layout
from dlperf.frameworks.megatron.process import (  # noqa: F401
    environment,
    memory,
    parity,
    reset_peak,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    """Why it cannot do a case (its identity, and the device), or ""."""
    stage = Layout(**case["layout"]).zero_stage
    if stage > 1:
        return "Megatron-LM's distributed optimizer is ZeRO's stage 1, not %d: ask for 1" % stage
    return ""


FRAMEWORK = Framework(
    title="Megatron-LM",
    compilers={"none": "eager"},
    default_compiler={"cpu": "none", "cuda": "none"},
    half={"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")},
    float64_compilers=(),  # gradients and the loss are float32
    float64_exchange=False,
    shards_tables=False,
    resets_peak=True,
    ways=("tensor_parallel", "pipeline_parallel", "zero_stage", "activation_checkpointing"),
    unsupported=unsupported,
    # Inductor's, Triton's, and those of operators that are compiled when they are used first
    compiles_into=("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    reaches={
        "frameworks/pytorch/training.py: inspect": "which arguments this DataParallel takes",
    },
)
