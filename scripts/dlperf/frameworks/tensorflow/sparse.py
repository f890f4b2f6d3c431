"""Tables of which a step touches some rows, in TensorFlow 2: Adam of those rows.

The gradient of a variable whose rows were gathered is tf.IndexedSlices: the ids of a batch,
duplicates and all, and a row of numbers for each. Ranks exchange them as they are. A step takes no
time for rows that it does not touch. Of a table that ranks share out (`Part`), a rank has a part,
and rows and gradients go by all-gather.
"""

import functools

import tensorflow as tf

from dlperf.contract.run import Unsupported
from dlperf.contract.shards import COLUMNS
from dlperf.frameworks import half
from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow.process import dtype


class Part(tf.Module):
    """A rank's part of a table that ranks share out (contract/shards.py)."""

    def __init__(self, run, shard):
        super().__init__()
        if run.amp and half(run) == "float16":
            raise Unsupported("ranks of sharded tables do not agree on which steps overflow")
        self.weight = tf.Variable(tf.zeros(shard.shape, dtype()))
        self.weight.shard = self.shard = shard

    def __call__(self, ids):
        """The rows of a rank's ids; differentiated, gradients go the way back."""
        shard, count = self.shard, ids.shape.num_elements()
        context = tf.distribute.get_replica_context()
        everyone = context.all_gather(tf.reshape(ids, [count]), axis=0)
        everyone = tf.ensure_shape(everyone, [shard.ranks * count])
        if shard.by == COLUMNS:
            rows = tf.gather(self.weight, everyone)
        else:
            everyone -= shard.first
            mine = (everyone >= 0) & (everyone < shard.block)
            rows = tf.gather(self.weight, tf.where(mine, everyone, shard.block))
            # and no gradient to the row behind the block
            rows *= tf.cast(mine, rows.dtype)[:, None]
        rows = self.to_and_fro(tf.reshape(rows, [shard.ranks, count, shard.shape[1]]))
        rows = tf.transpose(rows, [1, 0, 2]) if shard.by == COLUMNS else tf.reduce_sum(rows, 0)
        return tf.reshape(rows, ids.shape + [shard.width])

    def to_and_fro(self, parts):
        """Part r goes to rank r, from which part r of the result comes."""
        ranks, rank = self.shard.ranks, self.shard.rank

        def exchanged(parts):
            context = tf.distribute.get_replica_context()
            every = tf.reshape(context.all_gather(parts, axis=0), [ranks, *parts.shape])
            return every[:, rank]

        # its own gradient: that of all_gather is an all-reduce of everything
        return tf.custom_gradient(lambda parts: (exchanged(parts), exchanged))(parts)


class Adam(tf.Module):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2, and TensorFlow's fused operator, which corrects in float32
    (where 1 - 0.999 has an error of 1e-5): so the rate is corrected before it. lazy: of variables
    whose gradients are slices, the rows that a batch looked up are updated, by the sum of what each
    place gave; the others rest, moments and all. Else all rows are. Steps are counted for all
    together. (Keras moves the moments of all rows, and squares before it sums.)
    """

    def __init__(self, run, variables, learning_rate, beta1, beta2, epsilon, lazy):
        super().__init__()
        self.trained, self.lazy, self.learning_rate = variables, lazy, learning_rate
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.summed = summing(run)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.first = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self.second = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients, norm=None, finite=None):
        """One step, or none: see training.train."""
        choose = functools.partial(framework.choose, finite)
        beta1, beta2 = (tf.constant(beta, dtype()) for beta in (self.beta1, self.beta2))
        # corrections are of the betas as the operator has them: rounded
        exact1, exact2 = tf.cast(beta1, tf.float64), tf.cast(beta2, tf.float64)
        steps = tf.cast(self.steps.assign_add(choose(tf.constant(1, tf.int64), 0)), tf.float64)
        rate = tf.cast(
            self.learning_rate * tf.sqrt(1 - exact2**steps) / (1 - exact1**steps), dtype()
        )
        settings = {
            "lr": choose(rate, 0.0),
            "epsilon": tf.constant(self.epsilon, dtype()),
            "beta1": choose(beta1, 1.0),
            "beta2": choose(beta2, 1.0),
        }
        unused = {"beta1_power": tf.zeros([], dtype()), "beta2_power": tf.zeros([], dtype())}
        for variable, m, v, gradient in zip(self.trained, self.first, self.second, gradients):
            if self.lazy and isinstance(gradient, tf.IndexedSlices):
                ids, sums = self.summed(gradient.indices, gradient.values)
                update_rows(variable, m, v, ids, choose(sums, 0.0), **settings)
                continue
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                grad=choose(tf.convert_to_tensor(gradient), 0.0),
                **settings,
                **unused,
            )


def update_rows(variable, first, second, ids, g, lr, epsilon, beta1, beta2):
    """Adam of these rows, by gradients g (n, width)."""
    m = beta1 * tf.gather(first, ids) + (1 - beta1) * g
    v = beta2 * tf.gather(second, ids) + (1 - beta2) * tf.square(g)
    new = tf.gather(variable, ids) - lr * m / (tf.sqrt(v) + epsilon)
    for each, rows in ((first, m), (second, v), (variable, new)):
        tf.raw_ops.ResourceScatterUpdate(resource=each.handle, indices=ids, updates=rows)


def summing(run):
    """`summed`, or where sizes must be known before, `summed_repeatedly`."""
    if run.compiler == "xla":
        return summed_repeatedly
    # a GPU leaves what is computed of int32 to the host, which waits for it
    return functools.partial(summed_repeatedly, number=tf.int64) if run.cuda else summed


def summed(ids, rows):
    """(ids, for each the sum of all its rows); no id stands twice."""
    ids, place = tf.unique(ids)
    return ids, tf.math.unsorted_segment_sum(rows, place, tf.size(ids))


def summed_repeatedly(ids, rows, number=tf.int32):
    """The same, with ids as often as they were given, each time with the same sum.

    How many different ones there are, a GPU knows only when it is done, and XLA has static shapes.
    number: the type of ids.
    """
    ids = tf.cast(ids, number)
    order = tf.argsort(ids)
    ids = tf.gather(ids, order)
    place = tf.cumsum(tf.cast(ids[1:] != ids[:-1], number))
    place = tf.concat([tf.zeros([1], number), place], 0)
    sums = tf.math.unsorted_segment_sum(tf.gather(rows, order), place, tf.size(ids))
    return ids, tf.gather(sums, place)
