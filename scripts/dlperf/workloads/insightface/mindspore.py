"""InsightFace in MindSpore.

As fast as it gets: NCHW (the only layout of its CPU kernels); `nn.Momentum`; ranks that share the
centres out exchange features, labels and three numbers an image; the whole step, update and
exchange included, in one graph. Under mixed precision the backbone computes in half, and what comes
from its output on in float32.
"""

import functools
import math
import re
from collections import OrderedDict

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer
from mindspore.ops.operations._grad_ops import ReluGrad

from dlperf.contract.shards import RowBlock
from dlperf.frameworks.mindspore import split_head
from dlperf.frameworks.mindspore import training as framework
from dlperf.workloads.insightface import facts
from dlperf.workloads.insightface.backbones import named_layers


def conv(inputs, outputs, size, stride=1, padding=None, groups=1):
    return nn.Conv2d(
        inputs,
        outputs,
        size,
        stride,
        pad_mode="pad",
        padding=size // 2 if padding is None else padding,
        group=groups,
        has_bias=False,
        weight_init="zeros",  # the stopwatch writes all weights
    )


def batch_norm(channels, epsilon, kind=nn.BatchNorm2d, **settings):
    # MindSpore's momentum is the share of the old statistic
    return kind(channels, epsilon, facts.BATCH_NORM_MOMENTUM, **settings)


class PReLU(nn.PReLU):
    """With a slope for each channel; on a CPU of operators that take half of nn.PReLU's time."""

    def __init__(self, channels):
        super().__init__(channels)
        if ms.get_context("device_target") == "CPU":
            self.prelu = PReLUOnCPU()


class PReLUOnCPU(nn.Cell):
    """ops.PReLU of images (batch, channels, height, width) and slopes (channels,)."""

    def __init__(self):
        super().__init__()
        self.relu, self.relu_grad = ops.ReLU(), ReluGrad()

    def construct(self, x, slopes):
        above = self.relu(x)
        return above + slopes.reshape((1, -1, 1, 1)) * (x - above)

    def bprop(self, x, slopes, out, gradient):
        above = self.relu_grad(gradient, x)
        below = gradient - above
        batch, channels, height, width = x.shape
        # a product with ones takes an eighth of a sum's time
        ones = ops.ones((height * width, 1), x.dtype)
        sums = ops.matmul((below * x).reshape((batch * channels, -1)), ones)
        more = slopes.reshape((1, -1, 1, 1)) * below
        return above + more, sums.reshape((batch, channels)).sum(0)


class Block(nn.Cell):
    """One of the improved ResNets: nothing follows the sum."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        epsilon = facts.BATCH_NORM_EPSILON
        self.bn0, self.conv1 = batch_norm(inputs, epsilon), conv(inputs, width, 3)
        self.bn1, self.slope1 = batch_norm(width, epsilon), PReLU(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width, epsilon)
        self.conv3 = self.bn3 = None
        if stride > 1:
            self.conv3, self.bn3 = conv(inputs, width, 1, stride), batch_norm(width, epsilon)

    def construct(self, x):
        shortcut = x if self.conv3 is None else self.bn3(self.conv3(x))
        y = self.slope1(self.bn1(self.conv1(self.bn0(x))))
        return self.bn2(self.conv2(y)) + shortcut


class Activated(nn.Cell):
    """A convolution, its norm and a PReLU for each channel."""

    def __init__(self, inputs, outputs, size, stride=1, groups=1, epsilon=None):
        super().__init__()
        self.conv = conv(inputs, outputs, size, stride, groups=groups)
        self.bn, self.slope = batch_norm(outputs, epsilon), PReLU(outputs)

    def construct(self, x):
        return self.slope(self.bn(self.conv(x)))


class Bottleneck(nn.Cell):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    def __init__(self, inputs, inner, outer, stride):
        super().__init__()
        epsilon = facts.MOBILE_EPSILON
        self.adds = stride == 1
        self.conv1, self.bn1 = conv(inputs, inner, 1), batch_norm(inner, epsilon)
        self.conv2 = conv(inner, inner, 3, stride, groups=inner)
        self.bn2 = batch_norm(inner, epsilon)
        self.conv3, self.bn3 = conv(inner, outer, 1), batch_norm(outer, epsilon)
        self.slope1, self.slope2 = PReLU(inner), PReLU(inner)

    def construct(self, x):
        y = self.slope1(self.bn1(self.conv1(x)))
        y = self.slope2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return x + y if self.adds else y


class Output(nn.Cell):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    def __init__(self, run):
        super().__init__()
        dimensions, self.conv = run.dimensions, None
        width, side = facts.embedding(dimensions), dimensions["image_size"] // facts.SHRINK
        if dimensions["backbone"] == "y1":
            inputs = facts.MOBILE_LAST
            self.conv = conv(inputs, inputs, side, padding=0, groups=inputs)
            self.bn, self.dropout = batch_norm(inputs, facts.MOBILE_EPSILON), nn.Identity()
        else:
            self.bn = batch_norm(facts.RESNET_WIDTHS[-1], facts.BATCH_NORM_EPSILON)
            self.dropout = nn.Dropout(p=facts.DROPOUT)
            # with a seed of its own on each rank: all would drop the same elements
            self.dropout.dropout = ops.Dropout(1 - facts.DROPOUT, run.dropout_seed, 0)
            inputs = facts.RESNET_WIDTHS[-1] * side**2
        self.weight = Parameter(initializer("zeros", (width, inputs)))
        # and behind it the shift of the norm
        self.bias = Parameter(initializer("zeros", (2 * width,)))
        self.width, self.product = width, ops.MatMul(transpose_b=True)
        self.norm = batch_norm(width, facts.BATCH_NORM_EPSILON, nn.BatchNorm1d, affine=False)

    def construct(self, x):
        bias, shift = self.bias[: self.width], self.bias[self.width :]
        x = self.bn(x if self.conv is None else self.conv(x))
        x = self.dropout(x).reshape((x.shape[0], -1))
        return self.norm(self.product(x, self.weight) + bias) + shift


class Head(nn.Cell):
    """From embeddings to the mean loss; its weight are the centres, or a rank's share of them."""

    def __init__(self, run):
        super().__init__()
        dimensions = run.dimensions
        self.rows = RowBlock(run, "centres", facts.parameters(dimensions)["centres"])
        self.weight = split_head.weight(run, self.rows)
        self.first, self.count = self.rows.first, self.rows.held
        self.is_split = facts.is_split(dimensions) and run.distributed
        if self.is_split:
            self.gathered, self.gathered_labels = split_head.Gathered(run), ops.AllGather()
        self.is_sampled = facts.is_sampled(dimensions)
        if self.is_sampled:
            self.sample, self.taken = sample(run, self.count), split_head.Taken(run)
        self.product = ops.MatMul(transpose_b=True)
        self.with_margin = Margin(dimensions["loss"])
        self.cross_entropy = split_head.MeanCrossEntropy(run, self.is_split)

    def construct(self, x, labels, given=None):
        """given: 1 for each class that the step takes, of all ranks."""
        if self.is_split:
            x, labels = self.gathered(x), self.gathered_labels(labels)
        places, centres = places_of(labels, self.first, self.count), self.weight
        numbers = None
        if self.is_sampled:
            numbers = self.numbers(places, given)
            centres = self.taken(centres, numbers)
            positions = split_head.positions(numbers, self.count)
            column = ops.gather(positions, ops.maximum(places, 0), 0)
            places = ops.select(places >= 0, column, places)
        cosines = self.product(normalized(x), normalized(centres))
        scores = facts.SCALE * self.with_margin(cosines, places)
        if numbers is not None and numbers.shape[0] > self.sample.rows:
            never = ops.full_like(scores, split_head.NEVER)
            scores = ops.where(numbers < self.count, scores, never)
        return self.cross_entropy(scores, places)

    def numbers(self, places, given):
        """The rows that a step takes, as split_head.Sample has them."""
        if given is None:
            return self.sample(places)
        own = given[self.first : self.first + self.count]
        return self.sample.first(2.0 * own.astype(ms.float32), places.shape[0])


def normalized(x):
    """Each row of length 1. The gradient of ops.L2Normalize takes 400 times as long on a CPU."""
    return x * ops.rsqrt(ops.maximum((x * x).sum(1, keepdims=True), 1e-24))


def places_of(labels, first, count):
    """The rows that labels are of, counted from a rank's first of so many; -1 for other ranks'."""
    places = labels - first
    is_own = ops.logical_and(places >= 0, places < count)
    return ops.select(is_own, places, ops.full_like(places, -1))


def sample(run, count):
    """What gives the rows that a step takes, by MindSpore's own random numbers."""
    size = facts.sample_size(run.dimensions, count)
    return split_head.Sample(count, size, run.dropout_seed)


class Margin(nn.Cell):
    """The cosines, each image's own one with the margin; `places` are below 0 where it is none."""

    def __init__(self, loss):
        super().__init__()
        self.is_of_cosine = loss == "cosface"
        self.cosine, self.sine = math.cos(facts.ARC_MARGIN), math.sin(facts.ARC_MARGIN)
        self.least = Tensor(facts.LEAST_SINE_SQUARED, ms.float32)

    def construct(self, cosines, places):
        column, is_own = split_head.own_column(places)
        own = ops.gather_elements(cosines, 1, column)
        if self.is_of_cosine:
            moved = own - facts.COSINE_MARGIN
        else:
            sine = ops.sqrt(ops.maximum(1 - own * own, self.least))
            moved = own * self.cosine - sine * self.sine
        more = (moved - own) * is_own.expand_dims(1)
        return ops.tensor_scatter_elements(cosines, column, more, 1, "add")


class Face(nn.Cell):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        activated = functools.partial(Activated, epsilon=facts.epsilon(backbone))
        layers = named_layers(backbone, activated, Block, Bottleneck)
        self.backbone = nn.SequentialCell(OrderedDict(layers))
        if run.amp:  # convolutions and slopes in half precision, batch-norm in float32
            self.backbone = ms.amp.auto_mixed_precision(self.backbone, "O2", dtype=ms.float16)
        self.output, self.head = Output(run), Head(run)

    def construct(self, images, labels, *given):
        return self.head(self.output(self.backbone(images)), labels, *given)


def model(run):
    return Face(run).set_train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    trained, running = {}, {}
    for own, parameter in network.parameters_and_names():
        # mixed precision puts a cell, whose name it begins with "_", around others
        name = re.sub(r"_?backbone\.", "", own).replace("head.weight", "centres")
        name = re.sub(r"(slope\d?)\.w", r"\1", name).replace(".moving_", ".")
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        if parameter.requires_grad:
            trained[name] = parameter
        elif ".moving_" in own:  # of the last norm, scale and shift are not trained
            running[name] = parameter
    rows = network.head.rows
    return framework.Weights(trained, running, {"centres": rows.part} if rows.part.ranges else {})


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    rows = RowBlock(run, "centres", facts.parameters(run.dimensions)["centres"])
    draw = sample(run, rows.held)

    def drawn(labels):
        return draw(places_of(labels, rows.first, rows.held))

    drawn = framework.compiled(run, drawn)

    def taken(labels):
        numbers = drawn(Tensor(labels, ms.int32)).asnumpy()
        return rows.first + numbers[numbers < rows.held]

    return taken


def loss(network, images, labels, *given):
    return network(images, labels, *given)


def optimizer(run, network):
    settings = dict(momentum=facts.MOMENTUM, weight_decay=facts.WEIGHT_DECAY)
    rate, parameters = facts.learning_rate(run.global_batch_size), network.trainable_params()
    if facts.is_sampled(run.dimensions):
        return split_head.SGD(parameters, network.head.weight, rate, **settings)
    return split_head.nn_momentum(parameters, rate, **settings)


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        layout="NCHW",
        parity={"layout": "NCHW", "optimizer": "nn.Momentum, one operator a parameter"},
    )
