"""HugeCTR 23.09 to 24.06, NVIDIA's framework for click models: Wide & Deep on GPUs alone.

Fastest settings that its samples choose, and others may have too: its own readers, CUDA graphs of
the dense layers, cuBLAS's algorithms searched, tables spread over all GPUs. One process drives all
GPUs of a node. Never run: it needs a GPU and NVIDIA's container. Calls and files follow its source
of 23.09; a test holds the calls to that source's signatures.
"""

from dlperf.contract.framework import Framework
from dlperf.frameworks.hugectr.process import (  # noqa: F401
    environment,
    memory,
    parity,
    services,
    start,
    step_timer,
    stop,
)


def unsupported(case):
    if case["device"] != "cuda":
        return "HugeCTR trains on GPUs alone: ask for device cuda"
    if case["scenario"] != "train":
        return "HugeCTR is measured in training throughput alone, the scenario train"
    several = case["nodes"] * case["devices_per_node"] > 1
    # `adam: dense` has no other word: sharded tables are lazy in all other frameworks
    if several and case.get("tables") == "replicated" and case.get("adam") == "lazy":
        return "HugeCTR shards its tables over all devices: ask for `tables: sharded`"
    return ""


#: Why it needs files.
FILES = "it takes batches, its model and weights as files alone"

FRAMEWORK = Framework(
    title="HugeCTR",
    compilers={"none": "its own graph, the dense layers in CUDA graphs"},
    default_compiler={"cpu": "none", "cuda": "none"},
    half={"cpu": (), "cuda": ("float16",)},
    float64_compilers=(),
    float64_exchange=False,
    shards_tables=True,  # always, by key
    one_rank_a_node=True,  # it has all devices of its node
    counted=True,
    keeps_losses=False,  # a step writes its loss over that of the step before
    optimizer_alone=False,  # Python never holds its gradients
    unsupported=unsupported,
    reaches={
        "frameworks/hugectr/formats.py: fromfile": FILES,
        "frameworks/hugectr/formats.py: memmap": FILES,
        "frameworks/hugectr/formats.py: open": FILES,
        "frameworks/hugectr/training.py: open": FILES,
        "frameworks/hugectr/training.py: shutil": FILES,
        "frameworks/hugectr/training.py: tempfile": FILES,
        "frameworks/hugectr/process.py: shutil": FILES,
        "frameworks/hugectr/process.py: tempfile": FILES,
        "frameworks/hugectr/process.py: ctypes": "CUDA's runtime, for memory and waiting",
    },
)
