"""ResNet-50 v1.5 as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other. Nothing here is fast, shared with an implementation, or chosen by a framework's default.
"""

import torch
import torch.nn.functional as F

from dlperf.contract.reference import Reference
from dlperf.workloads.formulas import running_statistics
from dlperf.workloads.resnet50 import facts


class Running:
    """Running statistics that are given: batch-norm takes them in place of the batch's own."""

    def __init__(self, statistics):
        self.given = statistics


def batch_norm(weights, name, x, seen):
    """By the batch's own mean and biased variance, or by given ones; epsilon inside the root."""
    if isinstance(seen, Running):
        mean, variance = (
            seen.given[name + each].view(1, -1, 1, 1) for each in (".mean", ".variance")
        )
        seen = ()
    else:
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
    for each in seen:
        each.update(name, mean.detach(), variance.detach(), x.numel() // x.shape[1])
    scale = weights[name + ".weight"].view(1, -1, 1, 1)
    shift = weights[name + ".bias"].view(1, -1, 1, 1)
    return (x - mean) / torch.sqrt(variance + facts.BATCH_NORM_EPSILON) * scale + shift


def conv_batch_norm(weights, seen, block, number, x, stride=1):
    kernel = weights["%sconv%d.weight" % (block, number)]
    x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
    return batch_norm(weights, "%sbn%d" % (block, number), x, seen)


def logits(weights, images, seen):
    """images (batch, 3, px, px) -> (batch, 1000)."""
    x = torch.relu(conv_batch_norm(weights, seen, "", 1, images, stride=2))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    block = 0
    for _, count, first_stride in facts.STAGES:
        for index in range(count):
            name, stride = "block%d." % block, first_stride if index == 0 else 1
            shortcut = conv_batch_norm(weights, seen, name, 4, x, stride) if index == 0 else x
            y = torch.relu(conv_batch_norm(weights, seen, name, 1, x))
            y = torch.relu(conv_batch_norm(weights, seen, name, 2, y, stride))  # v1.5: in the 3x3
            x = torch.relu(conv_batch_norm(weights, seen, name, 3, y) + shortcut)
            block += 1
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


def outputs(weights, statistics, batch, dimensions):
    """What an inference gives: the logits, (batch, 1000), by given running statistics."""
    return logits(weights, batch[0], Running(statistics))


def loss(weights, batch, seen, dimensions):
    """Mean over the batch of the cross-entropy against smoothed labels; `seen`: Statistics.

    Of a batch with `coefficients`, image and label i are c x_i + (1 - c) x_(n-1-i), c the i-th.
    """
    images, labels, *coefficients = batch
    targets = F.one_hot(labels, facts.CLASSES).to(images.dtype)
    targets = (1 - facts.LABEL_SMOOTHING) * targets + facts.LABEL_SMOOTHING / facts.CLASSES
    if coefficients:
        share = torch.from_numpy(next(*coefficients)).to(images.dtype)
        images, targets = (mixed(each, share) for each in (images, targets))
    log_shares = torch.log_softmax(logits(weights, images, seen), 1)
    return -(targets * log_shares).sum(1).mean()


def mixed(rows, share):
    """Each row with that of the other end, by its own share."""
    share = share.view(-1, *[1] * (rows.ndim - 1))
    return share * rows + (1 - share) * rows.flip(0)


def tensors(images, labels, *coefficients, dtype=torch.float64):
    """A NumPy batch, NCHW -> tensors; coefficients: an iterator of them, which stays."""
    return (torch.from_numpy(images).to(dtype), torch.from_numpy(labels).long(), *coefficients)


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    outputs=outputs,
    statistics=running_statistics(facts),
)
