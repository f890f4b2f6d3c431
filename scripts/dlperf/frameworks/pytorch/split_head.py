"""A softmax over many classes whose weights ranks share out, in PyTorch: the pieces of a head.

Each replica has a block of the classes' rows (`RowBlock`). `gathered` brings the features of all
replicas to each, `cross_entropy` is that of scores of which each rank has its own classes' columns,
`taken` takes some rows with a sparse gradient, and `SGD` has momentum and decay of such rows alone.
A row's gradient is that of the mean loss over the global batch, and is never averaged:
`stay_apart` keeps it from DistributedDataParallel.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlperf.contract.run import Unsupported
from dlperf.contract.shards import RowBlock
from dlperf.frameworks import half
from dlperf.frameworks.pytorch import sparse


def weight(run, name, tensor):
    """The parameter of a classes' Tensor, without values yet; a rank's rows where it is divided."""
    if tensor.axis is None:
        return nn.Parameter(torch.empty(tensor.shape))
    if run.amp and half(run) == "float16":
        raise Unsupported("ranks of a split head do not agree on which steps overflow float16")
    rows = RowBlock(run, name, tensor)
    parameter = nn.Parameter(torch.empty(rows.shape))
    parameter.shard = rows
    return parameter


def first_row(parameter):
    """The number of the class that a rank's first row is of."""
    shard = getattr(parameter, "shard", None)
    return shard.first if shard else 0


def stay_apart(run, network, names):
    """Keep these parameters of a network, by their names in it, from being averaged over ranks.

    They must be those of a module within it: DistributedDataParallel overlooks its own.
    """
    if run.distributed:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, list(names))


def gathered(run, features):
    """All replicas' features, those of rank 0 first. Their gradients are added up over ranks, and
    multiplied by how many there are, as DistributedDataParallel averages what comes of them."""
    return Gather.apply(features, run.ranks) if run.distributed else features


def gathered_labels(run, labels):
    """All replicas' labels in the same order."""
    return sparse.gathered(run, labels) if run.distributed else labels


class Gather(torch.autograd.Function):
    """See `gathered`."""

    @staticmethod
    def forward(ctx, features, ranks):
        ctx.ranks = ranks
        together = features.new_empty(ranks * len(features), *features.shape[1:])
        dist.all_gather_into_tensor(together, features.contiguous())
        return together

    @staticmethod
    def backward(ctx, gradient):
        own = gradient.new_empty(len(gradient) // ctx.ranks, *gradient.shape[1:])
        dist.reduce_scatter_tensor(own, gradient.contiguous())
        return own * ctx.ranks, None


def cross_entropy(run, scores, places, is_split):
    """The mean over all rows of scores, of which each rank has some columns if `is_split`.

    scores: (batch, a rank's classes). places: (batch,), the column of a row's own class; below 0
    where another rank has it.
    """
    return CrossEntropy.apply(scores, places, run.ranks if is_split else 1)


class CrossEntropy(torch.autograd.Function):
    """See `cross_entropy`. Ranks exchange three numbers a row, once."""

    @staticmethod
    def forward(ctx, scores, places, ranks):
        is_own, column = (places >= 0)[:, None], places.clamp(min=0)[:, None]
        target = torch.where(is_own, scores.gather(1, column), 0.0)[:, 0]
        largest = scores.amax(1)
        shares = (scores - largest[:, None]).exp_()
        total = shares.sum(1)
        if ranks > 1:
            found = torch.stack([largest, total, target])
            together = found.new_empty(ranks, *found.shape)
            dist.all_gather_into_tensor(together.flatten(0, 1), found)
            tops, totals, targets = together.unbind(1)
            top = tops.amax(0)
            total = (totals * (tops - top).exp()).sum(0)
            target = targets.sum(0)
            total_at_own = total * (top - largest).exp()
        else:
            top, total_at_own = largest, total
        shares /= total_at_own[:, None]
        ctx.save_for_backward(shares, column, is_own)
        return (top + total.log() - target).mean()

    @staticmethod
    def backward(ctx, gradient):
        shares, column, is_own = ctx.saved_tensors
        less = shares.scatter_add(1, column, -is_own.to(shares.dtype))
        return less.mul_(gradient / len(less)), None, None


def taken(parameter, rows):
    """Some rows of a parameter, sorted, each once; its gradient is sparse, of these rows alone."""
    return Take.apply(parameter, rows)


class Take(torch.autograd.Function):
    """See `taken`."""

    @staticmethod
    def forward(ctx, parameter, rows):
        ctx.parameter = parameter
        ctx.save_for_backward(rows)
        return parameter.index_select(0, rows)

    @staticmethod
    def backward(ctx, gradient):
        (rows,) = ctx.saved_tensors
        shape = ctx.parameter.shape
        return torch.sparse_coo_tensor(
            rows[None], gradient, shape, is_coalesced=True, check_invariants=False
        ), None


def sampled(count, rows, places):
    """`rows` of `count` ones, sorted: all that `places` name, and others at random.

    places: (batch,), below 0 for none. More than `rows` where places name more.
    """
    keys = torch.rand(count + 1, device=places.device)
    # what names none goes to one more, which is cut off
    keys.index_fill_(0, places.where(places >= 0, count), 2.0)  # an assignment waits for the host
    keys = keys[:count]
    if len(places) > rows:  # only then does the host wait for the number of them
        rows = max(rows, int((keys == 2.0).sum()))
    return keys.topk(rows, sorted=False).indices.sort().values


class SGD(torch.optim.Optimizer):
    """Momentum and weight decay of all parameters, fused; of `tables`, of rows with a gradient.

    v = momentum v + g + decay w; w -= rate v. tables: parameters with sparse gradients, whose other
    rows rest: momentum, decay and all.
    """

    def __init__(self, parameters, tables, lr, momentum, weight_decay):
        parameters, tables = list(parameters), list(tables)
        settings = dict(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__([{"params": each} for each in (parameters, tables) if each], settings)
        self.dense = torch.optim.SGD(parameters, fused=True, **settings)
        # Else the first step makes them, uninitialised where it overflows and is skipped.
        for parameter in parameters:
            self.dense.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.velocities = [(table, torch.zeros_like(table)) for table in tables]

    @torch.no_grad()
    def step(self):
        rate = self.param_groups[0]["lr"]  # a schedule sets that of the groups
        self.dense.param_groups[0]["lr"] = rate
        self.dense.step()
        momentum, decay = self.defaults["momentum"], self.defaults["weight_decay"]
        for table, velocity in self.velocities:
            ids, rows = table.grad._indices()[0], table.grad._values()
            if not table.grad.is_coalesced():  # those of `taken` are
                ids, rows = sparse.summed(ids, rows)
            values = table.index_select(0, ids)
            moved = velocity.index_select(0, ids).mul_(momentum)
            moved.add_(rows).add_(values, alpha=decay)
            velocity.index_copy_(0, ids, moved)
            table.index_copy_(0, ids, values.sub_(moved, alpha=rate))

    def forget(self):
        """As before the first step."""
        states = [state.values() for state in self.dense.state.values()]
        for each in itertools.chain(*states, (velocity for _, velocity in self.velocities)):
            each.zero_()
