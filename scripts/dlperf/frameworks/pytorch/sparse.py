"""Tables of which a step touches some rows, in PyTorch: their gradients, and Adam of those rows.

A table is an `nn.Embedding` with `sparse=True`: its gradient has the ids of a batch, duplicates and
all, and a row of numbers for each. A step takes no time for rows that it does not touch. A table
that ranks share out (`Sharded`) has such a gradient of a rank's own part.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlperf.contract.run import Unsupported
from dlperf.contract.shards import COLUMNS
from dlperf.frameworks import half


def table(rows, width, lazy):
    """An embedding, with sparse gradients where it is lazy, without weights yet."""
    found = nn.utils.skip_init(nn.Embedding, rows, width, sparse=lazy)
    if lazy:  # Inductor has no sparse gradients (torch 2.13): it compiles what comes behind
        found.forward = torch.compiler.disable(found.forward)
    return found


class Sharded(nn.Module):
    """A table of which each rank has a part (contract/shards.py), without weights yet."""

    def __init__(self, run, shard):
        super().__init__()
        if run.amp and half(run) == "float16":
            raise Unsupported("ranks of sharded tables do not agree on which steps overflow")
        self.run, self.weight = run, nn.Parameter(torch.empty(shard.shape))
        self.weight.shard = shard

    @torch.compiler.disable  # as `table` says
    def forward(self, ids):
        return Lookup.apply(self.weight, ids, self.run)


class Lookup(torch.autograd.Function):
    """The rows of a rank's ids, of which each rank has a part; the gradient goes the way back."""

    @staticmethod
    def forward(ctx, weight, ids, run):
        shard = weight.shard
        everyone, mine = gathered(run, ids.flatten()), None
        if shard.by != COLUMNS:
            everyone = everyone - shard.first
            mine = (everyone >= 0) & (everyone < shard.block)
            everyone = everyone.where(mine, shard.block)
        ctx.run, ctx.weight, ctx.ids, ctx.mine = run, weight, everyone, mine
        rows = to_and_fro(weight.index_select(0, everyone).view(run.ranks, ids.numel(), -1))
        rows = rows.transpose(0, 1) if shard.by == COLUMNS else rows.sum(0)
        return rows.reshape(*ids.shape, shard.width)

    @staticmethod
    def backward(ctx, gradient_of_rows):
        run, shard = ctx.run, ctx.weight.shard
        rows = gradient_of_rows.reshape(len(ctx.ids) // run.ranks, -1, ctx.weight.shape[1])
        rows = rows.transpose(0, 1).expand(run.ranks, -1, -1)  # by rows, all get the same
        rows = to_and_fro(rows.contiguous()).flatten(0, 1) / run.ranks  # losses are means
        if shard.by != COLUMNS:
            rows = rows * ctx.mine[:, None]
        return gradient(ctx.weight, ctx.ids, rows), None, None


def to_and_fro(parts):
    """Part r goes to rank r, from which part r of the result comes."""
    found = torch.empty_like(parts)
    dist.all_to_all_single(found, parts)
    return found


def count(parameter):
    """The numbers of a parameter, without rows of a Shard that nobody has."""
    shard = getattr(parameter, "shard", None)
    return shard.size if shard else parameter.numel()


def own_part(parameter, array):
    """What of a canonical array is this rank's."""
    shard = getattr(parameter, "shard", None)
    return shard.own(array) if shard else array


def exchange(run, network, tables):
    """Ranks exchange the gradients of these tables, in place of DistributedDataParallel.

    tables: names in `network.named_parameters()`. Each rank gets the ids and rows of all, divided
    by how many ranks there are, as soon as they are computed: before a loss scale is undone, so
    that all see the same overflow. The gradients of parts of tables are exchanged already.
    """
    if not run.distributed:
        return
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, list(tables))

    def gather(table):
        mine = table.grad
        ids, rows = mine._indices()[0], mine._values() / run.ranks
        table.grad = gradient(table, gathered(run, ids), gathered(run, rows))

    for parameter in map(network.get_parameter, tables):
        if not hasattr(parameter, "shard"):
            parameter.register_post_accumulate_grad_hook(gather)


def gathered(run, tensor):
    """All ranks' tensors of this shape, one behind the other."""
    whole = tensor.new_empty(run.ranks * len(tensor), *tensor.shape[1:])
    dist.all_gather_into_tensor(whole, tensor.contiguous())
    return whole


def gradient(table, ids, rows):
    """A sparse gradient of a table: rows (n, width) of ids (n,), some of which may be the same."""
    return torch.sparse_coo_tensor(ids[None], rows, table.shape, check_invariants=False)


class Adam(torch.optim.Optimizer):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2; torch's own has it beside the root of the corrected one,
    which makes it another number each step. tables: parameters with sparse gradients. Their rows
    are updated where a batch looked them up, by the sum of what each place gave; the others rest,
    moments and all. Steps are counted for all together.
    """

    def __init__(self, parameters, tables, lr, betas, eps):
        parameters, tables = list(parameters), list(tables)
        groups = [{"params": each} for each in (parameters, tables) if each]
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps))
        self.dense = torch.optim.Adam(parameters, lr=lr, betas=betas, eps=eps, fused=True)
        self.moments = [
            (table, torch.zeros_like(table), torch.zeros_like(table)) for table in tables
        ]
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        (beta1, beta2), epsilon = self.defaults["betas"], self.defaults["eps"]
        root = (1 - beta2**self.steps) ** 0.5
        # not the defaults': a schedule sets that of the groups
        rate = self.param_groups[0]["lr"]
        self.dense.param_groups[0]["lr"] = rate
        self.dense.param_groups[0]["eps"] = epsilon / root
        self.dense.step()
        rate = rate * root / (1 - beta1**self.steps)
        for table, first, second in self.moments:
            ids, g = summed(table.grad._indices()[0], table.grad._values())
            # index_select and index_copy_ take a quarter of the time of table[ids] on a CPU
            m = first.index_select(0, ids).mul_(beta1).add_(g, alpha=1 - beta1)
            v = second.index_select(0, ids).mul_(beta2).addcmul_(g, g, value=1 - beta2)
            first.index_copy_(0, ids, m)
            second.index_copy_(0, ids, v)
            change = m.div_(v.sqrt_().add_(epsilon))
            table.index_copy_(0, ids, table.index_select(0, ids).sub_(change, alpha=rate))

    def forget(self):
        """As before the first step."""
        self.steps = 0
        states = [state.values() for state in self.dense.state.values()]
        for each in itertools.chain(*states, *(moments for _, *moments in self.moments)):
            each.zero_()


def summed(ids, rows):
    """(ids, for each the sum of all its rows); on a CPU no id stands twice."""
    if ids.is_cuda:
        return summed_repeatedly(ids, rows)
    ids, place = ids.unique(return_inverse=True)
    return ids, rows.new_zeros(len(ids), rows.shape[1]).index_add_(0, place, rows)


def summed_repeatedly(ids, rows):
    """The same, with ids as often as they were given, each time with the same sum.

    How many different ones there are, a GPU knows only when it is done, and nobody waits for it.
    """
    ids, order = ids.sort()
    place = torch.zeros_like(ids)
    place[1:] = (ids[1:] != ids[:-1]).cumsum(0)
    return ids, torch.zeros_like(rows).index_add_(0, place, rows[order])[place]
