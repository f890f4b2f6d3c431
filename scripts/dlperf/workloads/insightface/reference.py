"""InsightFace as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other; a head that is split over ranks computes what one with all centres does. Nothing here is
fast, shared with an implementation, or chosen by a framework's default.
"""

import torch
import torch.nn.functional as F

from dlperf.contract.reference import Reference
from dlperf.workloads.formulas import dropout, running_statistics
from dlperf.workloads.insightface import facts


class Network:
    """A backbone's layers by name. seen: Statistics that have to see the batch."""

    def __init__(self, weights, seen, epsilon):
        self.weights, self.seen, self.epsilon = weights, seen, epsilon

    def channels(self, name, x):
        """A tensor of one value a channel, beside images or embeddings."""
        return self.weights[name].view(1, -1, *[1] * (x.ndim - 2))

    def standardized(self, name, x, epsilon):
        """By the batch's own mean and biased variance, epsilon inside the root."""
        over = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean = x.mean(over, keepdim=True)
        variance = ((x - mean) ** 2).mean(over, keepdim=True)
        for each in self.seen:
            each.update(name, mean.detach(), variance.detach(), x.numel() // x.shape[1])
        return (x - mean) / torch.sqrt(variance + epsilon)

    def norm(self, name, x):
        x = self.standardized(name, x, self.epsilon)
        return x * self.channels(name + ".weight", x) + self.channels(name + ".bias", x)

    def prelu(self, name, x):
        return torch.where(x > 0, x, x * self.channels(name, x))

    def conv(self, name, x, stride=1, padding=None):
        """Depthwise where the kernel has one input alone."""
        kernel = self.weights[name + ".weight"]
        padding = kernel.shape[-1] // 2 if padding is None else padding
        groups = kernel.shape[0] if kernel.shape[1] == 1 else 1
        return F.conv2d(x, kernel, stride=stride, padding=padding, groups=groups)


def resnet(network, backbone, images):
    """(batch, 3, px, px) -> what the dense layer takes: channels, then rows, then columns."""
    x = network.prelu("stem.slope", network.norm("stem.bn", network.conv("stem.conv", images)))
    for each in facts.residuals(backbone):
        name, shortcut = each.name + ".", x
        if each.stride > 1:
            shortcut = network.norm(name + "bn3", network.conv(name + "conv3", x, each.stride))
        y = network.conv(name + "conv1", network.norm(name + "bn0", x))
        y = network.prelu(name + "slope1", network.norm(name + "bn1", y))
        x = network.norm(name + "bn2", network.conv(name + "conv2", y, each.stride)) + shortcut
    x = network.norm("output.bn", x)
    return dropout(x, facts.DROPOUT).flatten(1)


def mobile(network, images):
    """The same of MobileFaceNet."""

    def activated(name, conv, bn, slope, x, stride=1):
        x = network.norm(name + bn, network.conv(name + conv, x, stride))
        return network.prelu(name + slope, x)

    x = activated("stem.", "conv", "bn", "slope", images, 2)
    x = activated("depthwise.", "conv", "bn", "slope", x)
    for each in facts.bottlenecks():
        name = each.name + "."
        y = activated(name, "conv1", "bn1", "slope1", x)
        y = activated(name, "conv2", "bn2", "slope2", y, each.stride)
        y = network.norm(name + "bn3", network.conv(name + "conv3", y))
        x = x + y if each.stride == 1 else y
    x = activated("last.", "conv", "bn", "slope", x)
    return network.norm("output.bn", network.conv("output.conv", x, padding=0)).flatten(1)


def embeddings(weights, images, seen, dimensions):
    """images (batch, 3, px, px) -> (batch, embedding)."""
    if dimensions["backbone"] == "y1":
        network = Network(weights, seen, facts.MOBILE_EPSILON)
        x = mobile(network, images)
    else:
        network = Network(weights, seen, facts.BATCH_NORM_EPSILON)
        x = resnet(network, dimensions["backbone"], images)
    bias, shift = weights["output.bias"].chunk(2)
    x = x @ weights["output.weight"].T + bias
    return network.standardized("output.norm", x, facts.BATCH_NORM_EPSILON) + shift


def with_margin(cosine, dimensions):
    """What counts in place of an image's cosine with the centre of its own identity."""
    if dimensions["loss"] == "cosface":
        return cosine - facts.COSINE_MARGIN
    return torch.cos(torch.arccos(cosine) + facts.ARC_MARGIN)


def loss(weights, batch, seen, dimensions):
    """Mean over the batch of the cross-entropy of scaled cosines, of the centres that a step takes.

    seen: Statistics.
    """
    images, labels, *given = batch
    x, centres = embeddings(weights, images, seen, dimensions), weights["centres"]
    x = x / (x**2).sum(1, keepdim=True).sqrt()
    centres = centres / (centres**2).sum(1, keepdim=True).sqrt()
    cosines = x @ centres.T
    own = F.one_hot(labels, len(centres)).bool()
    logits = facts.SCALE * torch.where(own, with_margin(cosines, dimensions), cosines)
    if given:
        logits = logits.masked_fill(given[0] == 0, -torch.inf)
    return -torch.log_softmax(logits, 1).gather(1, labels[:, None]).mean()


def tensors(images, labels, *given, dtype=torch.float64):
    """A NumPy batch, NCHW -> tensors."""
    integers = (torch.from_numpy(each).long() for each in (labels, *given))
    return (torch.from_numpy(images).to(dtype), *integers)


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    statistics=running_statistics(facts),
)
