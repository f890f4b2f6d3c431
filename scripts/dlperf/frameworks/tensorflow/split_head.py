"""A softmax over many classes whose weights ranks share out, in TensorFlow 2: the pieces of a head.

Each replica has a block of the classes' rows (`RowBlock`). `Replicas` brings the features of all
replicas to each; `cross_entropy` is that of scores of which each rank has its own classes' columns.
A row's gradient is that of the mean loss over the global batch, and is never averaged: training.py
leaves what is a shard alone. `SGD` has momentum and decay of the rows alone that a step takes.

Ranks exchange inside the step, which XLA does not compile: it gets the pieces between.
"""

import dataclasses

import tensorflow as tf

from dlperf.contract.mesh import DATA
from dlperf.contract.run import Unsupported
from dlperf.contract.shards import RowBlock
from dlperf.frameworks import half
from dlperf.frameworks.tensorflow import parallel, sparse
from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow.process import dtype

NEVER = -1e30  # the score of what is none; of minus infinity, a share times 0 is not a number


def is_split(run, tensor):
    """Whether ranks share a classes' Tensor out."""
    return run.distributed and tensor.axis is not None


def weight(run, name, tensor):
    """The variable of a classes' Tensor, without values yet; a rank's rows where it is divided."""
    if not is_split(run, tensor):
        return tf.Variable(tf.zeros(tensor.shape, dtype()))
    if run.amp and half(run) == "float16":
        raise Unsupported("ranks of a split head do not agree on which steps overflow float16")
    rows = RowBlock(run, name, tensor)
    variable = tf.Variable(tf.zeros(rows.shape, dtype()))
    variable.shard = rows
    return variable


def first_row(variable):
    """The number of the class that a rank's first row is of."""
    shard = getattr(variable, "shard", None)
    return shard.first if shard else 0


def in_pieces(run, tensor):
    """Whether XLA gets the pieces of a step, not all of it."""
    return run.compiler == "xla" and is_split(run, tensor)


def piece(run, tensor, body):
    """`body`, compiled by itself where XLA gets the pieces of a step."""
    return framework.function(body, jit_compile=True) if in_pieces(run, tensor) else body


def around_pieces(run, tensor):
    """The run as training.py compiles it: where XLA gets the pieces, not at all."""
    return dataclasses.replace(run, compiler="none") if in_pieces(run, tensor) else run


class Replicas(parallel.Group):
    """All replicas, where ranks share a classes' Tensor out; else a group of this rank alone."""

    def __init__(self, run, tensor):
        super().__init__(run, DATA)
        self.index = run.replica
        if not is_split(run, tensor):
            self.size = 1

    def gathered(self, tensor):
        """The ranks' tensors in one, those of rank 0 first; it has no gradient."""
        if self.size == 1:
            return tensor
        # not by the strategy, which exchanges their lengths before, as they might differ
        gathered = tf.raw_ops.CollectiveGatherV2(
            input=tf.identity(tensor),
            group_size=self.size,
            group_key=self._key,
            instance_key=next(parallel._calls),
            ordering_token=[],
            communication_hint=self._means,
        )
        return tf.ensure_shape(gathered, [self.size * tensor.shape[0], *tensor.shape[1:]])

    def features(self, features):
        """All replicas' features; their gradients are added up over ranks."""
        if self.size == 1:
            return features

        def backward(gradient):
            return tf.split(self.sum(gradient), self.size)[self.index]

        return tf.custom_gradient(lambda x: (self.gathered(x), backward))(features)

    def cross_entropy(self, scores, places):
        """The mean over all rows of scores, of which each rank has some columns.

        scores: (batch, a rank's classes). places: (batch,), the column of a row's own class; below
        0 where another rank has it. Ranks exchange three numbers a row, once. Gradients are those
        of all ranks' mean losses together, of which training.py takes the mean.
        """
        if self.size == 1:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(places, scores)
            return tf.reduce_mean(each)
        return tf.custom_gradient(lambda x: self._cross_entropy(x, places))(scores)

    def _cross_entropy(self, scores, places):
        columns, is_own = columns_of(places, scores.dtype)
        target = is_own * tf.gather_nd(scores, columns)
        largest = tf.reduce_max(scores, 1)
        total = tf.reduce_sum(tf.exp(scores - largest[:, None]), 1)
        together = self.gathered(tf.stack([largest, total, target])[None])
        tops, totals, targets = tf.unstack(together, axis=1)
        top = tf.reduce_max(tops, 0)
        total = tf.reduce_sum(totals * tf.exp(tops - top), 0)
        level = top + tf.math.log(total)

        def backward(gradient):
            shares = tf.exp(scores - level[:, None])
            less = tf.tensor_scatter_nd_sub(shares, columns, is_own)
            return less * (gradient * self.size / scores.shape[0])

        return tf.reduce_mean(level - tf.reduce_sum(targets, 0)), backward


def columns_of(places, dtype):
    """((row, column) of each row's own class, (row, 0) where it is none; 1 where it is one)."""
    rows = tf.range(places.shape[0], dtype=places.dtype)
    columns = tf.stack([rows, tf.maximum(places, 0)], 1)
    return columns, tf.cast(places >= 0, dtype)


def drawn(count, places):
    """A key for each of `count` rows, to take those of the largest: 2 of all that `places` name,
    and random ones of others.

    places: (batch,), below 0 for none.
    """
    is_own = tf.cast(places >= 0, tf.float32)
    named = tf.scatter_nd(tf.maximum(places, 0)[:, None], is_own, [count])
    return tf.where(named > 0, 2.0, tf.random.uniform([count]))


def taken(keys, rows, labels, fixed):
    """The numbers of `rows` rows with the largest keys, sorted; of more where more have a key of 2.

    labels: how many can have one. fixed: as many numbers each time, as XLA wants them; behind those
    of rows stands the number of keys, which is none of a row.
    """
    count = keys.shape[0]
    if labels > rows:
        rows = tf.maximum(rows, tf.math.count_nonzero(keys == 2, dtype=tf.int32))
        if fixed:
            chosen = tf.math.top_k(keys, min(count, labels)).indices
            return sorted_numbers(tf.where(tf.range(chosen.shape[0]) < rows, chosen, count))
    return sorted_numbers(tf.math.top_k(keys, rows, sorted=False).indices)


def sorted_numbers(numbers):
    """In int64: without XLA, a GPU leaves what is computed of int32 to the host."""
    return tf.sort(tf.cast(numbers, tf.int64))


def looked_up(variable, rows):
    """These rows of a variable; for what is no row's number the first of them, whose gradient must
    be 0 there."""
    return tf.gather(variable, tf.where(rows < variable.shape[0], rows, rows[0]))


class SGD(tf.Module):
    """Momentum and weight decay of all variables; of those whose gradients are slices, of these.

    v = momentum v + g + decay w; w -= rate v, by TensorFlow's fused operator. Other rows rest:
    momentum, decay and all.
    """

    def __init__(self, run, variables, learning_rate, momentum, weight_decay):
        super().__init__()
        self.trained, self.learning_rate = variables, learning_rate
        self.momentum, self.decay = momentum, weight_decay
        self.summed = sparse.summing(run)
        self.velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients, norm=None, finite=None):
        """One step, or none: see training.train."""
        rate = framework.choose(finite, tf.constant(self.learning_rate, dtype()), 0.0)
        momentum = framework.choose(finite, tf.constant(self.momentum, dtype()), 1.0)
        for variable, velocity, gradient in zip(self.trained, self.velocities, gradients):
            if isinstance(gradient, tf.IndexedSlices):
                ids, sums = self.summed(gradient.indices, gradient.values)
                rows = tf.gather(variable, ids)
                change = framework.choose(finite, sums + self.decay * rows, 0.0)
                moved = momentum * tf.gather(velocity, ids) + change
                for each, new in ((velocity, moved), (variable, rows - rate * moved)):
                    tf.raw_ops.ResourceScatterUpdate(resource=each.handle, indices=ids, updates=new)
                continue
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=rate,
                grad=framework.choose(finite, gradient + self.decay * variable, 0.0),
                momentum=momentum,
            )
