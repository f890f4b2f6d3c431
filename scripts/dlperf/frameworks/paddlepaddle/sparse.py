"""Tables of which a step touches some rows, in PaddlePaddle: their gradients, Adam of those rows.

A table is looked up in front of the program, whose inputs are the rows: their gradient is a row of
numbers for each id of the batch, duplicates and all. Paddle's own sparse gradients serve less:
`DataParallel` refuses them, and its lazy Adam corrects the bias as if it were one step ahead. Of a
table that ranks share out, a rank has a part (contract/shards.py). All is exchanged by all-gather:
on a CPU Paddle has no all-to-all.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.shards import COLUMNS


def table(rows, width):
    """An embedding, whose weights the stopwatch writes."""
    return nn.Embedding(rows, width, weight_attr=nn.initializer.Constant(0.0))


def part(shard):
    """A rank's part of a table that ranks share out."""
    found = table(*shard.shape)
    found.weight.shard = shard
    return found


def count(parameter):
    """The numbers of a parameter, without rows of a Shard that nobody has."""
    shard = getattr(parameter, "shard", None)
    return shard.size if shard else parameter.size


def own_part(parameter, array):
    """What of a canonical array is this rank's."""
    shard = getattr(parameter, "shard", None)
    return shard.own(array) if shard else array


def of_parts(weight, ids):
    """(the rows of a rank's ids, of which each rank has a part; the ids of all, in this part)"""
    shard, count = weight.shard, ids.size
    everyone = gathered(ids.flatten())
    if shard.by != COLUMNS:
        everyone = everyone - shard.first
        mine = paddle.logical_and(everyone >= 0, everyone < shard.block)
        everyone = paddle.where(mine, everyone, paddle.full_like(everyone, shard.block))
    rows = gathered(paddle.gather(weight.detach(), everyone))
    rows = rows.reshape([shard.ranks, shard.ranks, count, -1])[:, shard.rank]
    rows = rows.transpose([1, 0, 2]) if shard.by == COLUMNS else rows.sum(0)
    return rows.reshape([*ids.shape, shard.width]), everyone


def given_back(shard, everyone, gradient):
    """The gradient of a rank's part, from that of its own rows; losses are means."""
    rows = gathered(gradient.reshape([-1, shard.width])) / shard.ranks
    if shard.by != COLUMNS:
        return rows * (everyone < shard.block).astype(rows.dtype).unsqueeze(1)
    columns = shard.shape[1]
    return rows[:, shard.rank * columns : (shard.rank + 1) * columns]


class Adam(paddle.optimizer.Adam):
    """Adam whose epsilon is beside the root of the second moment as it is.

    Kingma and Ba 2015, end of section 2; Paddle's own has it beside the root of the corrected one,
    which makes it another number each step. tables: parameters of which the rows that were looked
    up are updated, by the sum of what each place gave; the others rest, moments and all. Steps are
    counted for all together.
    """

    def __init__(self, run, rate, beta1, beta2, epsilon, parameters, tables=()):
        super().__init__(rate, beta1, beta2, epsilon, parameters)
        self.run, self.betas, self.epsilon, self.steps = run, (beta1, beta2), epsilon, 0
        self.tables = {each.name: Table(run, each) for each in tables}

    def lookup(self, parameter, ids):
        """The rows of these ids, whose gradient the next step takes."""
        if hasattr(parameter, "shard"):
            rows, ids = of_parts(parameter, ids)
        else:
            rows = F.embedding(ids, parameter.detach())
        rows.stop_gradient = False
        self.tables[parameter.name].looked_up.append((ids, rows))
        return rows

    def give(self, parameter, ids, gradient):
        """The next step takes rows (n, width) of ids (n,), some of which may be the same."""
        self.tables[parameter.name].given.append((ids, gradient))

    def forget(self):
        """Steps and moments of the tables, as before the first step."""
        self.steps = 0
        for each in self.tables.values():
            each.first.zero_()
            each.second.zero_()

    @paddle.no_grad()
    def step(self):
        self.steps += 1
        beta1, beta2 = self.betas
        root = (1 - beta2**self.steps) ** 0.5
        self._epsilon = self.epsilon / root
        super().step()
        rate = self.get_lr() * root / (1 - beta1**self.steps)
        for each in self.tables.values():
            each.step(rate, beta1, beta2, self.epsilon)


class Table:
    """A table's weight, its moments, and what was looked up, or given, since the last step."""

    def __init__(self, run, weight):
        self.run, self.weight, self.looked_up, self.given = run, weight, [], []
        self.first, self.second = paddle.zeros_like(weight), paddle.zeros_like(weight)

    def step(self, rate, beta1, beta2, epsilon):
        width, shard = self.weight.shape[1], getattr(self.weight, "shard", None)
        for ids, rows in self.looked_up:
            if shard:
                self.given.append((ids, given_back(shard, ids, rows.grad)))
            else:
                self.given.append((ids.flatten(), rows.grad.reshape([-1, width])))
        ids, rows = (paddle.concat(each) for each in zip(*self.given))
        self.looked_up, self.given = [], []
        if self.run.distributed and not shard:
            ids, rows = gathered(ids), gathered(rows) / self.run.ranks
        # An id's rows come as often as the id, and stay equal: no size has to be known on the host.
        ids, g = summed(ids, rows)
        m = paddle.gather(self.first, ids).scale_(beta1).add_(g * (1 - beta1))
        v = paddle.gather(self.second, ids).scale_(beta2).add_(g.square_().scale_(1 - beta2))
        paddle.scatter_(self.first, ids, m)
        paddle.scatter_(self.second, ids, v)
        change = m.scale_(rate).divide_(v.sqrt_().add_(paddle.full([], epsilon, v.dtype)))
        paddle.scatter_(self.weight, ids, paddle.gather(self.weight, ids).subtract_(change))


def gathered(tensor):
    """All ranks' tensors of this shape, one behind the other."""
    parts = []
    paddle.distributed.all_gather(parts, tensor.contiguous())
    return paddle.concat(parts)


def summed(ids, rows):
    """Sorted ids, as often as they were given, and each time the sum of all the id's rows.

    By sorting: `paddle.unique` takes half a second for 13,000 ids on a CPU.
    """
    order = paddle.argsort(ids)
    ids = paddle.gather(ids, order)
    another = (ids[1:] != ids[:-1]).astype("int64")
    place = paddle.concat([paddle.zeros_like(ids[:1]), paddle.cumsum(another)])
    sums = paddle.zeros_like(rows)
    paddle.scatter_(sums, place, paddle.gather(rows, order), overwrite=False)
    return ids, paddle.gather(sums, place)
