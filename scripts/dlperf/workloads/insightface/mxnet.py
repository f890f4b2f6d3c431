"""InsightFace in MXNet's Gluon.

As fast as it gets: network and loss are one hybrid block, so that a step is one graph, with
`static_alloc` and `static_shape`. NCHW, which oneDNN blocks by itself. Under mixed precision the
backbone computes in half, and what comes from its output on, whose products are `dot`, in float32.
"""

import math

import mxnet as mx
from mxnet.gluon import nn

from dlperf.frameworks.mxnet import split_head
from dlperf.frameworks.mxnet import training as framework
from dlperf.workloads.insightface import facts


def conv(inputs, outputs, size, stride=1, padding=None, groups=1):
    return nn.Conv2D(
        outputs,
        size,
        stride,
        padding=size // 2 if padding is None else padding,
        groups=groups,
        use_bias=False,
        weight_initializer="zeros",  # the stopwatch writes all weights
        in_channels=inputs,
    )


def batch_norm(channels, epsilon, **settings):
    return nn.BatchNorm(1, facts.BATCH_NORM_MOMENTUM, epsilon, in_channels=channels, **settings)


class PReLU(nn.PReLU):
    """One slope a channel.

    On a CPU by a depthwise convolution of what is below 0: MXNet's own operator takes four times as
    long there, and in float64 it multiplies as float32.
    """

    def __init__(self, run, channels):
        super().__init__(in_channels=channels)
        self.cuda, self.channels = run.cuda, channels

    def hybrid_forward(self, F, x, alpha):
        if self.cuda:
            return super().hybrid_forward(F, x, alpha)
        above, slopes = F.relu(x), F.reshape(alpha, (-1, 1, 1, 1))
        each = {"num_filter": self.channels, "num_group": self.channels}
        below = F.elemwise_sub(x, above)
        below = F.Convolution(below, slopes, kernel=(1, 1), no_bias=True, **each)
        return F.elemwise_add(above, below)


class Block(nn.HybridBlock):
    """One of the improved ResNets: nothing follows the sum."""

    def __init__(self, run, inputs, width, stride):
        super().__init__()
        epsilon = facts.BATCH_NORM_EPSILON
        self.bn0, self.conv1 = batch_norm(inputs, epsilon), conv(inputs, width, 3)
        self.bn1, self.slope1 = batch_norm(width, epsilon), PReLU(run, width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width, epsilon)
        self.shrinks = stride > 1
        if stride > 1:
            self.conv3, self.bn3 = conv(inputs, width, 1, stride), batch_norm(width, epsilon)

    def hybrid_forward(self, F, x):
        shortcut = self.bn3(self.conv3(x)) if self.shrinks else x
        y = self.slope1(self.bn1(self.conv1(self.bn0(x))))
        return F.elemwise_add(self.bn2(self.conv2(y)), shortcut)


class Activated(nn.HybridBlock):
    """A convolution, its norm and a PReLU for each channel."""

    def __init__(self, run, inputs, outputs, size, stride=1, groups=1, epsilon=None):
        super().__init__()
        self.conv = conv(inputs, outputs, size, stride, groups=groups)
        self.bn, self.slope = batch_norm(outputs, epsilon), PReLU(run, outputs)

    def hybrid_forward(self, F, x):
        return self.slope(self.bn(self.conv(x)))


class Bottleneck(nn.HybridBlock):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    def __init__(self, run, inputs, inner, outer, stride):
        super().__init__()
        epsilon = facts.MOBILE_EPSILON
        self.adds = stride == 1
        self.conv1, self.bn1 = conv(inputs, inner, 1), batch_norm(inner, epsilon)
        self.conv2 = conv(inner, inner, 3, stride, groups=inner)
        self.bn2 = batch_norm(inner, epsilon)
        self.conv3, self.bn3 = conv(inner, outer, 1), batch_norm(outer, epsilon)
        self.slope1, self.slope2 = PReLU(run, inner), PReLU(run, inner)

    def hybrid_forward(self, F, x):
        y = self.slope1(self.bn1(self.conv1(x)))
        y = self.slope2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.elemwise_add(x, y) if self.adds else y


def resnet(run, backbone):
    """An improved ResNet, but its output, as pairs of canonical name and layer."""
    yield "stem", Activated(run, 3, facts.RESNET_WIDTHS[0], 3, epsilon=facts.BATCH_NORM_EPSILON)
    for each in facts.residuals(backbone):
        yield each.name, Block(run, each.inputs, each.width, each.stride)


def mobile(run):
    """MobileFaceNet likewise."""
    epsilon, channels = facts.MOBILE_EPSILON, facts.MOBILE_STEM
    yield "stem", Activated(run, 3, channels, 3, 2, epsilon=epsilon)
    yield "depthwise", Activated(run, channels, channels, 3, groups=channels, epsilon=epsilon)
    for each in facts.bottlenecks():
        yield each.name, Bottleneck(run, each.inputs, each.inner, each.outer, each.stride)
    yield "last", Activated(run, each.outer, facts.MOBILE_LAST, 1, epsilon=epsilon)


class Output(nn.HybridBlock):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    def __init__(self, run):
        super().__init__()
        dimensions = run.dimensions
        self.dtype = "float64" if run.float64 else "float32"
        self.width = facts.embedding(dimensions)
        side = dimensions["image_size"] // facts.SHRINK
        self.small = dimensions["backbone"] == "y1"
        if self.small:
            inputs = facts.MOBILE_LAST
            self.conv = conv(inputs, inputs, side, padding=0, groups=inputs)
            self.bn = batch_norm(inputs, facts.MOBILE_EPSILON)
        else:
            self.bn = batch_norm(facts.RESNET_WIDTHS[-1], facts.BATCH_NORM_EPSILON)
            self.dropout = nn.Dropout(facts.DROPOUT)
            inputs = facts.RESNET_WIDTHS[-1] * side**2
        self.weight = self.params.get("weight", shape=(self.width, inputs), init="zeros")
        # the layer's bias, and behind it the shift of the norm
        self.bias = self.params.get("bias", shape=(2 * self.width,), init="zeros")
        self.norm = batch_norm(self.width, facts.BATCH_NORM_EPSILON, center=False, scale=False)

    def hybrid_forward(self, F, x, weight, bias):
        x = self.bn(self.conv(x)) if self.small else self.dropout(self.bn(x))
        x = F.dot(F.flatten(F.cast(x, self.dtype)), weight, transpose_b=True)
        before, shift = (
            F.slice_axis(bias, 0, *ends) for ends in ((0, self.width), (self.width, None))
        )
        return F.broadcast_add(self.norm(F.broadcast_add(x, before)), shift)


def with_margin(F, dimensions, own):
    """What counts in place of images' cosines with the centres of their own identities."""
    if dimensions["loss"] == "cosface":
        return own - facts.COSINE_MARGIN
    sine = F.sqrt(F.maximum(1 - own * own, facts.LEAST_SINE_SQUARED))
    return own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)


class Head(nn.HybridBlock):
    """From embeddings to the loss of each image, by all centres."""

    def __init__(self, run):
        super().__init__()
        self.dimensions, self.count = run.dimensions, run.dimensions["num_classes"]
        self.dtype = "float64" if run.float64 else "float32"
        shape = facts.parameters(run.dimensions)["centres"].shape
        self.weight = self.params.get("weight", shape=shape, init="zeros")

    def hybrid_forward(self, F, x, labels, weight):
        cosines = split_head.cosines(F, x, weight)
        own = F.pick(cosines, labels, keepdims=True)
        moved = with_margin(F, self.dimensions, own)
        is_own = F.one_hot(labels, self.count, dtype=self.dtype)
        more = F.broadcast_mul(is_own, moved - own)
        return -F.pick(F.log_softmax(facts.SCALE * (cosines + more)), labels)


class Face(nn.HybridBlock):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        self.backbone = nn.HybridSequential()
        layers = mobile(run) if backbone == "y1" else resnet(run, backbone)
        self.names = []
        for name, layer in layers:
            self.backbone.add(layer)
            self.names.append(name)
        self.output, self.head = Output(run), Head(run)

    def hybrid_forward(self, F, images, labels):
        return self.head(self.output(self.backbone(images)), labels)


def model(run):
    return framework.initialized(run, Face(run))


def weights(run, network):
    """The trained parameters by the names of facts.parameters."""

    def canonical(own):
        if own == "head.weight":
            return "centres"
        first, _, rest = own.partition(".")
        if first == "backbone":
            number, _, rest = rest.partition(".")
            first = network.names[int(number)]
        return "%s.%s" % (first, rest.replace(".alpha", "").replace("running_", ""))

    named = {canonical(name): p for name, p in framework.named(network)}
    running = {
        canonical(name).replace(".var", ".variance"): parameter
        for name, parameter in network._collect_params_with_prefix().items()
        if "running" in name
    }
    return framework.Weights(run, named, running=running)


def loss(run, network):
    return network


def optimizer(run, network):
    settings = dict(
        learning_rate=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,  # its buffer has the rate in it
        wd=facts.WEIGHT_DECAY,
    )
    kind = mx.optimizer.SGD if run.cuda else split_head.SGD
    return framework.trainer(run, network, kind(**settings))


def put(run, images, labels):
    return framework.put(run, images, images.dtype), framework.put(run, labels, "int32")


def training(run):
    network = model(run)
    trainer = optimizer(run, network)
    many = max(1, trainer.optimizer.aggregate_num)
    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=2,
        losses=run.batch_size,
        layout="NCHW",
        parity={
            "layout": "NCHW",
            "optimizer": "SGD, fused momentum, %d tensors an operator" % many,
            "fused_optimizer": True,
        },
    )
