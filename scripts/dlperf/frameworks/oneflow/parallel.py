"""A model split by tensors in OneFlow: weights and activations as global tensors, placement x SBP.

Ranks are a grid of replicas and of the ranks of a tensor group. What a rank has of each weight is
what the facts say; OneFlow exchanges what lies between, where `enter` and `leave` say so (Shoeybi
et al. 2019, section 3).
"""

import numpy as np
import oneflow as flow
from oneflow import nn

from dlperf import workloads
from dlperf.contract.work import as_array
from dlperf.contract.work import parts as pieces


def is_split(run):
    return run.mesh.tensor > 1


def placement(run):
    """All ranks, in a grid where the model is split."""
    ranks = np.arange(run.ranks)
    if is_split(run):
        ranks = ranks.reshape(run.mesh.data, run.mesh.tensor)
    return flow.placement(run.device, ranks=ranks.tolist())


def rows(run):
    """The SBP of what replicas have different rows of, and a tensor group has whole."""
    first = flow.sbp.split(0)
    return [first, flow.sbp.broadcast] if is_split(run) else first


def enter(run):
    """What stands before a product whose weight is divided by outputs: its gradients are summed."""
    return lambda x: x.to_global(grad_sbp=rows(run)) if is_split(run) else x


def leave(run):
    """What stands behind a product whose weight is divided by inputs: its results are summed."""
    return lambda x: x.to_global(sbp=rows(run)) if is_split(run) else x


def divide(run, network, names):
    """The network with its parameters divided as the facts say. names: own -> canonical."""
    tensors = workloads.of(run.workload).parameters(run.dimensions)
    grid, whole = placement(run), [flow.sbp.broadcast] * 2
    for prefix, module in network.named_modules():
        for own, parameter in module._parameters.items():
            if parameter is None:
                continue
            tensor = tensors[names(prefix + "." + own if prefix else own)]
            over = flow.sbp.broadcast if tensor.axis is None else flow.sbp.split(tensor.axis)
            value = flow.zeros(
                *tensor.shape,
                dtype=parameter.dtype,
                placement=grid,
                sbp=[flow.sbp.broadcast, over],
            )
            module._parameters[own] = nn.Parameter(value)
        for own, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[own] = buffer.to_global(placement=grid, sbp=whole)
    return network


def sum_gradients(network):
    """Gradients as the parameters are: those of replicas summed."""
    for parameter in network.parameters():
        parameter.grad = parameter.grad.to_global(sbp=parameter.sbp)


class Split:
    """What this rank has of the tensors that a group divides: `parts`, by canonical name.

    What the canonical tensor has in blocks (query, key and value), a layer has head by head, so
    that a rank's heads follow each other.
    """

    def __init__(self, run):
        self.tensors = workloads.of(run.workload).parameters(run.dimensions)
        self.parts = {each.name: each for each in workloads.parts_of(run) if not each.is_whole}
        self.heads = run.dimensions["heads"] // run.mesh.tensor

    def read(self, name, own):
        """(the Part or the name, the rank's own array in canonical order)"""
        blocks = self.tensors[name].blocks
        if blocks > 1:
            own = reordered(own, self.heads, blocks)
        return self.parts.get(name, name), own

    def write(self, name, parameter, given):
        """Write a rank's part of a canonical array, or of a Table, into a global parameter."""
        own = parameter.detach().to_local()
        given = self.parts[name].of(given) if name in self.parts else given
        blocks = self.tensors[name].blocks
        if blocks > 1:
            given = reordered(as_array(given), blocks, self.heads)
        for first, last, rows in pieces(given):
            own[first:last].copy_(flow.tensor(np.ascontiguousarray(rows), dtype=own.dtype))


def reordered(array, outer, inner):
    """Rows that lie as (outer, inner, width of a head), as (inner, outer, width of a head)."""
    rows = array.reshape(outer, inner, -1, *array.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(0, 1)).reshape(array.shape)
