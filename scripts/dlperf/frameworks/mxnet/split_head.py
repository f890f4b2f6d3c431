"""A softmax over many classes, in MXNet: the pieces of a head, and its optimiser.

Where ranks share the classes out, or a step samples some of them, the head stands behind the graph,
which gives features (`Split`): it gathers those of all ranks, exchanges three numbers a row, and
adds up the features' gradients. `Trainer` then updates the classes, which are never averaged.
"""

import mxnet as mx
import numpy as np
from mxnet import autograd

from dlperf.contract.run import Unsupported
from dlperf.frameworks.mxnet import parallel, sparse
from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet.process import scaled


def cosines(F, features, centres):
    """Those of features (batch, width) and centres (classes, width)."""
    # without `eps` it adds 1e-10 beneath the root; written out, all takes four times as long
    features, centres = (F.L2Normalization(each, eps=0.0) for each in (features, centres))
    return F.dot(features, centres, transpose_b=True)


class SGD(mx.optimizer.SGD):
    """MXNet's own for a CPU, tensor by tensor: its `multi_sgd_mom_update` takes twice as long.

    In float64 MXNet's operator has momentum as float32, which five steps show: there it is written
    out. The rate is in the momentum's buffer.
    """

    def __init__(self, **settings):
        super().__init__(**settings)
        self.aggregate_num = 0

    def update_multi_precision(self, index, weight, grad, state):
        self._update_count(index)
        updated(self, weight, grad, state, self._get_lr(index), self._get_wd(index))


def updated(optimizer, weight, grad, state, rate, decay):
    """A step of an mx.optimizer.SGD on one tensor and its momentum, in place."""
    momentum, share = optimizer.momentum, optimizer.rescale_grad
    if weight.dtype == np.float64:
        state[:] = momentum * state - rate * (share * grad + decay * weight)
        weight[:] += state
        return
    settings = dict(lr=rate, wd=decay, momentum=momentum, rescale_grad=share)
    mx.nd.sgd_mom_update(weight, grad, state, out=weight, **settings)


class Trainer:
    """Trains a network's dense part by Gluon's trainer, and `classes`, a parameter, by itself.

    Of classes that have no gradient of their own, only the rows that `give` names: the others rest,
    momentum, decay and all.
    """

    def __init__(self, run, dense, classes, optimizer):
        if scaled(run):
            raise Unsupported("ranks of a split head do not agree on which steps overflow float16")
        self.optimizer, self.classes, self.given = optimizer, classes, None
        self.dense = framework.trainer(run, dense, optimizer)
        self.velocity = mx.nd.zeros_like(classes.data())

    def give(self, parameter, ids, rows):
        """The next step takes rows (n, width) of ids (n,), some of which may be the same."""
        self.given = sparse.summed(ids.astype("int32"), rows)

    def forget(self):
        """As before the first step."""
        framework.forget(self.dense)
        self.velocity[:] = 0

    def step(self, count):
        self.dense.step(count)  # which says what share of a gradient counts
        weight = self.classes.data()
        if self.classes.grad_req != "null":
            self._update(weight, self.classes.grad(), self.velocity)
            return
        ids, rows = self.given
        touched = [mx.nd.take(each, ids) for each in (weight, self.velocity)]
        self._update(touched[0], rows, touched[1])
        for whole, part in zip((weight, self.velocity), touched):
            sparse.write_rows(whole, ids, part)

    def _update(self, weight, gradient, velocity):
        own = self.optimizer
        updated(own, weight, gradient, velocity, own.learning_rate, own.wd)


class Split:
    """The mean loss of the global batch, from a rank's features; it leaves all gradients.

    rows: the Rows of the classes that the rank has, whose values `trainer.classes` are.
    scores(features, classes, is_own): a hybrid block; is_own is 1 where a class is an image's own.
    sample(places): the rows that a step takes, sorted, from the places of all images among the
    rank's rows, which may lie outside; None: it takes all.
    """

    def __init__(self, run, trainer, rows, scores, sample=None):
        self.run, self.trainer, self.rows = run, trainer, rows
        self.scores, self.sample = scores, sample
        dtype, images = trainer.velocity.dtype, run.ranks * run.batch_size
        self.all = mx.nd.arange(rows.held, ctx=framework.device(run), dtype="int32")
        self.is_apart = run.distributed
        if self.is_apart:
            shapes = (run.batch_size, rows.width + 2), (3, images)
            self.gathered, self.gathered_shares = (
                parallel.Gather(run, trainer.dense, key, shape, dtype)
                for key, shape in enumerate(shapes)
            )
            self.summed = parallel.Sum(run, trainer.dense, 2, (images, rows.width), dtype)
            mx.nd.waitall()

    def __call__(self, features, labels, given=None):
        """given: 1 for each class that the step takes, of all ranks."""
        together, labels = self._together(features, labels)
        together.attach_grad()
        places, chosen = labels - self.rows.first, self.all
        classes = self.trainer.classes.data()
        if self.sample:
            chosen = self._chosen(places, given)
            classes = mx.nd.take(classes, chosen)
            classes.attach_grad()
        is_own = mx.nd.broadcast_equal(places.expand_dims(1), chosen.expand_dims(0))
        is_own = is_own.astype(together.dtype)
        with autograd.record():
            scores = self.scores(together, classes, is_own)
        with autograd.pause():
            value, gradient = self._cross_entropy(scores, is_own)
        scores.backward(gradient)
        if self.sample:
            self.trainer.given = chosen, classes.grad
        own = together.grad
        if self.is_apart:
            first = self.run.rank * self.run.batch_size
            own = self.summed(own)[first : first + self.run.batch_size]
        features.backward(own)
        return value

    def _together(self, features, labels):
        """Those of all ranks; of features a copy, which autograd does not follow."""
        if not self.is_apart:
            return features.detach().copy(), labels
        width, own = self.rows.width, parallel.numbers(labels, features.dtype)
        whole = self.gathered(mx.nd.concat(features.detach(), own, dim=1)).reshape((-3, 0))
        return mx.nd.slice_axis(whole, 1, 0, width), parallel.ids(whole[:, width:])

    def _chosen(self, places, given):
        if given is None:
            return self.sample(places)
        own = given[self.rows.first : self.rows.first + self.rows.held].asnumpy()
        return mx.nd.array(own.nonzero()[0], places.context, "int32")

    def _cross_entropy(self, scores, is_own):
        """Its mean, and its sum's gradient by a rank's scores."""
        largest = scores.max(axis=1)
        shares = mx.nd.exp(mx.nd.broadcast_sub(scores, largest.expand_dims(1)))
        found = mx.nd.stack(largest, shares.sum(axis=1), (is_own * scores).sum(axis=1))
        found = self.gathered_shares(found) if self.is_apart else found.expand_dims(0)
        tops, totals, targets = (found[:, index] for index in range(3))
        top = tops.max(axis=0)
        total = (totals * mx.nd.exp(mx.nd.broadcast_sub(tops, top.expand_dims(0)))).sum(axis=0)
        value = (top + mx.nd.log(total) - targets.sum(axis=0)).mean()
        at_own = total * mx.nd.exp(top - largest)
        return value, mx.nd.broadcast_div(shares, at_own.expand_dims(1)) - is_own


def sampled(count, rows, places):
    """`rows` of `count` ones, sorted: all that `places` name, and others at random.

    places: (batch,), below 0 or at least count for none. More than `rows` where they name more.
    """
    keys = mx.nd.random.uniform(shape=(count + 1,), ctx=places.context)
    # what names none goes to one more, which is cut off
    is_own = mx.nd.broadcast_logical_and(places >= 0, places < count)
    keys[mx.nd.where(is_own, places, count * mx.nd.ones_like(places))] = 2.0
    keys = keys[:count]
    if len(places) > rows:  # only then does the host wait for the number of them
        rows = max(rows, int((keys == 2.0).sum().asscalar()))
    return mx.nd.sort(mx.nd.topk(keys, k=rows, dtype="int32"))
