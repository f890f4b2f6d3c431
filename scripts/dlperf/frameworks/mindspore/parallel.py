"""A model split by tensors in MindSpore: each rank has plain parameters of its own parts.

What Megatron-LM does between the parts of a tensor group (Shoeybi et al. 2019, section 3) stands
here as cells, whose backward passes say themselves what ranks exchange: on a CPU MindSpore refuses
semi_auto_parallel, and has no point-to-point operator that a pipeline could be made of.
"""

from typing import NamedTuple

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import GlobalComm, create_group

from dlperf import workloads
from dlperf.contract.mesh import DATA, TENSOR
from dlperf.contract.run import Unsupported
from dlperf.frameworks.mindspore.adam import Norm, sum_of_squares

_created = set()


class Group(NamedTuple):
    """Ranks along an axis of the mesh: how many, which of them this one is, MindSpore's name."""

    size: int = 1
    index: int = 0
    name: str = ""


#: The tensor group of a model that is not split.
ALONE = Group()


def is_split(run):
    return run.mesh.tensor > 1


def refuse(run):
    """Raise Unsupported for a split model in mixed precision, which is float16 in MindSpore."""
    if is_split(run) and run.amp:
        raise Unsupported("ranks of a split model do not agree on which steps overflow float16")


def parts(run):
    """Canonical name -> Part of what this rank has of each tensor that a tensor group divides."""
    if not is_split(run):
        return {}
    return {each.name: each for each in workloads.parts_of(run) if not each.is_whole}


def group(run, axis):
    """This rank's Group along an axis of the mesh."""
    members = run.mesh.group(run.rank, axis)
    if len(members) == 1:
        return ALONE
    name = GlobalComm.WORLD_COMM_GROUP
    if len(members) < run.ranks:
        name = "%s-%d" % (axis, members[0])
        if name not in _created:
            create_group(name, members)
            _created.add(name)
    return Group(len(members), members.index(run.rank), name)


def tensor_group(run):
    return group(run, TENSOR)


def gradient_reducer(run, parameters):
    """The cell that averages gradients over replicas; None where there is one alone."""
    if not run.distributed or run.data_parallel == 1:
        return None
    if not is_split(run):
        return nn.DistributedGradReducer(parameters, mean=True, degree=run.ranks)
    replicas = group(run, DATA)
    settings = {"degree": replicas.size, "group": replicas.name}
    return nn.DistributedGradReducer(parameters, mean=True, **settings)


class Enter(nn.Cell):
    """What each rank has, before its own part of a product; its gradient is the ranks' sum."""

    def __init__(self, tensors):
        super().__init__()
        self.sum = ops.AllReduce(group=tensors.name)

    def construct(self, x):
        return x

    def bprop(self, x, out, gradient):
        return (self.sum(gradient),)


class Leave(nn.Cell):
    """The sum of the ranks' parts of a product; each rank has its gradient."""

    def __init__(self, tensors):
        super().__init__()
        self.sum = ops.AllReduce(group=tensors.name)

    def construct(self, x):
        return self.sum(x)

    def bprop(self, x, out, gradient):
        return (gradient,)


def enter(tensors):
    return nn.Identity() if tensors.size == 1 else Enter(tensors)


def leave(tensors):
    return nn.Identity() if tensors.size == 1 else Leave(tensors)


class HeadsDropout(nn.Dropout):
    """Dropout of what is of a rank's own heads: others are dropped on each rank of a tensor group.

    Of all else these ranks drop the same (transformer.prepared).
    """


class LookedUp(nn.Cell):
    """The rows of ids, of a table (entries / ranks, width)."""

    def __init__(self, tensors):
        super().__init__()
        self.tensors, self.leave = tensors, leave(tensors)

    def construct(self, table, ids):
        if self.tensors.size == 1:
            return ops.gather(table, ids, 0)
        ids, is_own = own_entries(ids, self.tensors.index, table.shape[0])
        rows = ops.gather(table, ids, 0)
        return self.leave(rows * is_own.astype(rows.dtype).expand_dims(-1))


class MeanCrossEntropy(nn.Cell):
    """The mean of rows' cross-entropies, of scores (rows, entries / ranks) and labels."""

    def __init__(self, tensors):
        super().__init__()
        self.tensors, self.leave = tensors, Leave(tensors)
        # on a CPU AllReduce knows sums alone, and AllGather all ranks alone: so each rank's largest
        # scores have a row of their own in a sum
        place = np.arange(tensors.size) == tensors.index
        self.place = ms.Tensor(place.astype(np.float32).reshape(-1, 1))

    def construct(self, scores, labels):
        largest = ops.stop_gradient(scores.max(axis=-1))
        largest = self.leave(self.place * largest).max(axis=0)
        scores = scores - ops.stop_gradient(largest).expand_dims(-1)
        labels, is_own = own_entries(labels, self.tensors.index, scores.shape[-1])
        hits = ops.gather_elements(scores, 1, labels.expand_dims(-1)).reshape(-1)
        # both sums by one exchange
        pair = ops.stack((ops.exp(scores).sum(-1), hits * is_own.astype(hits.dtype)))
        pair = self.leave(pair)
        return (ops.log(pair[0]) - pair[1]).mean()


def own_entries(ids, index, count):
    """(ids among a rank's own `count` entries, whether each is): of others, the id is 0."""
    ids = ids - index * count
    is_own = ops.logical_and(ids >= 0, ids < count)
    return ops.select(is_own, ids, ops.zeros_like(ids)), is_own


class NormOverRanks(nn.Cell):
    """The norm of all gradients of a split model, each value counted once.

    divided: of each gradient, whether the tensor group divides it.
    """

    def __init__(self, tensors, divided):
        super().__init__()
        # what all ranks have, each of them counts a share of
        self.shares = tuple(1.0 if each else 1.0 / tensors.size for each in divided)
        self.sum, self.map = ops.AllReduce(group=tensors.name), ops.HyperMap()

    def construct(self, gradients):
        squares = self.map(ops.mul, self.map(sum_of_squares, gradients), self.shares)
        return ops.sqrt(self.sum(ops.addn(squares).reshape((1,))))[0]


def norm(run, named, parameters):
    """The cell that a clip takes the norm of gradients by. named: canonical name -> parameter."""
    if not is_split(run):
        return Norm()
    names = {id(parameter): name for name, parameter in named.items()}
    divided = parts(run)
    return NormOverRanks(tensor_group(run), [names[id(each)] in divided for each in parameters])
