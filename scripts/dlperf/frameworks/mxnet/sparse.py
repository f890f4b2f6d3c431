"""Tables of which a step touches some rows, in MXNet: their gradients, and Adam of those rows.

A table is looked up in front of the graph, whose inputs are the rows: their gradient is a row of
numbers for each id of the batch, duplicates and all. MXNet's own sparse gradients serve less: their
operator on a CPU goes over a mark for each row of the table, and parameter servers take such
gradients only where they keep the optimizer too. Of a table that ranks share out, a rank has a part
(contract/shards.py): all is gathered, and each takes its own.
"""

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import nn

from dlperf.contract.shards import COLUMNS
from dlperf.frameworks.mxnet import parallel
from dlperf.frameworks.mxnet import training as framework


def table(rows, width, lazy):
    """An embedding. A lazy one has no gradient of its own: kept sparse, it takes no memory."""
    return nn.Embedding(rows, width, weight_initializer="zeros", sparse_grad=lazy)


def adam(learning_rate, betas, epsilon):
    """MXNet's Adam, whose epsilon is beside the root of the second moment as it is.

    Its operators compute with float32 betas, of which 1 - 0.999 differs by 1e-5: the correction of
    the bias has to be of the same.
    """
    beta1, beta2 = (float(np.float32(each)) for each in betas)
    return mx.optimizer.Adam(learning_rate, beta1, beta2, epsilon)


class Trainer:
    """Trains a network's dense part by Gluon's trainer, and of its tables the rows looked up.

    tables: {parameter: ids of a sample}; shards: {parameter: Shard} of those that ranks share out.
    Kingma and Ba 2015, end of section 2: what each place gave a row is summed up; other rows rest,
    moments and all. Steps are counted for all together.
    """

    def __init__(self, run, dense, tables, optimizer, shards=None):
        self.optimizer = optimizer
        self.dense = framework.trainer(run, dense, optimizer)
        self.tables = {}
        for key, (parameter, columns) in enumerate(tables.items()):
            places, shares, exchange = run.batch_size * columns, None, None
            if run.distributed and shards:
                asked = run, self.dense, Shares.EXCHANGES * key, places
                shares = Shares(*asked, parameter.dtype, shards[parameter])
            elif run.distributed:
                exchange = Exchange(run, self.dense, key, places * run.accumulation, parameter)
            self.tables[parameter] = Table(parameter.data(), exchange, shares)
        mx.nd.waitall()  # for what `stored` waits for

    def lookup(self, parameter, ids):
        """The rows of these ids, whose gradient the next step takes."""
        table, given = self.tables[parameter], ids.reshape((-1,))
        if table.shares:
            rows, given = table.shares.lookup(table.weight, ids)
        else:
            rows = mx.nd.Embedding(ids, parameter.data(), *parameter.shape)
        rows.attach_grad()
        self.give(parameter, given, rows.grad.reshape((-1, rows.shape[-1])))
        return rows

    def give(self, parameter, ids, gradient):
        """The next step takes rows (n, width) of ids (n,), some of which may be the same."""
        self.tables[parameter].given.append((ids.astype("int32"), gradient))

    @property
    def learning_rate(self):
        return self.dense.learning_rate

    def set_learning_rate(self, rate):
        self.dense.set_learning_rate(rate)

    def forget(self):
        """As before the first step."""
        framework.forget(self.dense)
        for table in self.tables.values():
            for moment in table.moments:
                moment[:] = 0

    def step(self, count):
        self.dense.step(count)
        own = self.optimizer
        root = (1 - own.beta2**own.num_update) ** 0.5
        settings = dict(
            lr=own.learning_rate * root / (1 - own.beta1**own.num_update),
            beta1=own.beta1,
            beta2=own.beta2,
            epsilon=own.epsilon,
            rescale_grad=own.rescale_grad,
        )
        for table in self.tables.values():
            table.step(settings)


class Table:
    """A table's weight, its moments, and the gradients since the last step."""

    def __init__(self, weight, exchange, shares):
        self.weight, self.exchange, self.shares, self.given = weight, exchange, shares, []
        self.moments = mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def step(self, settings):
        given = (
            [self.shares.given_back(*each) for each in self.given] if self.shares else self.given
        )
        ids, rows = (mx.nd.concat(*each, dim=0) for each in zip(*given))
        self.given = []
        if self.exchange:
            ids, rows = self.exchange(ids, rows)
        ids, gradient = summed(ids, rows)
        tensors = (self.weight,) + self.moments
        # An id's rows come as often as the id, and stay equal: no size has to be known on the host.
        weight, first, second = touched = [mx.nd.take(each, ids) for each in tensors]
        mx.nd.adam_update(weight, gradient, first, second, out=weight, **settings)
        for whole, part in zip(tensors, touched):
            write_rows(whole, ids, part)


def write_rows(whole, ids, rows):
    """Write rows (n, width) of ids (n,) into an array; rows of the same id must be equal."""
    mx.nd._internal._scatter_set_nd(
        lhs=whole, rhs=rows, indices=ids.reshape((1, -1)), shape=whole.shape, out=whole
    )


def summed(ids, rows):
    """Sorted ids, as often as they were given, and each time the sum of all the id's rows."""
    order = mx.nd.argsort(ids, dtype="int32")
    ids = mx.nd.take(ids, order)
    another = mx.nd.not_equal(ids[1:], ids[:-1])
    place = mx.nd.cumsum(mx.nd.concat(mx.nd.zeros_like(ids[:1]), another, dim=0))
    sums = mx.nd.zeros_like(rows)
    sums.attach_grad()
    with autograd.record():  # the gradient of a look-up adds up what stood in one place
        found = mx.nd.take(sums, place)
    found.backward(mx.nd.take(rows, order))
    return ids, mx.nd.take(sums.grad, place)


class Exchange:
    """Gives each rank all ids and rows: the optimizer's `rescale_grad` makes a mean of them."""

    def __init__(self, run, trainer, key, places, parameter):
        shape = places, parameter.shape[1] + 2
        self.gathered = parallel.Gather(run, trainer, key, shape, parameter.dtype)

    def __call__(self, ids, rows):
        own = mx.nd.concat(parallel.numbers(ids, rows.dtype), rows, dim=1)
        whole = self.gathered(own).reshape((-3, 0))
        return parallel.ids(whole), mx.nd.slice_axis(whole, 1, 2, None)


class Shares:
    """What ranks exchange of a table of which each has a part, its Shard.

    places: how many ids a rank looks up at a time.
    """

    EXCHANGES = 3  # keys from the given one on

    def __init__(self, run, trainer, key, places, dtype, shard):
        self.shard, self.places, self.by_columns = shard, places, shard.by == COLUMNS
        everyone, own = run.ranks * places, shard.shape[1]
        self.ids = parallel.Gather(run, trainer, key, (places, 2), dtype)
        kind = parallel.Gather if self.by_columns else parallel.Sum
        self.rows = kind(run, trainer, key + 1, (everyone, own), dtype)
        self.gradients = parallel.Gather(run, trainer, key + 2, (places, shard.width), dtype)

    def lookup(self, weight, ids):
        """(rows of a rank's ids; the ids of all ranks, as this rank's part numbers them)"""
        shard, numbers = self.shard, parallel.numbers(ids, weight.dtype)
        everyone = parallel.ids(self.ids(numbers).reshape((-3, 0)))
        if not self.by_columns:
            everyone = everyone - shard.first
            is_own = mx.nd.broadcast_logical_and(everyone >= 0, everyone < shard.block)
            # others' lie in a row that stays 0
            everyone = mx.nd.where(is_own, everyone, shard.block * mx.nd.ones_like(everyone))
        rows = self.rows(mx.nd.take(weight, everyone))
        rows = rows.reshape((-1, shard.ranks, self.places, shard.shape[1]))[:, shard.rank]
        rows = rows.transpose((1, 0, 2))  # of a sum there is one
        return rows.reshape((*ids.shape, shard.width)), everyone

    def given_back(self, everyone, gradient):
        """The same ids, and the gradients of this rank's part, summed up as ids repeat."""
        rows, shard = self.gradients(gradient).reshape((-3, 0)), self.shard
        if self.by_columns:
            first = shard.rank * shard.shape[1]
            return everyone, mx.nd.slice_axis(rows, 1, first, first + shard.shape[1])
        is_own = (everyone < shard.block).astype(rows.dtype).expand_dims(1)
        return everyone, mx.nd.broadcast_mul(rows, is_own)
