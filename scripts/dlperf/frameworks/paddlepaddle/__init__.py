"""PaddlePaddle: dygraph, to_static or to_static with CINN; DataParallel over gloo or NCCL.

Fastest settings its best users choose: oneDNN kernels for static programs on the CPU (dygraph has
none of them), cuDNN's exhaustive search and persistent batch-norm on the GPU, as in PaddleClas.
The GPU's side is written from the documentation and has not run on a GPU.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.paddlepaddle.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case["device"] != "cuda" and case["precision"].startswith("amp"):
        return "paddle.amp makes no effect on the CPU (it says so)"
    if case["device"] != "cuda" and case["compiler"] == "cinn":
        return "CINN is not compiled into PaddlePaddle for CPU: it would be left out silently"
    return ""


FRAMEWORK = Framework(
    title="PaddlePaddle",
    compilers={
        "none": "dygraph",
        "cinn": "to_static, CINN",
        "static": "to_static, without CINN",
    },
    default_compiler={"cpu": "static", "cuda": "static"},
    half={"cpu": (), "cuda": ("bfloat16", "float16")},
    float64_compilers=("static", "none"),
    float64_exchange=True,
    shards_tables=True,
    unsupported=unsupported,
    ways=("tensor_parallel", "pipeline_parallel", "activation_checkpointing"),
    reaches={
        "frameworks/paddlepaddle/inference.py: tempfile": "its predictor is made from files",
    },
)
