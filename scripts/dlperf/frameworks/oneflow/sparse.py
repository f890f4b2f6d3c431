"""Tables of which a step touches some rows, in OneFlow: their gradients, and Adam of those rows.

OneFlow's eager mode has no sparse gradients: what it gives for a table is as large as the table. So
the rows that a batch looks up are what is differentiated. A step takes no time for other rows. Of a
table that ranks share out (`Part`), a rank has a part, and all is exchanged by all-gather.
In nn.Graph a table is a parameter like others, of whose gradient a sparse optimiser takes the rows;
what ranks share out is one global tensor (`Spread`).
"""

import numpy as np
import oneflow as flow
from oneflow import nn
from oneflow.nn.optimizer.lr_scheduler import LRScheduler

from dlperf.contract.shards import COLUMNS, Shard
from dlperf.frameworks.oneflow import parallel
from dlperf.frameworks.oneflow import training as framework


class Table(nn.Module):
    """An embedding, without weights yet.

    Where it is lazy, its `lookups` are what the forward passes since the last update looked up, ids
    and rows; the backward pass leaves a gradient with the rows.
    """

    shard = None

    def __init__(self, rows, width, lazy):
        super().__init__()
        self.weight = nn.Parameter(flow.empty(rows, width), requires_grad=not lazy)
        self.lazy, self.lookups = lazy, []

    def forward(self, ids):
        rows = flow._C.gather(self.weight, ids, axis=0)
        if self.lazy and self.training:
            rows.requires_grad_()
            self.lookups.append((ids, rows))
        return rows

    def gradient(self, run):
        """Ids (n,), some of which may be the same, and a row (n, width) for each; of all ranks."""
        ids = flow.cat([each.flatten() for each, _ in self.lookups])
        rows = flow.cat([each.grad.flatten(0, -2) for _, each in self.lookups])
        self.lookups.clear()
        if run.distributed:
            ids, rows = framework.gathered(run, ids), framework.gathered(run, rows) / run.ranks
        return ids, rows


class Part(Table):
    """A rank's part of a table that ranks share out (contract/shards.py); it is lazy."""

    def __init__(self, run, shard):
        super().__init__(*shard.shape, lazy=True)
        self.run, self.shard = run, shard

    def forward(self, ids):
        shard = self.shard
        everyone = framework.gathered(self.run, ids.flatten())
        if shard.by != COLUMNS:
            everyone = everyone - shard.first
            mine = flow.logical_and(everyone >= 0, everyone < shard.block)
            everyone = flow.where(mine, everyone, flow.full_like(everyone, shard.block))
        rows = framework.gathered(self.run, flow._C.gather(self.weight, everyone, axis=0))
        rows = rows.reshape(shard.ranks, shard.ranks, ids.numel(), shard.shape[1])[:, shard.rank]
        rows = rows.transpose(0, 1) if shard.by == COLUMNS else rows.sum(0)
        rows = rows.reshape(*ids.shape, shard.width).detach().requires_grad_()
        self.lookups.append((everyone, rows))
        return rows

    def gradient(self, run):
        shard, found = self.shard, []
        for everyone, rows in self.lookups:
            rows = framework.gathered(run, rows.grad.flatten(0, -2)) / run.ranks  # losses are means
            if shard.by == COLUMNS:
                columns = shard.shape[1]
                rows = rows[:, shard.rank * columns : (shard.rank + 1) * columns]
            else:
                rows = rows * (everyone < shard.block).to(rows.dtype).unsqueeze(1)
            found.append((everyone, rows))
        self.lookups.clear()
        ids, rows = zip(*found)
        return flow.cat(ids), flow.cat(rows)


class PaddedBlock(Shard):
    """A rank's block of the rows of a tensor; of the last rank, rows of nobody may stand behind."""

    def __init__(self, run, name, tensor):
        super().__init__(run, name, tensor)
        self.shape = (self.block, self.width)


class Spread(nn.Module):
    """A table that ranks share out, in a graph: a global tensor, which `spread` makes."""

    lazy = False  # not by lookups: the graph's optimiser takes rows

    def __init__(self, run, name, tensor):
        super().__init__()
        self.run = run
        self.shard = (Shard if tensor.axis == COLUMNS else PaddedBlock)(run, name, tensor)
        self.weight = nn.Parameter(flow.empty(1))

    def spread(self):
        """Behind `place`, which makes of each parameter one that all ranks have alike."""
        shard = self.shard
        rows, columns = shard.shape
        shape = (rows, shard.width) if shard.by == COLUMNS else (rows * shard.ranks, columns)
        where = dict(placement=parallel.placement(self.run), sbp=flow.sbp.split(shard.by))
        self.weight = nn.Parameter(flow.zeros(*shape, dtype=self.weight.dtype, **where))

    def forward(self, ids):
        rows = flow._C.gather(self.weight, ids.to_global(sbp=flow.sbp.broadcast), axis=0)
        return rows.to_global(sbp=parallel.rows(self.run))


class Adam(flow.optim.Adam):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2. OneFlow's own corrects both moments first, or neither: it
    is told to correct neither, and the rate of each step holds both corrections. Rows of lazy
    tables are updated where a batch looked them up, by the sum of what each place gave; the others
    rest, moments and all. Steps are counted for all together.

    tables: the lazy ones of eager mode. rows_alone: whether a graph updates the rows of lookups
    alone.
    """

    def __init__(self, run, parameters, tables, lr, betas, eps, rows_alone=False):
        # Betas are rounded as the kernel has them, so that the corrections belong to them; epsilon
        # keeps its size beside a root of 1 - beta2, which that changes by 6e-6.
        exact, betas = betas[1], tuple(float(np.float32(beta)) for beta in betas)
        eps *= ((1 - betas[1]) / (1 - exact)) ** 0.5
        options = dict(lr=lr, betas=betas, eps=eps, do_bias_correction=False, fused=run.cuda)
        super().__init__(parameters, **options)
        self.run, self.lr, self.betas, self.eps, self.steps = run, lr, betas, eps, 0
        self.rows_alone = rows_alone
        self.tables = [
            (table, flow.zeros_like(table.weight), flow.zeros_like(table.weight))
            for table in tables
        ]

    def give(self, parameter, ids, rows):
        """The gradient of a table's next update."""
        [table] = [table for table, _, _ in self.tables if table.weight is parameter]
        looked_up = flow.zeros_like(rows)
        looked_up.grad = rows
        table.lookups.append((ids, looked_up))

    def set_rate(self, rate):
        """Of the next steps; the groups' own holds the corrections too."""
        self.lr = rate

    def forget(self):
        """As before the first step."""
        framework.forget(self)
        self.steps = 0
        for _, *moments in self.tables:
            for moment in moments:
                moment.zero_()

    def graph_options(self):
        """What nn.Graph.add_optimizer takes beside the optimiser."""
        return {"lr_sch": Corrected(self), "is_sparse": self.rows_alone}

    def corrected(self, steps):
        """The rate of a step, or of an array of them, with both corrections; the first one is 1."""
        beta1, beta2 = self.betas
        return self.lr * (1 - beta2**steps) ** 0.5 / (1 - beta1**steps)

    def step(self, closure=None):
        self.steps += 1
        beta1, beta2 = self.betas
        rate = self.corrected(self.steps)
        for group in self.param_groups:
            group["lr"] = rate
        super().step(closure)
        with flow.no_grad():
            for table, first, second in self.tables:
                ids, g = summed(*table.gradient(self.run))
                # index_add_ is the one write of rows whose time does not grow with the table's
                m = flow._C.gather(first, ids, axis=0)
                v = flow._C.gather(second, ids, axis=0)
                by1, by2 = (g - m).mul_(1 - beta1), (g * g - v).mul_(1 - beta2)
                first.index_add_(0, ids, by1)
                second.index_add_(0, ids, by2)
                change = m.add_(by1).div_(v.add_(by2).sqrt().add_(self.eps))
                table.weight.index_add_(0, ids, change, alpha=-rate)


class Corrected(LRScheduler):
    """The rates of Adam's steps in a graph, which counts them itself: a table.

    Behind its last step, the corrections no longer change a rate in float32.
    """

    def get_lr(self, base_lr, step):
        return base_lr

    def _generate_conf_for_graph(self, conf):
        adam = self.optimizer
        # behind them, beta^t is less than 2^-26, which float32 cannot take from 1
        steps = int(np.ceil(np.log(2.0**-26) / np.log(max(adam.betas))))
        table = conf.piecewise_constant_conf
        table.boundaries.extend(range(steps))  # a value is that of steps up to its boundary, from 0
        table.values.extend(adam.corrected(np.arange(1.0, steps + 1)).tolist() + [adam.lr])


def summed(ids, rows):
    """(ids, none of which stands twice; for each the sum of all its rows)"""
    ids, place = flow.unique(ids, return_inverse=True)
    return ids, flow._C.unsorted_segment_sum(rows, place, axis=0, num_segments=ids.shape[0])
