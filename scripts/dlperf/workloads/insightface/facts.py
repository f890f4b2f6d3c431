"""InsightFace: face recognition with a margin softmax over all identities, the same for every
framework.

A backbone makes an embedding of a face; a head compares it with the centre of every identity.
Sources: deepinsight/insightface (its MXNet symbols and recipes) and Oneflow-Inc/oneflow_face, which
DLPerf timed; Deng et al. 2019 (ArcFace), Wang et al. 2018 (CosFace), An et al. 2021 (Partial FC).
"""

from collections import OrderedDict
from typing import NamedTuple

from dlperf.contract import mesh, tensor
from dlperf.contract.dimension import Data, Dimension
from dlperf.contract.published import Published
from dlperf.contract.tensor import Tensor, vector
from dlperf.contract.workload import Workload

DIMENSIONS = OrderedDict(
    backbone=Dimension(
        key="",  # its words say it
        standard="r100",
        words={
            "y1": "MobileFaceNet (y1)",
            "r50": "improved ResNet-50",
            "r100": "improved ResNet-100",
        },
        examples=(["y1"], ["r50", "r100"]),
        description="The network before the head. `y1` is MobileFaceNet, which fits a laptop; "
        "`r50` and `r100` are InsightFace's improved ResNets. They never stand in one table.",
    ),
    loss=Dimension(
        key="",
        standard="arcface",
        words={"arcface": "ArcFace", "cosface": "CosFace"},
        examples=(["arcface"], ["arcface", "cosface"]),
        description="The margin of an image's own identity: added to the angle (`arcface`), or "
        "taken from the cosine (`cosface`).",
    ),
    num_classes=Dimension(
        key="c",
        standard=85742,
        minimum=2,
        maximum=2**31 - 1,
        examples=(10000, [85742, "max"]),
        granule=100000,
        description="Identities, each with a centre, on all devices together. 85,742 are those of "
        "faces_emore, 360,232 those of Glint360K; 10,000 fit a laptop. A centre and its momentum "
        "take 8 x embedding bytes.",
    ),
    head=Dimension(
        key="head",
        standard="data",
        words={
            "data": "all centres on every device",
            "model": "centres sharded over the devices",
            "partial": "sharded centres, of which each step samples some (Partial FC)",
        },
        examples=(["data"], ["data", "model", "partial"]),
        description="Where the centres are. `data`: all of them on every device, which exchange "
        "their gradients. `model`: a share on every device, which exchange embeddings; the "
        "function is the same. `partial`: likewise, and a step takes `sample_percent` of a "
        "device's centres, the batch's identities among them; only these are updated. They never "
        "stand in one table.",
    ),
    sample_percent=Dimension(
        key="pct",
        standard=10,
        minimum=1,
        maximum=100,
        examples=(10, [10, 100]),
        description="With `head: partial`: the centres that a step samples, in percent of those of "
        "a device.",
    ),
    image_size=Dimension(
        key="px",
        standard=112,
        minimum=32,
        maximum=112,
        examples=(112, 64),
        description="Height and width of an image in pixels, a multiple of 16: of 112, a smaller "
        "one is the middle. Published figures use 112.",
    ),
)
DATA = OrderedDict(
    synthetic=Data(
        "",
        "input",
        "synthetic batches, on the device",
        "batches drawn anew before each window, whose labels lie over all identities",
    ),
    sample=Data(
        "faces-sample",
        "input",
        "1,600 pictures of 80 places in photographs, in InsightFace's format",
        "1,600 pictures of 80 places in photographs, in InsightFace's format: no faces; needs no "
        "download. Their labels lie over all identities",
        least={"num_classes": 80},
    ),
)

#: Blocks of a stage of the improved ResNets, and the channels of each stage.
RESNETS = {"r50": (3, 4, 14, 3), "r100": (3, 13, 30, 3)}
RESNET_WIDTHS = (64, 128, 256, 512)


MOBILE_STEM = 64
#: Bottlenecks of MobileFaceNet in a row: how many, and the other three of a Bottleneck.
MOBILE = (
    (1, 128, 64, 2),
    (4, 128, 64, 1),
    (1, 256, 128, 2),
    (6, 256, 128, 1),
    (1, 512, 128, 2),
    (2, 256, 128, 1),
)
MOBILE_LAST = 512  # channels of the last convolution
EMBEDDINGS = {"y1": 128, "r50": 512, "r100": 512}
SHRINK = 16  # an image's side over that of what the dense layer sees

# As float32 has them, to which some frameworks round them: in float64 that shows. MobileFaceNet has
# MXNet's default of 1e-3 in all but the last one.
BATCH_NORM_EPSILON = 1.9999999494757503e-05
MOBILE_EPSILON = 0.0010000000474974513
BATCH_NORM_MOMENTUM = 0.9  # share of the old running statistic that is kept
DROPOUT = 0.4  # before the dense layer of the ResNets; MobileFaceNet has none
SLOPE = 0.25  # that PReLUs start with, one for each channel

SCALE = 64.0  # of all logits
#: Of ArcFace: added to the angle, in radians. Of CosFace: taken from the cosine.
ARC_MARGIN, COSINE_MARGIN = 0.5, 0.4
#: 1 - cosine^2 counts as at least this much where ArcFace takes its root, which float32 would
#: otherwise find 0, or below: the gradient is that by the sine.
LEAST_SINE_SQUARED = 1e-8

OPTIMIZER_STATES = 1  # values that it keeps for each weight: momentum
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4  # on all tensors: scales, slopes, biases and centres too
LEARNING_RATE = 0.1  # for a global batch of 512, scaled linearly
DEVIATION, CENTRE_DEVIATION = 0.1, 0.01  # of what kernels and centres start with

#: Not 0: batches tell which centres a step samples, by the given sample of this number.
#: Certificates have 1, so that all frameworks take the same ones. A timed run has its framework's
#: own sampler.
GIVEN_SAMPLE = 0


def base(case):
    """What a speed-up is over: the same work on one device."""
    return case.on(1, 1)


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    if identity["image_size"] % SHRINK:
        return "image_size: %d is no multiple of %d" % (identity["image_size"], SHRINK)
    if identity["head"] != "partial" and identity["sample_percent"] != 10:
        return "sample_percent is of `head: partial`"
    devices = identity["nodes"] * identity["devices_per_node"]
    rows = -(-identity["num_classes"] // devices)
    # 0 before a search has found how many
    if is_split(identity) and rows * (devices - 1) >= identity["num_classes"] > 0:
        return "num_classes: of %d, the last of %d devices gets none" % (
            identity["num_classes"],
            devices,
        )
    return ""


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and device, or ""."""
    if framework == "oneflow" and case["precision"].startswith("amp"):
        return "nn.Graph's AMP narrows the output layer and the head too, which are in float32"
    if framework == "oneflow" and is_sampled(case) and case["compiler"] == "graph":
        return "samples have no fixed size, which a graph needs: ask for compiler none"
    if framework == "tensorflow1" and case["precision"].startswith("amp"):
        return "its graph rewrite narrows the output layer and the head too, which are in float32"
    if framework == "tensorflow1" and is_split(case):
        return "in TensorFlow 1 only `head: data` is implemented"
    if framework == "mindspore" and is_sampled(case):
        if case["compiler"] == "none":
            return "PYNATIVE has no sparse gradients, which samples need: ask for compiler graph"
        if case["precision"].startswith("amp"):
            return "MindSpore's loss scaling takes no sparse gradients, which samples need"
    return ""


def embedding(dimensions):
    """The width of an embedding and of a centre."""
    return EMBEDDINGS[dimensions["backbone"]]


def epsilon(backbone):
    """That of a backbone's batch-norms, but of the last one."""
    return MOBILE_EPSILON if backbone == "y1" else BATCH_NORM_EPSILON


def is_split(dimensions):
    """Whether ranks share the centres out."""
    return dimensions["head"] != "data"


def drops(dimensions):
    """Whether the backbone has dropout: MobileFaceNet has none."""
    return dimensions["backbone"] != "y1"


def draws(dimensions):
    """Whether a training draws random numbers."""
    return drops(dimensions) or is_sampled(dimensions)


def is_sampled(dimensions):
    """Whether a step takes some of the centres alone."""
    return dimensions["head"] == "partial"


def sample_size(dimensions, rows):
    """How many of a rank's rows a step samples; more where the batch has more of its identities."""
    return max(1, rows * dimensions["sample_percent"] // 100)


class Residual(NamedTuple):
    """A block of an improved ResNet: its canonical name, the channels before and behind it, and the
    stride of its second convolution. The shortcut of one of stride 2 has a convolution too."""

    name: str
    inputs: int
    width: int
    stride: int


def residuals(backbone):
    """The Residuals of an improved ResNet, in the order of the forward pass."""
    inputs, number = RESNET_WIDTHS[0], 0
    for width, count in zip(RESNET_WIDTHS, RESNETS[backbone]):
        for index in range(count):
            yield Residual("block%d" % number, inputs, width, 1 if index else 2)
            inputs, number = width, number + 1


class Bottleneck(NamedTuple):
    """One of MobileFaceNet: its canonical name, the channels before, within and behind it, and the
    stride of its depthwise convolution. One of stride 1 adds its input."""

    name: str
    inputs: int
    inner: int
    outer: int
    stride: int


def bottlenecks():
    """The Bottlenecks of MobileFaceNet, in the order of the forward pass."""
    inputs, number = MOBILE_STEM, 0
    for count, *sizes in MOBILE:
        for _ in range(count):
            yield Bottleneck("block%d" % number, inputs, *sizes)
            inputs, number = sizes[1], number + 1


class Convolution(NamedTuple):
    """Of a backbone: canonical name of its kernel, channels, side of the kernel and of its outputs.

    depthwise: each channel by itself.
    """

    name: str
    inputs: int
    outputs: int
    size: int
    side: int
    depthwise: bool = False


def convolutions(dimensions):
    """The Convolutions of a backbone, in the order of the forward pass."""
    side = dimensions["image_size"]
    if dimensions["backbone"] == "y1":
        return _convolutions_of_mobile(side // 2)
    return _convolutions_of_resnet(dimensions["backbone"], side)


def _convolutions_of_resnet(backbone, side):
    yield Convolution("stem.conv", 3, RESNET_WIDTHS[0], 3, side)
    for each in residuals(backbone):
        yield Convolution(each.name + ".conv1", each.inputs, each.width, 3, side)
        side //= each.stride
        yield Convolution(each.name + ".conv2", each.width, each.width, 3, side)
        if each.stride > 1:  # of the shortcut
            yield Convolution(each.name + ".conv3", each.inputs, each.width, 1, side)


def _convolutions_of_mobile(side):
    yield Convolution("stem.conv", 3, MOBILE_STEM, 3, side)
    yield Convolution("depthwise.conv", MOBILE_STEM, MOBILE_STEM, 3, side, True)
    for each in bottlenecks():
        yield Convolution(each.name + ".conv1", each.inputs, each.inner, 1, side)
        side //= each.stride
        yield Convolution(each.name + ".conv2", each.inner, each.inner, 3, side, True)
        yield Convolution(each.name + ".conv3", each.inner, each.outer, 1, side)
    yield Convolution("last.conv", each.outer, MOBILE_LAST, 1, side)
    # all of the image: one output for each channel
    yield Convolution("output.conv", MOBILE_LAST, MOBILE_LAST, side, 1, True)


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    Kernels are (outputs, inputs, height, width), depthwise ones (channels, 1, height, width), the
    dense layer (outputs, inputs), whose inputs are channels, then rows, then columns of an image. A
    batch-norm's weight is its scale, its bias the shift; a slope is a PReLU's, one a channel.
    `output.bias` is the dense layer's bias and behind it the shift of the norm that follows: the
    gradient of the former is 0, and what is found of it nothing but rounding. The scale of that
    norm is 1.
    """
    tensors, width = OrderedDict(), embedding(dimensions)
    resnet = dimensions["backbone"] != "y1"
    for each in convolutions(dimensions):
        block = each.name.rpartition(".")[0]
        number = each.name[-1] if each.name[-1].isdigit() else ""
        if resnet and number == "1":
            tensors.update(tensor.norm(block + ".bn0", each.inputs))
        inputs = 1 if each.depthwise else each.inputs
        kernel = (each.outputs, inputs, each.size, each.size)
        tensors[each.name + ".weight"] = Tensor(kernel, tensor.KERNEL)
        tensors.update(tensor.norm("%s.bn%s" % (block, number), each.outputs))
        if _is_activated(each.name, resnet):
            tensors["%s.slope%s" % (block, number)] = vector(each.outputs)
    inputs = MOBILE_LAST
    if resnet:
        inputs = RESNET_WIDTHS[-1] * (dimensions["image_size"] // SHRINK) ** 2
        tensors.update(tensor.norm("output.bn", RESNET_WIDTHS[-1]))
    tensors["output.weight"] = Tensor((width, inputs), tensor.DENSE)
    tensors["output.bias"] = vector(2 * width)
    divided = {"axis": 0, "over": mesh.DATA} if is_split(dimensions) else {}
    shape = (dimensions["num_classes"], width)
    tensors["centres"] = Tensor(shape, tensor.EMBEDDING, **divided)
    return tensors


def _is_activated(name, resnet):
    """Whether a PReLU follows a convolution and its norm."""
    if resnet:
        return name == "stem.conv" or name.endswith("conv1")
    return not name.endswith("conv3") and name != "output.conv"


def statistics(dimensions):
    """Canonical name -> Tensor of batch-norm's running means and variances."""
    tensors = OrderedDict()
    for name, each in parameters(dimensions).items():
        if each.kind == tensor.SCALE:
            layer = name.rpartition(".")[0]
            tensors[layer + ".mean"] = Tensor(each.shape, tensor.MEAN)
            tensors[layer + ".variance"] = Tensor(each.shape, tensor.VARIANCE)
    width = (embedding(dimensions),)
    tensors["output.norm.mean"] = Tensor(width, tensor.MEAN)
    tensors["output.norm.variance"] = Tensor(width, tensor.VARIANCE)
    return tensors


def sparse(dimensions):
    """The tensors whose rows are updated only where a step samples them."""
    return ("centres",) if is_sampled(dimensions) else ()


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number; `draw` draws.

    Kernels and the dense layer are normal of deviation 0.1, centres of 0.01 (oneflow_face and
    partial_fc); scales 1, slopes 0.25, shifts and biases 0.
    """
    if known.kind in (tensor.KERNEL, tensor.DENSE):
        return draw.normal(known.shape, DEVIATION)
    if known.kind == tensor.EMBEDDING:
        return draw.normal(known.shape, CENTRE_DEVIATION)
    if ".slope" in name:
        return SLOPE
    return 1.0 if known.kind == tensor.SCALE else 0.0


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: that of the first epochs, which have no warm-up."""
    return LEARNING_RATE * global_batch_size / 512


def multiply_adds(dimensions):
    """Those of the forward pass of an image, without the head's."""
    count = 0
    for each in convolutions(dimensions):
        inputs = 1 if each.depthwise else each.inputs
        count += each.outputs * inputs * each.size**2 * each.side**2
    return count + parameters(dimensions)["output.weight"].size


def flops_per_sample(dimensions, scenario):
    """FLOPs an image: 72.54 GFLOP to train r100 at 112 px, and 6 x embedding for each centre.

    Counted are convolutions, the dense layer and the products with centres, with `head: partial` of
    those that are sampled; a multiply-add as 2, training as 3 x the forward pass. Left out are
    norms, PReLU, the margin, loss and optimiser.
    """
    centres = dimensions["num_classes"]
    if is_sampled(dimensions):
        centres = sample_size(dimensions, centres)
    forward = 2.0 * (multiply_adds(dimensions) + centres * embedding(dimensions))
    return forward if scenario == "infer" else 3 * forward


#: What publications call it -> what is published of it under that name.
PUBLISHED = {"InsightFace": Published()}
#: Words of published tables -> ours; identities of a data set.
PUBLISHED_HEADS = {"data": "data", "model": "model", "partial_fc": "partial"}
PUBLISHED_CLASSES = {"face_emore": "85742", "glint360k": "360232"}


def published_fields(row, columns):
    """What a row of a published table is of: fields of a value (analysis/publications).

    columns: dimensions that the table has columns of.
    """
    own = {"backbone": "y1" if "y1" in columns["backbone"] else columns["backbone"]}
    own["loss"] = columns["loss"]
    if columns["dataset"] in PUBLISHED_CLASSES:  # not of the largest number of classes
        own["num_classes"] = PUBLISHED_CLASSES[columns["dataset"]]
    own["head"] = PUBLISHED_HEADS[columns["parallel"].partition("+")[0]]
    if columns.get("sample_ratio"):
        own["sample_percent"] = str(round(100 * float(columns["sample_ratio"])))
    return {"data": columns["dataset"], "dimensions": own}


WORKLOAD = Workload(
    title="InsightFace",
    summary="faces, margin softmax over 85,742 identities; improved ResNet-100.",
    unit="images",
    dimensions=DIMENSIONS,
    data=DATA,
    # not accumulation: batch norm's statistics would be those of a micro-step
    ways=(),
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=base,
    flops_per_sample=flops_per_sample,
    answers=(1,),  # labels
    has_dropout=True,
    draws=draws,
    statistics=statistics,
    sparse=sparse,
    unsupported=unsupported,
    unsupported_in=unsupported_in,
    optimizer_states=OPTIMIZER_STATES,
    published=PUBLISHED,
    published_fields=published_fields,
)
