"""A run of one rank on a GPU, as a rank is told of it, and networks that are made shorter."""

import sys

from dlperf.contract.layout import Layout
from dlperf.contract.run import Run


def a_run(framework: str, **changes) -> Run:
    values = dict(
        workload="resnet50",
        framework=framework,
        scenario="train",
        precision="fp32",
        compiler="none",
        batch_size=8,
        data="synthetic",
        layout=Layout(),
        dimensions={"image_size": 64, "fold": 0, "mixup": 0},
        device="cuda",
        warmup_steps=1,
        measured_steps=3,
        cores_per_device=1,
        seed=1,
        data_dir="",
        rank=0,
        local_rank=0,
        ranks=1,
        local_ranks=1,
        cores=[0],
        interpreter=sys.executable,
        address="127.0.0.1",
        port=29517,
        peers=["127.0.0.1:29517", "127.0.0.1:29518"],
        interface="lo",
        meeting="",
        gpus=["0", "1"],
        capability="8.0",
        result="/nowhere/result.json",
    )
    return Run(**{**values, **changes})


def shorten(facts, layers: int) -> None:
    """Give a network so many layers: an encoder's, or of ResNet-50 one block in each of its first
    stages.

    For claims that hold of each layer; it takes a fraction of the time.
    """
    if hasattr(facts, "STAGES"):
        facts.STAGES = tuple((width, 1, stride) for width, _, stride in facts.STAGES[:layers])
    else:
        facts.LAYERS = layers
