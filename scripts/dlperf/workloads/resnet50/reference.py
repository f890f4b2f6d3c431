"""ResNet-50 v1.5 as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other. Nothing here is fast, shared with an implementation, or chosen by a framework's default.
"""

import torch
import torch.nn.functional as F

from dlperf.workloads.resnet50 import facts


def batch_norm(weights, name, x):
    """By the batch's own mean and biased variance; epsilon inside the root."""
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
    scale = weights[name + ".weight"].view(1, -1, 1, 1)
    shift = weights[name + ".bias"].view(1, -1, 1, 1)
    return (x - mean) / torch.sqrt(variance + facts.BATCH_NORM_EPSILON) * scale + shift


def conv_batch_norm(weights, block, number, x, stride=1):
    kernel = weights["%sconv%d.weight" % (block, number)]
    x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
    return batch_norm(weights, "%sbn%d" % (block, number), x)


def logits(weights, images):
    """images (batch, 3, px, px) -> (batch, 1000)."""
    x = torch.relu(conv_batch_norm(weights, "", 1, images, stride=2))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    block = 0
    for _, count, first_stride in facts.STAGES:
        for index in range(count):
            name, stride = "block%d." % block, first_stride if index == 0 else 1
            shortcut = conv_batch_norm(weights, name, 4, x, stride) if index == 0 else x
            y = torch.relu(conv_batch_norm(weights, name, 1, x))
            y = torch.relu(conv_batch_norm(weights, name, 2, y, stride))  # v1.5: in the 3x3
            x = torch.relu(conv_batch_norm(weights, name, 3, y) + shortcut)
            block += 1
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


def loss(weights, batch):
    """Mean over the batch of the cross-entropy against smoothed labels."""
    images, labels = batch
    log_shares = torch.log_softmax(logits(weights, images), 1)
    hit = log_shares.gather(1, labels[:, None])[:, 0]
    smoothing = facts.LABEL_SMOOTHING
    return -((1 - smoothing) * hit + smoothing * log_shares.mean(1)).mean()


def tensors(images, labels, dtype=torch.float64):
    """A NumPy batch, NCHW -> tensors."""
    return torch.from_numpy(images).to(dtype), torch.from_numpy(labels).long()
