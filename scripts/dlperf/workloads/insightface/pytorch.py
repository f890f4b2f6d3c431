"""InsightFace in PyTorch.

As fast as it gets: channels_last tensors, a fused SGD; ranks that share the centres out exchange
features, labels and three numbers an image. Under mixed precision the backbone computes in half,
and what comes from its output on in float32.
"""

import functools
import re
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.contract.shards import RowBlock
from dlperf.frameworks.pytorch import split_head
from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.insightface import facts
from dlperf.workloads.insightface.backbones import named_layers


def conv(inputs, outputs, size, stride=1, padding=None, groups=1):
    # the stopwatch writes all weights
    return nn.utils.skip_init(
        nn.Conv2d,
        inputs,
        outputs,
        size,
        stride=stride,
        padding=size // 2 if padding is None else padding,
        groups=groups,
        bias=False,
    )


def batch_norm(channels, epsilon, kind=nn.BatchNorm2d, **settings):
    # torch's momentum is the share of the new statistic
    return kind(channels, eps=epsilon, momentum=1 - facts.BATCH_NORM_MOMENTUM, **settings)


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


class Output(nn.Module):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    def __init__(self, dimensions):
        super().__init__()
        width, side = facts.embedding(dimensions), dimensions["image_size"] // facts.SHRINK
        if dimensions["backbone"] == "y1":
            inputs = facts.MOBILE_LAST
            self.conv = conv(inputs, inputs, side, padding=0, groups=inputs)
            self.bn, self.dropout = batch_norm(inputs, facts.MOBILE_EPSILON), None
        else:
            self.conv, self.bn = None, batch_norm(facts.RESNET_WIDTHS[-1], facts.BATCH_NORM_EPSILON)
            self.dropout = nn.Dropout(facts.DROPOUT)
            inputs = facts.RESNET_WIDTHS[-1] * side**2
        self.weight = nn.Parameter(torch.empty(width, inputs))
        self.bias = nn.Parameter(torch.empty(2 * width))  # and behind it the shift of the norm
        self.norm = batch_norm(width, facts.BATCH_NORM_EPSILON, nn.BatchNorm1d, affine=False)

    def forward(self, x):
        bias, shift = self.bias.chunk(2)
        x = self.bn(x if self.conv is None else self.conv(x))
        x = (x if self.dropout is None else self.dropout(x)).flatten(1)
        return self.norm(F.linear(x, self.weight, bias)) + shift


class Head(nn.Module):
    """From embeddings to the mean loss; its weight are the centres, or a rank's share of them."""

    def __init__(self, run):
        super().__init__()
        self.run = run
        centres = facts.parameters(run.dimensions)["centres"]
        self.weight = split_head.weight(run, "centres", centres)

    @torch.compiler.disable  # ranks exchange, and samples have no fixed size
    def forward(self, x, labels, given=None):
        """given: 1 for each class that the step takes, of all ranks."""
        run, dimensions, centres = self.run, self.run.dimensions, self.weight
        is_split = facts.is_split(dimensions)
        if is_split:
            x, labels = split_head.gathered(run, x), split_head.gathered_labels(run, labels)
        first, count = split_head.first_row(centres), len(centres)
        places = places_of(labels, first, count)
        if facts.is_sampled(dimensions):
            if given is None:
                rows = sample(dimensions, count, places)
            else:
                rows = given[first : first + count].nonzero()[:, 0]
            centres = split_head.taken(centres, rows)
            places = torch.searchsorted(rows, places).where(places >= 0, -1)
        cosines = F.linear(F.normalize(x), F.normalize(centres))
        scores = facts.SCALE * with_margin(dimensions, cosines, places)
        return split_head.cross_entropy(run, scores, places, is_split)


def places_of(labels, first, count):
    """The rows that labels are of, counted from a rank's first of so many; -1 for other ranks'."""
    places = labels - first
    return places.where((places >= 0) & (places < count), -1)


def sample(dimensions, count, places):
    """The rows of `count` that a step takes, by PyTorch's own random numbers."""
    return split_head.sampled(count, facts.sample_size(dimensions, count), places)


def with_margin(dimensions, cosines, places):
    """The cosines, each image's own one with the margin; `places` are below 0 where it is none."""
    column = places.clamp(min=0)[:, None]
    own = cosines.gather(1, column)
    if dimensions["loss"] == "cosface":
        moved = own - facts.COSINE_MARGIN
    else:
        sine = (1 - own**2).clamp(min=facts.LEAST_SINE_SQUARED).sqrt()
        margin = torch.tensor(facts.ARC_MARGIN, dtype=own.dtype)
        moved = own * margin.cos() - sine * margin.sin()
    return cosines.scatter_add(1, column, (moved - own).where(places[:, None] >= 0, 0.0))


class Face(nn.Module):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        activated = functools.partial(Activated, epsilon=facts.epsilon(backbone))
        layers = named_layers(backbone, activated, Block, Bottleneck)
        self.device = run.device
        self.backbone = nn.Sequential(OrderedDict(layers))
        self.output, self.head = Output(run.dimensions), Head(run)

    def forward(self, images, labels, *given):
        x = self.backbone(images)
        with torch.autocast(self.device, enabled=False):
            return self.head(self.output(x.to(self.head.weight.dtype)), labels, *given)


def model(run):
    return Face(run).to(run.device, memory_format=torch.channels_last).train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""

    def named(tensors):
        found = {}
        for own, tensor in tensors:
            name = re.sub(r"(slope\d?)\.weight", r"\1", own.replace("backbone.", ""))
            name = name.replace("head.weight", "centres")
            found[name.replace("running_", "").replace("var", "variance")] = tensor
        return found

    running = [each for each in network.named_buffers() if "running" in each[0]]
    return framework.Weights(run, named(network.named_parameters()), named(running))


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    rows = RowBlock(run, "centres", facts.parameters(run.dimensions)["centres"])

    def taken(labels):
        places = places_of(torch.from_numpy(labels).to(run.device), rows.first, rows.held)
        return (rows.first + sample(run.dimensions, rows.held, places)).cpu().numpy()

    return taken


def loss(run, network, images, labels, *given):
    return network(images, labels, *given)


def optimizer(run, network):
    named, sparse = weights(run, network).named, facts.sparse(run.dimensions)
    return split_head.SGD(
        [each for name, each in named.items() if name not in sparse],
        [named[name] for name in sparse],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )


def put(run, images, *others):
    """NHWC arrays -> a channels_last tensor (which is NHWC in memory) and int64 ones."""
    images, *others = framework.put(run, images, *others)
    return (images.permute(0, 3, 1, 2), *others)


def training(run):
    network = model(run)
    if facts.is_split(run.dimensions):
        split_head.stay_apart(run, network, ["head.weight"])
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        layout="NHWC",
        parity={"layout": "NHWC (channels_last)", "optimizer": "SGD, fused"},
    )
