"""ResNet-50 v1.5 on 1000 classes: sizes, arithmetic and optimiser, the same for every framework.

v1.5: the stride 2 of a down-sampling bottleneck sits in its 3x3 convolution (v1: in the first
1x1). Source of the recipe: NVIDIA DeepLearningExamples, ResNet50 v1.5; He et al. 2015.
"""

import math
from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.published import Published
from dlperf.contract.tensor import Tensor, shapes, vector
from dlperf.contract.traffic import ACTIVATION, BATCH_NORM, FORK, SUM, between, product
from dlperf.contract.workload import Quality, Workload

DIMENSIONS = OrderedDict(
    image_size=Dimension(
        key="px",
        standard=224,
        minimum=32,
        maximum=1024,
        examples=(64, 224),
        description="Height and width of an image in pixels, after cropping. Published figures use "
        "224; a smaller size fits a laptop, and every table names it.",
    ),
    fold=Dimension(
        key="fold",
        standard=0,
        words={
            0: "batch-norm left to the framework",
            1: "batch-norm folded",
        },
        examples=([False], [False, True]),
        description="Of `infer`: whether batch-norm is folded into the convolutions before a "
        "framework gets the weights, by one formula for all. Without, each framework has its "
        "batch-norm and may fold it by itself. The two never stand in one table.",
        scenarios=("infer", "server"),
    ),
    mixup=Dimension(
        key="mixup",
        standard=0,
        words={
            0: "images not mixed",
            1: "images mixed (mixup, alpha 0.2)",
        },
        examples=([True],),
        description="Of `quality`: whether each image and its label are mixed with another one's "
        "of its batch, by shares from Beta(0.2, 0.2), as in NVIDIA's trainings of 250 epochs. The "
        "two never stand in one table.",
        scenarios=("quality",),
    ),
)
DATA = OrderedDict(
    synthetic=Data(
        "",
        "images",
        "synthetic batches, on the device",
        "batches drawn anew before each window, on the device",
    ),
    digits=Data(
        "digits",
        "labelled",
        "handwritten digits, enlarged",
        "1,797 handwritten digits of 8×8 pixels, enlarged: a small real set, to train to a quality",
        samples=1438,
        tests=359,
        target=0.97,
    ),
    sample=Data(
        "sample",
        "input",
        "sample photographs, decoded, cropped and flipped while training runs",
        "photographs that are read, decoded, cropped and flipped while training runs, the same "
        "ones for every framework",
        samples=400,
        tests=100,
        target=0.5,
        test_folder="sample-test-folders",
    ),
    sample_native=Data(
        "sample-{format}",
        "readers",
        "sample photographs in each framework's own format, by its own input pipeline",
        "the same photographs in each framework's own format, by its own input pipeline",
        samples=400,
        tests=100,
        target=0.5,
        test_folder="sample-test-folders",
    ),
    sample_dali=Data(
        "sample-{format}",
        "readers",
        "sample photographs, by NVIDIA DALI",
        "the same photographs, by NVIDIA DALI (PyTorch, PaddlePaddle)",
        samples=400,
        tests=100,
        target=0.5,
        test_folder="sample-test-folders",
    ),
    imagenet=Data(
        "imagenet-{format}",
        "readers",
        "ImageNet in each framework's own format, by its own input pipeline",
        "ImageNet, likewise",
        samples=1281167,
        tests=50000,
        target=0.759,  # MLPerf's
        test_folder="imagenet-test-folders",
    ),
    imagenet_dali=Data(
        "imagenet-{format}",
        "readers",
        "ImageNet, by NVIDIA DALI",
        "ImageNet, by NVIDIA DALI (PyTorch, PaddlePaddle)",
        samples=1281167,
        tests=50000,
        target=0.759,
        test_folder="imagenet-test-folders",
    ),
)

CLASSES = 1000
# (width of the bottleneck, blocks, stride of the first block); a block's output is 4 x its width
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4

# 1e-5 as float32 has it, to which PaddlePaddle and OneFlow round it: in float64 that shows
BATCH_NORM_EPSILON = 9.999999747378752e-06
BATCH_NORM_MOMENTUM = 0.9  # share of the old running statistic that is kept

OPTIMIZER_STATES = 1  # values that it keeps for each weight: momentum
MOMENTUM = 0.875
WEIGHT_DECAY = 1.0 / 32768  # not on batch-norm parameters or biases
LABEL_SMOOTHING = 0.1
MIXUP_ALPHA = 0.2  # where images are mixed
LEARNING_RATE = 0.256  # for a global batch of 256, scaled linearly


def base(case):
    """What a speed-up is over: the same work on one device."""
    return case.on(1, 1)


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    Convolutions are (outputs, inputs, height, width), the dense layer (outputs, inputs); a
    batch-norm's weight is its scale (gamma), its bias the shift (beta). conv4 and bn4 are the
    projection of a stage's first shortcut.
    """
    tensors = OrderedDict()

    def conv(name, inputs, outputs, size):
        tensors[name + ".weight"] = Tensor((outputs, inputs, size, size), tensor.KERNEL)

    def batch_norm(name, channels):
        tensors.update(tensor.norm(name, channels))

    conv("conv1", 3, 64, 7)
    batch_norm("bn1", 64)
    channels, block = 64, 0
    for width, count, _ in STAGES:
        outputs = width * EXPANSION
        for index in range(count):
            name = "block%d" % block
            kernels = [(channels, width, 1), (width, width, 3), (width, outputs, 1)]
            if index == 0:
                kernels.append((channels, outputs, 1))
            for number, (inner, outer, size) in enumerate(kernels, 1):
                conv("%s.conv%d" % (name, number), inner, outer, size)
                batch_norm("%s.bn%d" % (name, number), outer)
            channels, block = outputs, block + 1
    tensors.update(tensor.dense("fc", channels, CLASSES))
    return tensors


def built(dimensions):
    """The same of what a network has: of a folded one (`folding`), convolutions with a bias."""
    if not dimensions.get("fold"):
        return parameters(dimensions)
    tensors = OrderedDict()
    for name, each in parameters(dimensions).items():
        layer = name.rpartition(".")[0]
        if each.kind == tensor.KERNEL:
            tensors[name], tensors[layer + ".bias"] = each, vector(each.shape[0])
        elif layer == "fc":
            tensors[name] = each
    return tensors


def statistics(dimensions):
    """Canonical name -> Tensor of batch-norm's running means and variances."""
    tensors = OrderedDict()
    for name, each in parameters(dimensions).items():
        layer, _, kind = name.rpartition(".")
        if kind == "bias" and layer != "fc":
            tensors[layer + ".mean"] = Tensor(each.shape, tensor.MEAN)
            tensors[layer + ".variance"] = Tensor(each.shape, tensor.VARIANCE)
    return tensors


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number; `draw` draws.

    Convolutions are normal by their fan out (He et al. 2015), the dense layer normal of deviation
    0.01; scales 1, but 0 for the last of a residual branch (Goyal et al. 2017); shifts and bias 0.
    """
    if known.kind == tensor.KERNEL:
        outputs, _, height, width = known.shape
        return draw.normal(known.shape, (2.0 / (outputs * height * width)) ** 0.5)
    if known.kind == tensor.DENSE:
        return draw.normal(known.shape, 0.01)
    return 1.0 if known.kind == tensor.SCALE and not name.endswith("bn3.weight") else 0.0


def timed_initial(name, known, draw, dimensions):
    """The same, but 0.5 for the last scale of a residual branch.

    At 0 a branch has no gradient in the first step and next to none in the second, and what a
    window of a few steps makes of it is rounding.
    """
    if known.kind == tensor.SCALE and name.endswith("bn3.weight"):
        return 0.5
    return initial(name, known, draw, dimensions)


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: the mean rate of the first of 5 warm-up epochs.

    A training warms up linearly over 5 epochs to 0.256 per 256 images of global batch (NVIDIA
    DeepLearningExamples); a window of some hundred steps lies in the first of them. Constant, so
    that no framework is timed with a scheduler that another does without.
    """
    return 0.1 * LEARNING_RATE * global_batch_size / 256


def schedule(run):
    """The rate of each step of the quality scenario; None of others, whose rate is constant.

    Linear warm-up over 5 epochs, of fewer than 50 over a tenth of them, then half a cosine to 0.
    """
    if run.scenario != "quality":
        return None
    peak = LEARNING_RATE * run.global_batch_size / 256
    steps = run.measured_steps
    warmup = max(1, round(steps * min(5.0 / run.epochs, 0.1)))
    rates = [peak * (step + 1) / warmup for step in range(warmup)]
    for step in range(warmup, steps):
        rates.append(peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))
    return rates


def tally(outputs, images, labels):
    """[how many images have their largest output at their label (top-1), how many there are]."""
    return [float((outputs.argmax(1) == labels).sum()), len(labels)]


def score(sums):
    """The accuracy, a share of 1."""
    return sums[0] / sums[1]


#: What publications call it -> what is published of it under that name.
PUBLISHED = {
    "ResNet50-v1.5": Published("imagenet", headings={("ResNet50-V1.5 summary", "amp"): "256"})
}


def published_fields(row, columns):
    """What a row of a published table is of: fields of a value (analysis/publications).

    columns: dimensions that the table has columns of.
    """
    own = dict(columns, image_size="224")
    own.pop("dataset", None)  # the kind of data says it
    if row.get("epochs"):  # NVIDIA's 250 are with mixup, which only some of their rows say
        own["mixup"] = "1" if row["epochs"] == "250" else "0"
    return {"dimensions": own}


def flops_per_sample(dimensions, scenario):
    """FLOPs an image: 24.5 GFLOP to train at 224 px; training is 3 x the forward pass.

    Counted are convolutions and the dense layer, a multiply-add as 2. Left out are batch-norm,
    ReLU, pooling, loss, optimiser and input. The backward pass is 2 x the forward (Chowdhery et
    al. 2022, PaLM, appendix B), although the gradient of the images is asked for by nobody: 1 % of
    the whole at 224 px.
    """
    forward = 2.0 * sum(multiply_adds(dimensions["image_size"]).values())
    return forward if scenario == "infer" else 3 * forward


def kernels(dimensions):
    """What a training step computes and moves of one image, kernel by kernel."""
    sizes, counts = shapes(parameters(dimensions)), multiply_adds(dimensions["image_size"])
    outputs = {}  # of a convolution: its multiply-adds, each of which goes into one of its elements
    for name, count in counts.items():
        outputs[name] = count
        for side in sizes[name + ".weight"][1:]:
            outputs[name] /= side

    def layer(name, inputs, first=False):
        return product(inputs, outputs[name], counts[name], first)

    stem = outputs["conv1"]
    yield layer("conv1", 3 * dimensions["image_size"] ** 2, first=True)
    yield between(BATCH_NORM * stem, (BATCH_NORM + ACTIVATION) * stem)
    inputs = stem / 4  # max-pooling halves both sides
    yield between(2 * (stem + inputs), 2 * (stem + inputs))
    for block in range(sum(count for _, count, _ in STAGES)):
        name = "block%d." % block
        one, two, three = (outputs[name + conv] for conv in ("conv1", "conv2", "conv3"))
        yield layer(name + "conv1", inputs)
        yield layer(name + "conv2", one)
        yield layer(name + "conv3", two)
        normed = one + two + three
        if name + "conv4" in outputs:
            yield layer(name + "conv4", inputs)
            normed += outputs[name + "conv4"]
        both = BATCH_NORM * normed + FORK * inputs
        # within the last norm's kernels: the shortcut is read, and its gradient written
        yield between(both + 2 * three, both + ACTIVATION * (one + two + three) + SUM * three)
        inputs = three
    yield between(2 * inputs, 2 * inputs)  # average pooling
    yield layer("fc", sizes["fc.weight"][1])


def multiply_adds(image_size):
    """Name of a convolution or the dense layer -> multiply-adds of its forward pass of an image.

    A stride of 2 halves a side, rounded up: that is what the paddings of all its kernels do.
    """

    def halved(side):
        return (side + 1) // 2

    side = halved(image_size)
    outputs = {"conv1": side}  # the side of what a convolution gives
    side = halved(side)  # pooling
    block = 0
    for _, count, stride in STAGES:
        for index in range(count):
            name = "block%d." % block
            outputs[name + "conv1"] = side  # before the stride, which is in conv2
            if index == 0 and stride == 2:
                side = halved(side)
            outputs.update({name + conv: side for conv in ("conv2", "conv3", "conv4")})
            block += 1
    found = OrderedDict()
    for name, each in parameters({}).items():
        layer = name.rpartition(".")[0]
        if each.kind == tensor.KERNEL:
            found[layer] = each.size * outputs[layer] ** 2
        elif each.kind == tensor.DENSE:
            found[layer] = each.size
    return found


WORKLOAD = Workload(
    title="ResNet-50 v1.5",
    summary="50 layers, 1000 classes, 25,557,032 parameters.",
    unit="images",
    dimensions=DIMENSIONS,
    data=DATA,
    # not accumulation: batch norm's statistics would be those of a micro-step
    ways=(),
    parameters=parameters,
    initial=initial,
    timed_initial=timed_initial,
    learning_rate=learning_rate,
    base=base,
    flops_per_sample=flops_per_sample,
    answers=(1,),  # labels
    has_dropout=False,
    schedule=schedule,
    statistics=statistics,
    built=built,
    quality=Quality(
        score=Score(
            "accuracy",
            "%",
            "higher",
            "The share of the test set that must be right.",
            scale=100,
            most=1.0,
        ),
        tally=tally,
        value=score,
    ),
    kernels=kernels,
    optimizer_states=OPTIMIZER_STATES,
    published=PUBLISHED,
    published_fields=published_fields,
)
