"""A model that is split in OneFlow: weights and activations as global tensors, placement x SBP.

The ranks of a stage are a grid of replicas and of the ranks of a tensor group. What a rank has of
each weight is what the facts say; OneFlow exchanges what lies between, where `enter` and `leave`
say so (Shoeybi et al. 2019, section 3), and from stage to stage. All ranks run one program, in
which a rank computes what is placed on it: all forward passes of an update, then all backward
passes (GPipe, Huang et al. 2019).
"""

import numpy as np
import oneflow as flow
from oneflow import nn

from dlperf import workloads
from dlperf.contract.work import as_array
from dlperf.contract.work import parts as pieces
from dlperf.frameworks.oneflow.clip import squares


def is_split(run):
    return run.mesh.is_split


def placement(run, stage=0):
    """All ranks of a stage, in a grid where the model is split."""
    ranks, grid = np.arange(run.ranks), run.mesh
    if is_split(run):
        ranks = ranks.reshape(grid.pipeline, grid.data, grid.tensor)[stage]
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


class AtStage(nn.Module):
    """What a stage has that is no layer of the model's: it is placed there."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage


class Mask(AtStage):
    """Which tokens one sees, for all layers of a stage: those before it, and itself."""

    def __init__(self, stage, tokens):
        super().__init__(stage)
        self.register_buffer("seen", flow.tril(flow.ones(tokens, tokens)))


class Tied(AtStage):
    """The last stage's own copy of a table that the first one has."""

    def __init__(self, stage, entries, width):
        super().__init__(stage)
        self.weight = nn.Parameter(flow.empty(entries, width))


def divide(run, network, names):
    """The network with its parameters divided and placed as the facts say.

    names: own -> canonical.
    """
    tensors = workloads.of(run.workload).parameters(run.dimensions)
    stages = workloads.stages(run.workload, run.dimensions, run.mesh.pipeline)
    whole = [flow.sbp.broadcast] * 2
    for prefix, module in network.named_modules():
        stage = module.stage if isinstance(module, AtStage) else 0
        for own, parameter in module._parameters.items():
            if parameter is None:
                continue
            name = names(prefix + "." + own if prefix else own)
            tensor = tensors[name]
            stage = stage or stages[name][0]
            over = flow.sbp.broadcast if tensor.axis is None else flow.sbp.split(tensor.axis)
            value = flow.zeros(
                *tensor.shape,
                dtype=parameter.dtype,
                placement=placement(run, stage),
                sbp=[flow.sbp.broadcast, over],
            )
            module._parameters[own] = nn.Parameter(value)
        for own, buffer in module._buffers.items():
            if buffer is not None:
                there = placement(run, stage)
                module._buffers[own] = buffer.to_global(placement=there, sbp=whole)
    return network


def placed_here(run, named):
    """Those of pairs of name and parameter that this rank has something of."""
    for name, parameter in named:
        if not parameter.is_global or parameter.to_local().numel():
            yield name, parameter


def at_stage(run, stage, x):
    """Activations, sent to the ranks of a stage."""
    return x.to_global(placement=placement(run, stage), sbp=rows(run))


def batch_over_ranks(run, batch):
    """A batch's arrays: the inputs at the first stage, the labels, which come last, at the last."""
    stages = [0] * (len(batch) - 1) + [run.mesh.pipeline - 1]
    # check_meta=False: the ranks need not agree on shapes in every step
    return [
        each.to_global(placement(run, stage), rows(run), check_meta=False)
        for stage, each in zip(stages, batch)
    ]


def own_loss(run, value):
    """A loss as this rank has it: None where it is of another stage."""
    if run.coordinates.pipeline < run.mesh.pipeline - 1:
        return None
    return value.to_global(sbp=[flow.sbp.broadcast] * 2).to_local().mean().item()


def sum_gradients(network):
    """Gradients as the parameters are: those of replicas summed, and of both copies of a table."""
    for parameter in network.parameters():
        parameter.grad = parameter.grad.to_global(sbp=parameter.sbp)
    for one, other in tied(network):
        both = one.grad + other.grad.to_global(placement=one.placement, sbp=one.sbp)
        one.grad = both
        other.grad = both.to_global(placement=other.placement, sbp=other.sbp)


def tied(network):
    """The pairs of parameters that are copies of one tensor."""
    copies = [each for each in network.modules() if isinstance(each, Tied)]
    return [(network.word_embedding.weight, each.weight) for each in copies]


def clip_over_stages(network, parameters):
    """A clip as clip.clip is one, of gradients of these parameters, over all stages."""
    copies = {id(copy) for _, copy in tied(network)}
    counted = [id(each) not in copies for each in parameters]
    whole = [flow.sbp.broadcast] * 2

    def clip(gradients, most):
        first = gradients[0].placement
        with flow.no_grad():
            # a stage's own sum first, then one number of each stage
            stages = {}
            for gradient, is_counted in zip(gradients, counted):
                if is_counted:
                    own = stages.setdefault(str(gradient.placement), [])
                    own.append(squares(gradient).to_global(sbp=whole))
            sums = [flow.stack(own).sum().to_global(placement=first) for own in stages.values()]
            scale = (most / flow.stack(sums).sum().sqrt()).clamp(max=1.0)
            scales = {}
            for gradient in gradients:
                there = str(gradient.placement)
                if there not in scales:
                    scales[there] = scale.to_global(placement=gradient.placement, sbp=whole)
                gradient.mul_(scales[there])

    return clip


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
