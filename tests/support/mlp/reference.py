"""The MLP as plain formulas."""

import torch
import torch.nn.functional as F

from dlperf.contract.reference import Reference


def tensors(images, labels, dtype=torch.float64):
    return torch.from_numpy(images).to(dtype), torch.from_numpy(labels).long()


def loss(weights, batch, dimensions):
    images, labels = batch
    x = images.permute(0, 2, 3, 1).flatten(1)  # rows, columns, colours
    x = torch.relu(x @ weights["hidden.weight"].T + weights["hidden.bias"])
    return F.cross_entropy(x @ weights["output.weight"].T + weights["output.bias"], labels)


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
)
