"""OneFlow: eager or nn.Graph; DistributedDataParallel or global tensors.

The PyPI wheel is a CUDA 11 build that needs cuBLAS and cuDNN to be imported, on a CPU too: they
come from the environment's nvidia packages. Its old OpenBLAS does not know recent AMD processors
and takes SSE kernels for them: Haswell's (AVX2, FMA) are asked for where the processor has them
(a quarter faster). The GPU's side is written from the documentation and has not run on a GPU.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.oneflow.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case["precision"].startswith("amp") and case["device"] != "cuda":
        return "nn.Graph's enable_amp has no effect on the CPU"
    if case["precision"].startswith("amp") and case["compiler"] == "none":
        return "OneFlow scales the loss in nn.Graph only: AMP needs the compiler 'graph'"
    graph, trains = case["compiler"] == "graph", case["scenario"] in ("train", "quality")
    graph_on_cpu = graph and case["device"] == "cpu"
    if graph_on_cpu and case["layout"]["accumulation"] > 1:
        return "on the CPU nn.Graph's accumulated gradients are wrong (BERT's by half their norm)"
    if case.get("clip") and graph_on_cpu and trains:
        return "on the CPU nn.Graph clips by a norm that is percents off: a running sum of float32"
    if graph and case["layout"]["pipeline_parallel"] > 1:
        return "nn.Graph's stages hang or fail a check (register.cpp:75): ask for compiler none"
    if graph and case["scenario"] == "quality":
        return (
            "nn.Graph is not evaluated here, nor given a schedule of rates: ask for compiler none"
        )
    return ""


FRAMEWORK = Framework(
    title="OneFlow",
    compilers={"none": "eager", "graph": "nn.Graph"},
    default_compiler={"cpu": "none", "cuda": "graph"},
    half={"cpu": (), "cuda": ("float16",)},
    float64_compilers=("none",),  # a float64 graph fails
    float64_exchange=False,  # by an own all-reduce
    shards_tables=True,
    unsupported=unsupported,
    ways=("tensor_parallel", "pipeline_parallel"),
    reaches={
        "frameworks/oneflow/process.py: glob": "folders of the environment's CUDA libraries",
        "frameworks/oneflow/process.py: open": "what the processor can do, for OpenBLAS",
    },
)
