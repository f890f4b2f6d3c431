"""Wide & Deep as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after the
other. Nothing here is fast, shared with an implementation, or chosen by a framework's default.
"""

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.formulas import dropout
from dlperf.workloads.wide_deep import facts


def dense(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def logits(weights, numbers, wide, deep):
    """numbers (batch, 13), wide (batch, 2), deep (batch, 26) -> (batch,)"""
    rows = weights["deep_embedding"][deep]  # (batch, 26, width)
    x = torch.cat([rows[:, field] for field in range(facts.FIELDS)] + [numbers], 1)
    layer = 0
    while "hidden%d.weight" % layer in weights:
        x = dropout(dense(weights, "hidden%d" % layer, x).clamp(min=0), facts.DROPOUT)
        layer += 1
    crosses = weights["wide_embedding"][wide]  # (batch, 2, 1)
    return dense(weights, "output", x)[:, 0] + crosses[:, 0, 0] + crosses[:, 1, 0]


def outputs(weights, statistics, batch, dimensions):
    """What a test gives: the logits, (batch,)."""
    return logits(weights, *batch[:3])


def loss(weights, batch, dimensions):
    """The mean over the batch of -log p of the label, p = 1 / (1 + exp(-logit))."""
    numbers, wide, deep, labels = batch
    x = logits(weights, numbers, wide, deep)
    zero = torch.zeros_like(x)
    return (labels * torch.logaddexp(zero, -x) + (1 - labels) * torch.logaddexp(zero, x)).mean()


def tensors(numbers, wide, deep, labels, dtype=torch.float64):
    """A NumPy batch (workloads/wide_deep/input.py) -> tensors."""
    numbers, labels = (torch.from_numpy(each).to(dtype) for each in (numbers, labels))
    return numbers, torch.from_numpy(wide).long(), torch.from_numpy(deep).long(), labels


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    outputs=outputs,
)
