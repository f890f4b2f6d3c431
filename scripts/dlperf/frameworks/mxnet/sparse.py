"""Tables of which a step touches some rows, in MXNet: their gradients, and Adam of those rows.

A table is looked up in front of the graph, whose inputs are the rows: their gradient is a row of
numbers for each id of the batch, duplicates and all. MXNet's own sparse gradients serve less: their
operator on a CPU goes over a mark for each row of the table, and parameter servers take such
gradients only where they keep the optimizer too.
"""

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import nn

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

    tables: {parameter: ids of a sample}. Kingma and Ba 2015, end of section 2: what each place
    gave a row is summed up; other rows rest, moments and all. Steps are counted for all together.
    """

    def __init__(self, run, dense, tables, optimizer):
        self.optimizer = optimizer
        self.dense = framework.trainer(run, dense, optimizer)
        self.tables = {}
        for key, (parameter, columns) in enumerate(tables.items()):
            places = run.batch_size * run.accumulation * columns
            exchange = None
            if run.distributed:
                exchange = Exchange(run, self.dense, key, places, parameter)
            self.tables[parameter] = Table(parameter.data(), exchange)
        mx.nd.waitall()  # for what `stored` waits for

    def lookup(self, parameter, ids):
        """The rows of these ids, whose gradient the next step takes."""
        rows = mx.nd.Embedding(ids, parameter.data(), *parameter.shape)
        rows.attach_grad()
        self.give(parameter, ids.reshape((-1,)), rows.grad.reshape((-1, parameter.shape[1])))
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

    def __init__(self, weight, exchange):
        self.weight, self.exchange, self.given = weight, exchange, []
        self.moments = mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def step(self, settings):
        ids, rows = (mx.nd.concat(*each, dim=0) for each in zip(*self.given))
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
