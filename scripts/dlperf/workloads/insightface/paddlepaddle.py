"""InsightFace in PaddlePaddle.

As fast as it gets: the backbone is a static program; its output and the head, in which ranks
exchange and sample, follow in dygraph. On the CPU the program has oneDNN's kernels, which needs
detours in training. Of products and norms of matrices their gradients are wrong, so there are none
in the program. The gradient of a convolution has another layout than what it is of: oneDNN's PReLU
takes it as if it had the same one, its batch-norm has only slow kernels for it, so behind both is a
copy, whose gradient has the layout of the images. Batch-norm leaves the running statistics alone,
which are kept beside it. On the GPU, which this has not run on: NHWC and level O2 (narrow weights,
fp32 master weights) of the backbone under AMP, as PLSC has it; what comes behind the backbone is in
float32.
"""

import functools
import math
import re

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.shards import RowBlock
from dlperf.frameworks.paddlepaddle import layers, split_head
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.workloads.insightface import facts
from dlperf.workloads.insightface.backbones import named_layers


class PReLU(nn.PReLU):
    """For oneDNN, behind which a copy has to stand."""

    def forward(self, x):
        return paddle.assign(super().forward(x))


class BatchNorm(layers.BatchNorm):
    """Behind which a copy has to stand, too."""

    def forward(self, x):
        return paddle.assign(super().forward(x))


class Layers:
    """What makes a network's layers, of images in this layout; the stopwatch writes all weights.

    own: the detours round oneDNN.
    """

    def __init__(self, layout, epsilon, own):
        self.layout, self.epsilon, self.own = layout, epsilon, own

    def conv(self, inputs, outputs, size, stride=1, padding=None, groups=1):
        return nn.Conv2D(
            inputs,
            outputs,
            size,
            stride,
            padding=size // 2 if padding is None else padding,
            groups=groups,
            weight_attr=nn.initializer.Constant(0.0),
            bias_attr=False,
            data_format=self.layout,
        )

    def norm(self, channels):
        # paddle's momentum is the share of the old statistic
        return (BatchNorm if self.own else nn.BatchNorm2D)(
            channels,
            momentum=facts.BATCH_NORM_MOMENTUM,
            epsilon=self.epsilon,
            data_format=self.layout,
        )

    def prelu(self, channels):
        return (PReLU if self.own else nn.PReLU)(channels, data_format=self.layout)


class Block(nn.Layer):
    """One of the improved ResNets: nothing follows the sum."""

    def __init__(self, make, inputs, width, stride):
        super().__init__()
        self.bn0, self.conv1 = make.norm(inputs), make.conv(inputs, width, 3)
        self.bn1, self.slope1 = make.norm(width), make.prelu(width)
        self.conv2, self.bn2 = make.conv(width, width, 3, stride), make.norm(width)
        self.conv3 = self.bn3 = None
        if stride > 1:
            self.conv3, self.bn3 = make.conv(inputs, width, 1, stride), make.norm(width)

    def forward(self, x):
        shortcut = x if self.conv3 is None else self.bn3(self.conv3(x))
        y = self.slope1(self.bn1(self.conv1(self.bn0(x))))
        return self.bn2(self.conv2(y)) + shortcut


class Activated(nn.Layer):
    """A convolution, its norm and a PReLU for each channel."""

    def __init__(self, make, inputs, outputs, size, stride=1, groups=1):
        super().__init__()
        self.conv = make.conv(inputs, outputs, size, stride, groups=groups)
        self.bn, self.slope = make.norm(outputs), make.prelu(outputs)

    def forward(self, x):
        return self.slope(self.bn(self.conv(x)))


class Bottleneck(nn.Layer):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    def __init__(self, make, inputs, inner, outer, stride):
        super().__init__()
        self.adds = stride == 1
        self.conv1, self.bn1 = make.conv(inputs, inner, 1), make.norm(inner)
        self.conv2 = make.conv(inner, inner, 3, stride, groups=inner)
        self.bn2 = make.norm(inner)
        self.conv3, self.bn3 = make.conv(inner, outer, 1), make.norm(outer)
        self.slope1, self.slope2 = make.prelu(inner), make.prelu(inner)

    def forward(self, x):
        y = self.slope1(self.bn1(self.conv1(x)))
        y = self.slope2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return x + y if self.adds else y


class Output(nn.Layer):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    def __init__(self, make, dimensions):
        super().__init__()
        width, side = facts.embedding(dimensions), dimensions["image_size"] // facts.SHRINK
        self.conv = self.dropout = None
        if dimensions["backbone"] == "y1":
            inputs = channels = facts.MOBILE_LAST
            self.conv = make.conv(inputs, inputs, side, padding=0, groups=inputs)
        else:
            channels, self.dropout = facts.RESNET_WIDTHS[-1], nn.Dropout(facts.DROPOUT)
            inputs = channels * side**2
        self.bn, self.is_nhwc = make.norm(channels), make.layout == "NHWC"
        zeros = nn.initializer.Constant(0.0)
        self.weight = self.create_parameter([inputs, width], default_initializer=zeros)
        # the layer's bias, and behind it the shift of the norm
        self.bias = self.create_parameter([2 * width], default_initializer=zeros)
        self.norm = nn.BatchNorm1D(
            width,
            momentum=facts.BATCH_NORM_MOMENTUM,
            epsilon=facts.BATCH_NORM_EPSILON,
            weight_attr=False,
            bias_attr=False,
        )

    def forward(self, x):
        bias, shift = self.bias.split(2)
        x = self.bn(x if self.conv is None else self.conv(x))
        x = x if self.dropout is None else self.dropout(x)
        x = (x.transpose([0, 3, 1, 2]) if self.is_nhwc else x).flatten(1)
        return self.norm(F.linear(x, self.weight, bias)) + shift


class Backbone(nn.Sequential):
    """From images to smaller ones of more channels."""

    def forward(self, images):
        # a copy: a program whose last operator is one of oneDNN's crashes
        return paddle.assign(super().forward(images))


class Embedding(nn.Layer):
    """From images to embeddings."""

    def __init__(self, run):
        super().__init__()
        backbone, is_own = run.dimensions["backbone"], has_onednn(run)
        epsilon = facts.epsilon(backbone)
        make = Layers(layout(run), epsilon, is_own)
        kinds = (functools.partial(each, make) for each in (Activated, Block, Bottleneck))
        named = named_layers(backbone, *kinds)
        self.backbone = (Backbone if is_own else nn.Sequential)(*named)
        self.output = Output(Layers(layout(run), epsilon, False), run.dimensions)

    def forward(self, images):
        x = self.backbone(images)
        with paddle.amp.auto_cast(enable=False):
            return self.output(x.astype(self.output.weight.dtype))


class Head(nn.Layer):
    """From embeddings to the mean loss, with the centres, or a rank's share of them."""

    def __init__(self, run):
        super().__init__()
        self.run, tensors = run, facts.parameters(run.dimensions)
        self.classes = split_head.Classes(run, "centres", tensors["centres"])

    def forward(self, x, labels, given=None):
        """given: 1 for each class that the step takes, of all ranks."""
        run, dimensions, classes = self.run, self.run.dimensions, self.classes
        centres, is_split = classes.weight, facts.is_split(dimensions)
        if is_split:
            x, labels = split_head.gathered(run, x), split_head.gathered_labels(run, labels)
        places = classes.places(labels)
        if facts.is_sampled(dimensions):
            if given is None:
                rows = sample(dimensions, classes.count, places)
            else:
                own = given[classes.first : classes.first + classes.count]
                rows = paddle.nonzero(own).flatten()
            centres = classes.taken(rows)
            places = paddle.where(places >= 0, paddle.searchsorted(rows, places), places)
        cosines = paddle.matmul(F.normalize(x), F.normalize(centres), transpose_y=True)
        scores = facts.SCALE * with_margin(dimensions, cosines, places)
        return split_head.cross_entropy(run, scores, places, is_split)


def sample(dimensions, count, places):
    """The rows of `count` that a step takes, by Paddle's own random numbers."""
    return split_head.sampled(count, facts.sample_size(dimensions, count), places)


def with_margin(dimensions, cosines, places):
    """The cosines, each image's own one with the margin; `places` are below 0 where it is none."""
    column = places.clip(min=0).unsqueeze(1)
    own = paddle.take_along_axis(cosines, column, 1)
    if dimensions["loss"] == "cosface":
        moved = own - facts.COSINE_MARGIN
    else:
        sine = (1 - own * own).clip(min=facts.LEAST_SINE_SQUARED).sqrt()
        moved = own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)
    moved = paddle.where(places.unsqueeze(1) >= 0, moved, own)
    return paddle.put_along_axis(cosines, column, moved, 1)


class Face(nn.Layer):
    """The mean loss of a batch."""

    def __init__(self, run):
        super().__init__()
        self.embedding, self.head = Embedding(run), Head(run)

    def forward(self, images, labels, given=None):
        x = self.embedding(images)
        with paddle.amp.auto_cast(enable=False):
            return self.head(x, labels, given)


def has_onednn(run):
    """Whether static programs have oneDNN kernels, which know no float64."""
    return run.compiler == "static" and not run.cuda and not run.float64


def model(run):
    network = Face(run)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    trained, running = {}, {}
    for own, parameter in network.named_parameters():
        name = re.sub(r"^embedding\.(backbone\.)?", "", own)
        name = re.sub(r"(slope\d?)\._weight", r"\1", name)
        name = name.replace("head.classes.weight", "centres")
        if name.endswith(("._mean", "._variance")):
            running[name.replace("._", ".")] = parameter
        elif not parameter.stop_gradient:  # the last norm's scale and shift have no gradient
            trained[name] = parameter
    return framework.Weights(run, trained, running)


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    rows = RowBlock(run, "centres", facts.parameters(run.dimensions)["centres"])

    def taken(labels):
        places = split_head.places_of(paddle.to_tensor(labels), rows.first, rows.held)
        return (rows.first + sample(run.dimensions, rows.held, places)).numpy()

    return taken


def optimizer(run, network):
    trained, classes = framework.trained(network), network.head.classes
    sampled = facts.is_sampled(run.dimensions)
    return split_head.SGD(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        facts.WEIGHT_DECAY,
        parameters=[p for p in trained if not sampled or p is not classes.weight],
        classes=classes if sampled else None,
    )


def training(run):
    network = model(run)
    return split_head.train(
        run,
        network,
        network.embedding.backbone,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        spec=spec(run),
        layout=layout(run),
        parity={"layout": layout(run), "optimizer": "Momentum, multi-tensor"},
    )


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"


def spec(run):
    """Of a batch's images."""
    size = run.dimensions["image_size"]
    shape = (size, size, 3) if layout(run) == "NHWC" else (3, size, size)
    dtype = paddle.get_default_dtype()
    return [paddle.static.InputSpec((run.batch_size,) + shape, dtype, "images")]
