"""InsightFace in MXNet's Gluon.

As fast as it gets: network and loss are one hybrid block, so that a step is one graph, with
`static_alloc` and `static_shape`; behind it stands a split head, whose ranks exchange features,
labels and three numbers an image. NCHW, which oneDNN blocks by itself. Under mixed precision the
backbone computes in half, and what comes from its output on, whose products are `dot`, in float32.
"""

import functools
import math

import mxnet as mx
from mxnet.gluon import nn

from dlperf.contract.shards import RowBlock
from dlperf.frameworks.mxnet import split_head
from dlperf.frameworks.mxnet import training as framework
from dlperf.workloads.insightface import facts
from dlperf.workloads.insightface.backbones import named_layers


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


class WholeImage(nn.HybridBlock):
    """A depthwise convolution whose kernel is as large as the images, as a sum of products.

    Mixed precision would narrow a convolution; this it leaves in float32.
    """

    def __init__(self, channels, side):
        super().__init__()
        self.weight = self.params.get("weight", shape=(channels, 1, side, side), init="zeros")

    def hybrid_forward(self, F, x, weight):
        kernels = F.swapaxes(weight, dim1=0, dim2=1)
        return F.sum(F.broadcast_mul(x, kernels), axis=(2, 3), keepdims=True)


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
            self.conv = WholeImage(inputs, side)
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
        x = F.cast(x, self.dtype)
        x = self.bn(self.conv(x)) if self.small else self.dropout(self.bn(x))
        x = F.dot(F.flatten(x), weight, transpose_b=True)
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


def scores(F, dimensions, cosines, own, is_own):
    """Those of cosines; `own`: each image's own one; is_own: 1 there, and 0 elsewhere."""
    more = F.broadcast_mul(is_own, with_margin(F, dimensions, own) - own)
    return facts.SCALE * (cosines + more)


class Head(nn.HybridBlock):
    """From embeddings to the loss of each image, by all centres.

    Where the centres are split, it holds a rank's share of them, and no more.
    """

    def __init__(self, run):
        super().__init__()
        dimensions, centres = run.dimensions, facts.parameters(run.dimensions)["centres"]
        self.dimensions, self.count = dimensions, dimensions["num_classes"]
        self.dtype = "float64" if run.float64 else "float32"
        self.rows = RowBlock(run, "centres", centres)
        kind = {"grad_req": "null"} if facts.is_sampled(dimensions) else {}
        self.weight = self.params.get("weight", shape=self.rows.shape, init="zeros", **kind)

    def hybrid_forward(self, F, x, labels, weight):
        cosines = split_head.cosines(F, x, weight)
        own = F.pick(cosines, labels, keepdims=True)
        is_own = F.one_hot(labels, self.count, dtype=self.dtype)
        return -F.pick(F.log_softmax(scores(F, self.dimensions, cosines, own, is_own)), labels)


class Scores(nn.HybridBlock):
    """Those of some centres, of which an image's own one need not be one."""

    def __init__(self, dimensions):
        super().__init__()
        self.dimensions = dimensions

    def hybrid_forward(self, F, x, centres, is_own):
        cosines = split_head.cosines(F, x, centres)
        own = F.sum(is_own * cosines, axis=1, keepdims=True)
        return scores(F, self.dimensions, cosines, own, is_own)


class Embeddings(nn.HybridBlock):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        self.backbone = nn.HybridSequential()
        activated = functools.partial(Activated, run, epsilon=facts.epsilon(backbone))
        others = (functools.partial(each, run) for each in (Block, Bottleneck))
        self.names = []
        for name, layer in named_layers(backbone, activated, *others):
            self.backbone.add(layer)
            self.names.append(name)
        self.output = Output(run)

    def hybrid_forward(self, F, images):
        return self.output(self.backbone(images))


class Face(nn.HybridBlock):
    def __init__(self, run):
        super().__init__()
        self.embeddings, self.head = Embeddings(run), Head(run)

    def hybrid_forward(self, F, images, labels):
        return self.head(self.embeddings(images), labels)


def model(run):
    return framework.initialized(run, Face(run))


def weights(run, network):
    """The trained parameters by the names of facts.parameters."""

    def canonical(own):
        first, _, rest = own.replace("embeddings.", "").partition(".")
        if first == "backbone":
            number, _, rest = rest.partition(".")
            first = network.embeddings.names[int(number)]
        return "%s.%s" % (first, rest.replace(".alpha", "").replace("running_", ""))

    named = {
        canonical(name): parameter
        for name, parameter in framework.named(network)
        if parameter is not network.head.weight
    }
    named["centres"] = network.head.weight
    running = {
        canonical(name).replace(".var", ".variance"): parameter
        for name, parameter in network._collect_params_with_prefix().items()
        if "running" in name
    }
    rows = network.head.rows
    shards = {"centres": rows} if rows.part.ranges else {}
    return framework.Weights(run, named, running=running, shards=shards)


def loss(run, network):
    return network.embeddings if facts.is_split(run.dimensions) else network


def sample(run, rows):
    """What gives the rows that a step takes, by MXNet's own random numbers."""
    size = facts.sample_size(run.dimensions, rows.held)
    return lambda places: split_head.sampled(rows.held, size, places)


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    rows = RowBlock(run, "centres", facts.parameters(run.dimensions)["centres"])
    draw = sample(run, rows)

    def taken(labels):
        places = framework.put(run, labels, "int32") - rows.first
        return rows.first + draw(places).asnumpy()

    return taken


def split(run, network, trainer):
    """The head behind the graph."""
    rows, block, given = network.head.rows, Scores(run.dimensions), None
    is_sampled = facts.is_sampled(run.dimensions)
    if run.compiler == "static":
        # a sample is larger where the batch has more of a rank's identities
        block.hybridize(static_alloc=True, static_shape=not is_sampled)
    if is_sampled:
        given = sample(run, rows)
    return split_head.Split(run, trainer, rows, block, given)


def optimizer(run, network):
    settings = dict(
        learning_rate=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,  # its buffer has the rate in it
        wd=facts.WEIGHT_DECAY,
    )
    kind = mx.optimizer.SGD if run.cuda else split_head.SGD
    if facts.is_split(run.dimensions):
        own = network.embeddings, network.head.weight
        return split_head.Trainer(run, *own, kind(**settings))
    return framework.trainer(run, network, kind(**settings))


def put(run, images, *others):
    """Images, labels, and in certificates what a step samples."""
    integers = (framework.put(run, each, "int32") for each in others)
    return (framework.put(run, images, images.dtype), *integers)


def training(run):
    network = model(run)
    trainer, is_split = optimizer(run, network), facts.is_split(run.dimensions)
    many = max(1, trainer.optimizer.aggregate_num)
    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=1 if is_split else 2,
        losses=run.batch_size,
        behind=split(run, network, trainer) if is_split else None,
        layout="NCHW",
        parity={
            "layout": "NCHW",
            "optimizer": "SGD, fused momentum, %d tensors an operator" % many,
            "fused_optimizer": True,
        },
    )
