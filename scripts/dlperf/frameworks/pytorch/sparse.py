"""Tables of which a step touches some rows, in PyTorch: their gradients, and Adam of those rows.

A table is an `nn.Embedding` with `sparse=True`: its gradient has the ids of a batch, duplicates and
all, and a row of numbers for each. A step takes no time for rows that it does not touch.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def table(rows, width, lazy):
    """An embedding, with sparse gradients where it is lazy, without weights yet."""
    found = nn.utils.skip_init(nn.Embedding, rows, width, sparse=lazy)
    if lazy:  # Inductor has no sparse gradients (torch 2.13): it compiles what comes behind
        found.forward = torch.compiler.disable(found.forward)
    return found


def exchange(run, network, tables):
    """Ranks exchange the gradients of these tables, in place of DistributedDataParallel.

    tables: names in `network.named_parameters()`. Each rank gets the ids and rows of all, divided
    by how many ranks there are, as soon as they are computed: before a loss scale is undone, so
    that all see the same overflow.
    """
    if not run.distributed:
        return

    def gather(table):
        mine = table.grad
        ids, rows = mine._indices()[0], mine._values() / run.ranks
        table.grad = gradient(table, gathered(run, ids), gathered(run, rows))

    for name in tables:
        network.get_parameter(name).register_post_accumulate_grad_hook(gather)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, list(tables))


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
