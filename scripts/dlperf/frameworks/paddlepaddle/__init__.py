"""PaddlePaddle: dygraph, to_static or to_static with CINN; DataParallel over gloo or NCCL.

Fastest settings its best users choose: oneDNN kernels for static programs on the CPU (dygraph has
none of them), cuDNN's exhaustive search and persistent batch-norm on the GPU, as in PaddleClas.
The GPU's side is written from the documentation and has not run on a GPU.
"""

from dlperf.frameworks.paddlepaddle.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)

TITLE = "PaddlePaddle"
COMPILERS = {
    "none": "dygraph",
    "cinn": "to_static, CINN",
    "static": "to_static, without CINN",
}
DEFAULT_COMPILER = {"cpu": "static", "cuda": "static"}
HALF = {"cpu": (), "cuda": ("bfloat16", "float16")}
FLOAT64_COMPILERS = ("static", "none")
FLOAT64_EXCHANGE = True
SHARDS_TABLES = True


def unsupported(case):
    if case["device"] != "cuda" and case["precision"].startswith("amp"):
        return "paddle.amp makes no effect on the CPU (it says so)"
    if case["device"] != "cuda" and case["compiler"] == "cinn":
        return "CINN is not compiled into PaddlePaddle for CPU: it would be left out silently"
    return ""
