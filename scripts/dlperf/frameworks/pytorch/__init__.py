"""PyTorch: eager or torch.compile, autocast, DistributedDataParallel over gloo or NCCL.

Fastest settings its best users choose: channels_last for convolutions, cuDNN autotune, fused
optimisers; on a GPU, Inductor with CUDA graphs, and batches that are copied one ahead. The GPU path
has not run: there was no GPU where this was written.
"""

from dlperf.contract.framework import Framework
from dlperf.contract.layout import Layout
from dlperf.frameworks.pytorch.process import (  # noqa: F401
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
    layout = Layout(**case["layout"])
    if not layout.devices_per_replica > 1 and not layout.zero_stage:
        return ""
    if case["precision"] == "amp_fp16":
        return "ranks of a split model do not agree on which steps overflow float16"
    if layout.devices_per_replica > 1 and layout.zero_stage:
        return "ZeRO does not go with tensor or pipeline parallel here"
    return ""


FRAMEWORK = Framework(
    title="PyTorch",
    compilers={"none": "eager", "inductor": "torch.compile (Inductor)"},
    default_compiler={"cpu": "none", "cuda": "inductor"},
    half={"cpu": ("bfloat16", "float16"), "cuda": ("bfloat16", "float16")},
    float64_compilers=("none", "inductor"),
    float64_exchange=True,
    shards_tables=True,
    resets_peak=True,
    ways=("tensor_parallel", "pipeline_parallel", "zero_stage", "activation_checkpointing"),
    unsupported=unsupported,
    # Inductor's, Triton's, and those of operators that are compiled when they are used first
    compiles_into=("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    reaches={
        "frameworks/pytorch/training.py: inspect": "which arguments this DataParallel takes",
    },
)
