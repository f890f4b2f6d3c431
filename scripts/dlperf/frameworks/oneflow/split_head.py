"""A softmax over many classes whose weights ranks share out, in OneFlow: the pieces of a head.

Global tensors, as OneFlow's own users have them: the classes' rows are split(0), so that scores are
split(1), and each rank has its own classes' columns. In a graph all of the network is global; in
eager mode the backbone is local, and its features become global here. There a rank's rows are
differentiated by themselves (`Classes`): DistributedDataParallel would average them.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.contract.work import Table
from dlperf.frameworks.oneflow import parallel, sparse
from dlperf.frameworks.oneflow import training as framework

NOBODY = -1  # the class of a row that stands for none
NEVER = -1e30  # what its scores get


class SampledBlock(sparse.PaddedBlock):
    """A rank's block of rows that steps sample: as DistributedDataParallel sends a first rank's
    parameters to all others, each rank has as many; what stands behind its own is never taken."""

    def own(self, array):
        return self.part.of(array) if isinstance(array, Table) else super().own(array)


class Classes(nn.Module):
    """The classes' rows, without values yet: of a Tensor all of them, or a rank's block.

    sampled: whether a step takes some of the rows. Then, and where ranks share the rows out in
    eager mode, `lookups` are the rows taken since the last update: their numbers (None: all), and
    the rows, with which the backward pass leaves a gradient.
    """

    def __init__(self, run, name, tensor, sampled):
        super().__init__()
        self.run, self.sampled = run, sampled
        self.is_split = run.distributed and tensor.axis is not None
        block = SampledBlock if sampled else sparse.PaddedBlock
        self.shard = block(run, name, tensor) if self.is_split else None
        shape = self.shard.shape if self.is_split else tensor.shape
        self.count = tensor.shape[0]
        self.first = self.shard.first if self.is_split else 0
        self.held = self.shard.held if self.is_split else shape[0]
        by_itself = sampled or (self.is_split and run.compiler == "none")
        self.weight = nn.Parameter(flow.empty(*shape), requires_grad=not by_itself)
        self.by_itself, self.lookups = by_itself, []

    def spread(self):
        """In a graph: make a global tensor of all ranks' rows, which `place` made one of copies."""
        if self.is_split and self.run.compiler == "graph":
            shape = (self.run.ranks * self.shard.block, self.shard.width)
            where = dict(placement=parallel.placement(self.run), sbp=flow.sbp.split(0))
            self.weight = nn.Parameter(flow.zeros(*shape, dtype=self.weight.dtype, **where))

    def forward(self, chosen=None):
        """(rows, a class for each): those that a step takes, global where ranks share them out.

        chosen: the numbers of the rank's own rows, sorted; all if it is None.
        """
        if chosen is not None:
            return self._taken(chosen)
        rows = self.weight
        if not self.is_split:
            return rows, flow.arange(self.count, **_like(rows, flow.sbp.broadcast))
        if self.by_itself:
            rows = rows.detach().requires_grad_()
            self.lookups.append((None, rows))
            rows = rows.to_global(parallel.placement(self.run), flow.sbp.split(0))
        classes = flow.arange(rows.shape[0], **_like(rows, flow.sbp.split(0)))
        if rows.shape[0] > self.count:
            classes = flow.where(classes < self.count, classes, flow.full_like(classes, NOBODY))
        return rows, classes

    def _taken(self, chosen):
        rows = flow._C.gather(self.weight, chosen, axis=0).requires_grad_()
        self.lookups.append((chosen, rows))
        classes = chosen + self.first
        if not self.is_split:
            return rows, classes
        # a global tensor has as many rows on each rank: those with fewer add some of nobody
        more = self._most(chosen.shape[0]) - chosen.shape[0]
        if more:
            nothing = flow.zeros(more, rows.shape[1], dtype=rows.dtype, device=rows.device)
            rows = flow.cat([rows, nothing])
            nobody = flow.full((more,), NOBODY, dtype=classes.dtype, device=classes.device)
            classes = flow.cat([classes, nobody])
        where = parallel.placement(self.run), flow.sbp.split(0)
        return rows.to_global(*where), classes.to_global(*where)

    def _most(self, own):
        """The most rows that a rank takes."""
        counts = flow.tensor([own], device=self.weight.device)
        every = flow.empty(self.run.ranks, dtype=counts.dtype, device=counts.device)
        flow.comm.all_gather_into_tensor(every, counts)
        return int(every.max())


def _like(tensor, sbp):
    """Where a new tensor is to be, beside this one."""
    if tensor.is_global:
        return dict(placement=tensor.placement, sbp=sbp)
    return dict(device=tensor.device)


def gathered(run, features, labels):
    """(features, labels) of all replicas on each, as global tensors; in a graph they are.

    The features' gradients are summed over ranks.
    """
    rows, everywhere = flow.sbp.split(0), flow.sbp.broadcast
    if not features.is_global:
        features, labels = (
            each.to_global(parallel.placement(run), rows) for each in (features, labels)
        )
    return features.to_global(sbp=everywhere, grad_sbp=rows), labels.to_global(sbp=everywhere)


def summed_over_ranks(values):
    """Sums over the classes, which are of each rank's own, as those of all."""
    if not values.is_global or values.sbp[0] == flow.sbp.split(0):
        return values  # of a rank's own batch
    return values.to_global(sbp=flow.sbp.broadcast, grad_sbp=flow.sbp.broadcast)


def cross_entropy(run, scores, numbers, labels, target):
    """The mean over all rows of scores (batch, classes), split(1) where ranks share classes out.

    numbers: the classes; target: (batch, 1), the score of each row's own class. In eager mode its
    gradient is that of the sum of all ranks' losses, of which each has the mean: what is averaged
    over ranks comes out right, and `SGD` divides that of shared rows.
    """
    if not numbers.is_global:
        top = scores.detach().amax(1, keepdim=True)
        return (top + (scores - top).exp().sum(1, keepdim=True).log() - target).mean()
    if numbers.sbp[0] != flow.sbp.split(0):
        return F.cross_entropy(scores, labels)
    scores = scores + NEVER * (numbers < 0).to(scores.dtype).unsqueeze(0)
    if run.compiler == "graph":
        return F.cross_entropy(scores, labels)
    # In eager mode OneFlow's own takes a rank's columns for all of them: its loss is wrong.
    largest = scores.detach().to_local().amax(1, keepdim=True)
    largest = largest.to_global(scores.placement, flow.sbp.split(1))
    top = largest.to_global(sbp=flow.sbp.broadcast).amax(1, keepdim=True)
    total = summed_over_ranks((scores - top).exp().sum(1, keepdim=True))
    return (top + total.log() - target).mean().to_local()


def sampled(count, rows, places):
    """`rows` of `count` ones, sorted: all that `places` name, and others at random.

    places: (batch,), below 0 for none. More than `rows` where places name more.
    """
    keys = flow.rand(count + 1, device=places.device)
    # what names none goes to one more, which is cut off
    keys[flow.where(places >= 0, places, flow.full_like(places, count))] = 2.0
    keys = keys[:count]
    if len(places) > rows:  # only then does the host wait for the number of them
        rows = max(rows, int((keys == 2.0).sum()))
    return flow.sort(flow.topk(keys, rows)[1])[0]


def optimizer(run, parameters, classes, **settings):
    """SGD of a network's parameters, those of `Classes` among them."""
    if run.compiler == "graph":
        return flow.optim.SGD(parameters, **settings)
    return SGD(run, parameters, classes, fused=run.cuda, **settings)


class SGD(flow.optim.SGD):
    """Momentum and weight decay of all parameters; of sampled `Classes`, of the rows taken.

    v = momentum v + g + decay w; w -= rate v. Other rows rest, momentum, decay and all. In float64
    OneFlow's own kernel has momentum as float32, which five steps show, so all is written out.
    """

    def __init__(self, run, parameters, classes, momentum, weight_decay, **settings):
        dense = [p for p in parameters if not classes.sampled or p is not classes.weight]
        super().__init__(dense, momentum=momentum, weight_decay=weight_decay, **settings)
        self.dense, self.classes = dense, classes
        self.momentum, self.decay, self.is_exact = momentum, weight_decay, run.float64
        # whose sum the gradient of shared rows is of
        self.losses = run.ranks if classes.is_split else 1
        self.velocity = flow.zeros_like(classes.weight) if classes.sampled else None
        self.velocities = [flow.zeros_like(each) for each in dense] if run.float64 else []

    def give(self, parameter, ids, rows):
        """The gradient of the next update: rows of ids, some of which may be the same."""
        ids, rows = sparse.summed(ids, rows)
        looked_up = flow.zeros_like(rows)
        looked_up.grad = rows
        self.classes.lookups.append((ids, looked_up))

    @flow.no_grad()
    def step(self, closure=None):
        rate, taken = self.param_groups[0]["lr"], self.classes.lookups
        if taken and not self.classes.sampled:
            [(_, rows)] = taken
            self.classes.weight.grad = rows.grad / self.losses
        if self.is_exact:
            for weight, velocity in zip(self.dense, self.velocities):
                velocity.mul_(self.momentum).add_(weight.grad + self.decay * weight)
                weight.sub_(rate * velocity)
        else:
            super().step(closure)
        if self.classes.sampled:
            [(ids, rows)] = taken
            self._update_rows(ids, rows.grad / self.losses, rate)
        taken.clear()

    def forget(self):
        """As before the first step."""
        framework.forget(self)
        sampled = [self.velocity] if self.classes.sampled else []
        for velocity in sampled + self.velocities:
            velocity.zero_()

    def _update_rows(self, ids, gradient, rate):
        weight = self.classes.weight
        # index_add_ is the one write of rows whose time does not grow with the table's
        before = flow._C.gather(self.velocity, ids, axis=0)
        decayed = flow._C.gather(weight, ids, axis=0) * self.decay
        moved = before * self.momentum + gradient + decayed
        self.velocity.index_add_(0, ids, moved - before)
        weight.index_add_(0, ids, moved, alpha=-rate)
