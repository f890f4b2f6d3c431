"""A small network on photographs: dense, ReLU, dense; the documentation's example of a workload."""

from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension
from dlperf.contract.workload import Workload

DIMENSIONS = OrderedDict(
    image_size=Dimension(
        key="px",
        standard=32,
        minimum=32,
        maximum=64,
        examples=(32,),
        description="Height and width of an image in pixels.",
    )
)
DATA = OrderedDict(
    synthetic=Data("", "images", "synthetic batches", "batches made once, on the device"),
    sample=Data("sample", "images", "sample photographs", "photographs, decoded while it trains"),
)

WIDTH = 64
CLASSES = 1000
MOMENTUM = 0.9


def base(case):
    return case.on(1, 1)


def parameters(dimensions):
    pixels = 3 * dimensions["image_size"] ** 2
    return OrderedDict(
        [*tensor.dense("hidden", pixels, WIDTH), *tensor.dense("output", WIDTH, CLASSES)]
    )


def initial(name, known, draw, dimensions):
    shape = known.shape
    return draw.normal(shape, shape[1] ** -0.5) if len(shape) == 2 else 0.0


def learning_rate(global_batch_size):
    return 0.001


def flops_per_sample(dimensions, scenario):
    pixels = 3 * dimensions["image_size"] ** 2
    forward = 2.0 * (pixels * WIDTH + WIDTH * CLASSES)
    return 3 * forward if scenario == "train" else forward


WORKLOAD = Workload(
    title="MLP",
    summary="two dense layers on small photographs.",
    unit="images",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=("accumulation",),
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=base,
    flops_per_sample=flops_per_sample,
    has_dropout=False,
)
