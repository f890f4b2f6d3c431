"""InsightFace in OneFlow.

As fast as it gets: ranks that share the centres out have them as a global tensor, split(0), as
OneFlow's own users do; nn.Graph with updates and additions fused, but not where a step samples
centres. On a CPU nearly all of y1's time goes to depthwise convolutions, for which OneFlow has no
kernel of their own there.
"""

import functools
import math
import re
from collections import OrderedDict

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import split_head
from dlperf.frameworks.oneflow import training as framework
from dlperf.workloads.insightface import facts
from dlperf.workloads.insightface.backbones import named_layers


class Conv2d(framework.Undrawn, nn.Conv2d):
    pass


def conv(inputs, outputs, size, stride=1, padding=None, groups=1):
    padding = size // 2 if padding is None else padding
    return Conv2d(inputs, outputs, size, stride, padding=padding, groups=groups, bias=False)


def batch_norm(channels, epsilon, kind=nn.BatchNorm2d):
    # as torch's, the momentum is the share of the new statistic
    return kind(channels, eps=epsilon, momentum=1 - facts.BATCH_NORM_MOMENTUM)


class Block(nn.Module):
    """One of the improved ResNets: nothing follows the sum."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        epsilon = facts.BATCH_NORM_EPSILON
        self.bn0, self.conv1 = batch_norm(inputs, epsilon), conv(inputs, width, 3)
        self.bn1, self.slope1 = batch_norm(width, epsilon), nn.PReLU(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width, epsilon)
        self.conv3 = self.bn3 = None
        if stride > 1:
            self.conv3, self.bn3 = conv(inputs, width, 1, stride), batch_norm(width, epsilon)

    def forward(self, x):
        shortcut = x if self.conv3 is None else self.bn3(self.conv3(x))
        y = self.slope1(self.bn1(self.conv1(self.bn0(x))))
        return self.bn2(self.conv2(y)) + shortcut


class Activated(nn.Module):
    """A convolution, its norm and a PReLU for each channel."""

    def __init__(self, inputs, outputs, size, stride=1, groups=1, epsilon=None):
        super().__init__()
        self.conv = conv(inputs, outputs, size, stride, groups=groups)
        self.bn, self.slope = batch_norm(outputs, epsilon), nn.PReLU(outputs)

    def forward(self, x):
        return self.slope(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    def __init__(self, inputs, inner, outer, stride):
        super().__init__()
        epsilon = facts.MOBILE_EPSILON
        self.adds = stride == 1
        self.conv1, self.bn1 = conv(inputs, inner, 1), batch_norm(inner, epsilon)
        self.conv2 = conv(inner, inner, 3, stride, groups=inner)
        self.bn2 = batch_norm(inner, epsilon)
        self.conv3, self.bn3 = conv(inner, outer, 1), batch_norm(outer, epsilon)
        self.slope1, self.slope2 = nn.PReLU(inner), nn.PReLU(inner)

    def forward(self, x):
        y = self.slope1(self.bn1(self.conv1(x)))
        y = self.slope2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return x + y if self.adds else y


class Standardized(nn.BatchNorm1d):
    """A norm whose scale and shift stay 1 and 0: without any, OneFlow's takes no global tensors."""

    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        del self.weight, self.bias
        self.register_buffer("weight", flow.ones(channels))
        self.register_buffer("bias", flow.zeros(channels))


class Output(nn.Module):
    """From a backbone's last images to embeddings."""

    def __init__(self, dimensions):
        super().__init__()
        width, side = facts.embedding(dimensions), dimensions["image_size"] // facts.SHRINK
        self.conv, self.dropout = None, facts.DROPOUT
        if dimensions["backbone"] == "y1":
            inputs, self.dropout = facts.MOBILE_LAST, 0.0
            self.conv = conv(inputs, inputs, side, padding=0, groups=inputs)
            self.bn = batch_norm(inputs, facts.MOBILE_EPSILON)
        else:
            self.bn = batch_norm(facts.RESNET_WIDTHS[-1], facts.BATCH_NORM_EPSILON)
            inputs = facts.RESNET_WIDTHS[-1] * side**2
        self.weight = nn.Parameter(flow.empty(width, inputs))
        self.bias = nn.Parameter(flow.empty(2 * width))  # and behind it the shift of the norm
        self.norm = batch_norm(width, facts.BATCH_NORM_EPSILON, Standardized)

    def forward(self, x):
        bias, shift = self.bias.chunk(2)
        x = self.bn(x if self.conv is None else self.conv(x))
        x = F.dropout(x, self.dropout, self.training).flatten(1)
        x = flow._C.matmul(x, self.weight, transpose_b=True) + bias
        return self.norm(x) + shift


class Head(nn.Module):
    """From embeddings to the mean loss, with the centres, or a rank's share of them."""

    def __init__(self, run):
        super().__init__()
        self.run, tensors = run, facts.parameters(run.dimensions)
        sampled = facts.is_sampled(run.dimensions)
        self.classes = split_head.Classes(run, "centres", tensors["centres"], sampled)

    def forward(self, x, labels, *given):
        """given: 1 for each class that the step takes, of all ranks."""
        run, classes, chosen = self.run, self.classes, None
        whole = labels  # of a rank's own batch where all have all centres
        if classes.is_split:
            x, whole = split_head.gathered(run, x, labels)
        if classes.sampled:
            chosen = chosen_rows(run, classes, whole, *given)
        centres, numbers = classes(chosen)
        # each of length 1, by OneFlow's own: written out it takes 20 times as long on a CPU
        x, centres = F.normalize(x, dim=1), F.normalize(centres, dim=1)
        cosines = flow._C.matmul(x, centres, transpose_b=True)
        is_own = (whole.unsqueeze(1) == numbers.unsqueeze(0)).to(cosines.dtype)
        own = split_head.summed_over_ranks((cosines * is_own).sum(1, keepdim=True))
        moved = with_margin(run.dimensions, own)
        scores = facts.SCALE * (cosines + (moved - own) * is_own)
        return split_head.cross_entropy(run, scores, numbers, whole, facts.SCALE * moved)


def chosen_rows(run, classes, labels, given=None):
    """The numbers of a rank's own rows that a step takes."""
    first, last = classes.first, classes.first + classes.held
    if given is not None:
        return given[first:last].nonzero()[:, 0]
    return sample(run.dimensions, classes.held, places_of(labels, first, classes.held))


def places_of(labels, first, count):
    """The rows that labels are of, counted from a rank's first of so many; -1 for other ranks'."""
    places = (labels.to_local() if labels.is_global else labels) - first
    is_own = flow.logical_and(places >= 0, places < count)
    return flow.where(is_own, places, flow.full_like(places, -1))


def sample(dimensions, count, places):
    """The rows of `count` that a step takes, by OneFlow's own random numbers."""
    return split_head.sampled(count, facts.sample_size(dimensions, count), places)


def with_margin(dimensions, own):
    """What counts in place of images' cosines with the centres of their own identities."""
    if dimensions["loss"] == "cosface":
        return own - facts.COSINE_MARGIN
    sine = (1 - own * own).clamp(min=facts.LEAST_SINE_SQUARED).sqrt()
    return own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)


class Face(nn.Module):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        activated = functools.partial(Activated, epsilon=facts.epsilon(backbone))
        layers = named_layers(backbone, activated, Block, Bottleneck)
        self.backbone = nn.Sequential(OrderedDict(layers))
        self.output, self.head = Output(run.dimensions), Head(run)

    def forward(self, images, labels, *given):
        return self.head(self.output(self.backbone(images)), labels, *given)


def model(run):
    network = framework.place(run, Face(run))
    network.head.classes.spread()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""

    def named(tensors):
        found = {}
        for own, tensor in tensors:
            name = re.sub(r"(slope\d?)\.weight", r"\1", own.replace("backbone.", ""))
            name = name.replace("head.classes.weight", "centres")
            found[name.replace("running_", "").replace("var", "variance")] = tensor
        return found

    running = [each for each in network.named_buffers() if "running" in each[0]]
    shard = network.head.classes.shard
    return framework.Weights(
        run,
        named(network.named_parameters()),
        named(running),
        shards={"centres": shard} if shard else {},
    )


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    classes = Head(run).classes
    first, count = classes.first, classes.held

    def taken(labels):
        places = places_of(flow.tensor(labels, device=run.device), first, count)
        return (first + sample(run.dimensions, count, places)).numpy()

    return taken


def loss(run, network, images, labels, *given):
    return network(images, labels, *given)


def optimizer(run, network):
    return split_head.optimizer(
        run,
        network.parameters(),
        network.head.classes,
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        example=example(run),
        layout="NCHW",
        parity={"layout": "NCHW", "optimizer": "SGD"},
    )


def example(run):
    """A batch to compile a graph with, in which no step samples."""
    size = run.dimensions["image_size"]
    images = np.zeros((run.batch_size, 3, size, size), np.float32)
    return images, np.zeros(run.batch_size, np.int64)
