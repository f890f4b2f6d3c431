"""Tables of which a step touches some rows, in TensorFlow 1.15: Adam of those rows.

The gradient of a variable whose rows were gathered is tf.IndexedSlices: the ids of a batch,
duplicates and all, and a row of numbers for each. Horovod gathers them as they are, and divides by
the ranks. A step takes no time for rows that it does not touch. Of a table that ranks share out,
a rank has a part (contract/shards.py), and rows and gradients go by Horovod's all-to-all.
"""

import numpy as np
import tensorflow as tf

from dlperf.contract.run import Unsupported
from dlperf.contract.shards import COLUMNS


def table(name, rows, width, lazy):
    """A table without weights yet. Its rows are looked up by tf.gather.

    lazy: of a resource, as mixed precision's rewrite of the graph casts what a gather reads, all of
    the table, unless it is one.
    """
    zeros = tf.zeros_initializer()  # the stopwatch writes all weights
    return tf.get_variable(name, [rows, width], initializer=zeros, use_resource=lazy)


def lookup(run, name, shard, ids):
    """The rows of a rank's ids, from a table of which each rank has the part `name`."""
    import horovod.tensorflow as hvd

    if run.amp:
        raise Unsupported("ranks of sharded tables do not agree on which steps overflow")
    part = table(name, *shard.shape, lazy=True)
    part.shard = shard
    count = ids.shape.num_elements()
    everyone = hvd.allgather(tf.reshape(ids, [count]))
    everyone.set_shape([run.ranks * count])
    if shard.by != COLUMNS:
        everyone -= shard.first
        mine = (everyone >= 0) & (everyone < shard.block)
        everyone = tf.where(mine, everyone, tf.fill(everyone.shape, shard.block))
    rows = tf.gather(part, everyone)
    if shard.by != COLUMNS:  # and no gradient to the row behind the block
        rows *= tf.expand_dims(tf.cast(mine, rows.dtype), 1)
    # differentiated, it takes gradients the way back
    rows = hvd.alltoall(tf.reshape(rows, [run.ranks, count, shard.shape[1]]))
    rows.set_shape([run.ranks, count, shard.shape[1]])
    rows = tf.transpose(rows, [1, 0, 2]) if shard.by == COLUMNS else tf.reduce_sum(rows, 0)
    return tf.reshape(rows, ids.shape.as_list() + [shard.width])


def mean_over_ranks(run, gradients):
    """Pairs of gradient and variable; a part of a table has the sum over ranks already."""
    import horovod.tensorflow as hvd

    found = []
    for gradient, variable in gradients:
        if hasattr(variable, "shard"):
            rows = gradient.values / run.ranks
            gradient = tf.IndexedSlices(rows, gradient.indices, gradient.dense_shape)
        else:
            gradient = hvd.allreduce(gradient)
        found.append((gradient, variable))
    return found


def count(variable):
    """The numbers of a variable, without rows of a Shard that nobody has."""
    shard = getattr(variable, "shard", None)
    return shard.size if shard else variable.shape.num_elements()


class Adam(tf.train.Optimizer):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2, and ApplyAdam. That operator, as contrib's
    LazyAdamOptimizer, corrects by powers of beta in float32 (where 1 - 0.999 has an error of 1e-5):
    so the rate is corrected before it, in float64. lazy: of variables whose gradients are slices,
    the rows that a batch looked up are updated, by the sum of what each place gave; the others
    rest, moments and all. Else all rows are. Steps are counted for all together.
    """

    def __init__(self, dtype, rate, beta1, beta2, epsilon, lazy):
        super().__init__(use_locking=False, name="Adam")
        # a Python float would become float32
        self.rate = np.float64(rate) if isinstance(rate, float) else rate
        self.dtype, self.epsilon, self.lazy = dtype, epsilon, lazy
        # as the operator has them: rounded
        self.betas = [dtype.as_numpy_dtype(beta) for beta in (beta1, beta2)]

    def apply_gradients(self, gradients, *more, **named):
        if not self.lazy:
            gradients = [(tf.convert_to_tensor(each), variable) for each, variable in gradients]
        return super().apply_gradients(gradients, *more, **named)

    def _create_slots(self, variables):
        self._create_non_slot_variable(np.float64(0), "steps", colocate_with=variables[0])
        for variable in variables:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _prepare(self):
        """What is the same for all variables, made once."""
        self.steps = self._get_non_slot_variable("steps", tf.get_default_graph())
        correction1, correction2 = [1 - np.float64(b) ** (self.steps + 1) for b in self.betas]
        self.numbers = dict(
            lr=tf.cast(
                tf.cast(self.rate, tf.float64) * tf.sqrt(correction2) / correction1, self.dtype
            ),
            beta1=tf.constant(self.betas[0], self.dtype),
            beta2=tf.constant(self.betas[1], self.dtype),
            epsilon=tf.constant(self.epsilon, self.dtype),
        )

    def _apply_dense(self, gradient, variable):
        return tf.raw_ops.ApplyAdam(
            var=variable,
            m=self.get_slot(variable, "m"),
            v=self.get_slot(variable, "v"),
            grad=gradient,
            beta1_power=tf.zeros([], self.dtype),
            beta2_power=tf.zeros([], self.dtype),
            **self.numbers,
        )

    def _resource_apply_sparse(self, g, variable, ids):
        """Of distinct ids: tf.train.Optimizer has added up the rows of each."""
        beta1, beta2 = self.numbers["beta1"], self.numbers["beta2"]
        first, second = self.get_slot(variable, "m"), self.get_slot(variable, "v")
        m = beta1 * tf.gather(first, ids) + (1 - beta1) * g
        v = beta2 * tf.gather(second, ids) + (1 - beta2) * tf.square(g)
        change = self.numbers["lr"] * m / (tf.sqrt(v) + self.numbers["epsilon"])
        update, subtract = tf.raw_ops.ResourceScatterUpdate, tf.raw_ops.ResourceScatterSub
        return tf.group(
            update(resource=first.handle, indices=ids, updates=m),
            update(resource=second.handle, indices=ids, updates=v),
            subtract(resource=variable.handle, indices=ids, updates=change),
        )

    def _finish(self, updates, name):
        with tf.control_dependencies(updates):
            return tf.assign_add(self.steps, np.float64(1), name=name).op
