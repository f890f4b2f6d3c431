"""Wide & Deep in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; the gradients of both
tables are slices, by which Adam updates the rows that a batch looks up; of the dense layers it is
one operator a tensor. With `adam: dense`, it is that of the tables too; with `tables: sharded`, a
rank has a part of them.
"""

import tensorflow as tf

from dlperf.contract.shards import Shard
from dlperf.frameworks.tensorflow import inference as answers
from dlperf.frameworks.tensorflow import sparse
from dlperf.frameworks.tensorflow import training as framework
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import empty


def variable(*shape):
    return tf.Variable(tf.zeros(shape, framework.dtype()))  # the stopwatch writes all weights


class Dense(tf.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = variable(inputs, outputs), variable(outputs)

    def __call__(self, x):
        x = tf.matmul(x, tf.cast(self.weight, x.dtype))
        return tf.nn.bias_add(x, tf.cast(self.bias, x.dtype))


class Table(tf.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.weight = variable(rows, width)

    def __call__(self, ids):
        return tf.gather(self.weight, ids)


def tables(run):
    """The wide one and the deep one."""
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    if facts.sharded(run.dimensions):
        tensors = facts.parameters(run.dimensions)
        shards = [Shard(run, name, tensors[name]) for name in ("wide_embedding", "deep_embedding")]
        return [sparse.Part(run, shard) for shard in shards]
    return Table(rows, 1), Table(rows, width)


class WideDeep(tf.Module):
    def __init__(self, run):
        super().__init__()
        dimensions = run.dimensions
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.wide, self.deep = tables(run)
        self.hidden = list(map(Dense, columns, columns[1:]))
        self.output = Dense(facts.UNITS, 1)

    def __call__(self, numbers, wide, deep, dtype, training=True):
        crosses, fields = self.wide(wide), self.deep(deep)
        fields = tf.reshape(fields, [numbers.shape[0], -1])
        x = tf.cast(tf.concat([fields, tf.cast(numbers, fields.dtype)], 1), dtype)
        for layer in self.hidden:
            x = tf.nn.relu(layer(x))
            x = tf.nn.dropout(x, facts.DROPOUT) if training else x
        # the sum and the loss are not for half precision
        return tf.cast(self.output(x)[:, 0], crosses.dtype) + tf.reduce_sum(crosses, [1, 2])


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return WideDeep(run)


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    named = {"wide_embedding": network.wide.weight, "deep_embedding": network.deep.weight}
    layers = {"hidden%d" % index: layer for index, layer in enumerate(network.hidden)}
    for name, layer in dict(layers, output=network.output).items():
        named[name + ".weight"], named[name + ".bias"] = layer.weight, layer.bias
    return framework.Weights(run, named)


def loss(run, network, numbers, wide, deep, labels):
    logits = network(numbers, wide, deep, framework.compute_dtype(run))
    labels = tf.cast(labels, logits.dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)


def optimizer(run, network):
    rate = facts.learning_rate(run.global_batch_size)
    if facts.schedule(run):
        rate = tf.Variable(rate, trainable=False, dtype=tf.float64)
    return sparse.Adam(
        run,
        network.trainable_variables,
        rate,
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        lazy=bool(facts.sparse(run.dimensions)),
    )


def specs(run):
    return [tf.TensorSpec(array.shape, array.dtype) for array in empty(run.batch_size)]


def training(run):
    network = model(run)
    adam = "Adam, fused (ResourceApplyAdam); of the tables " + run.dimensions["adam"]
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        specs(run),
        parity={
            "optimizer": adam,
            **facts.travel(run, "all-gather, of which a rank takes its part"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run)
    own = weights(run, network)
    return answers.infer(run, network, outputs, own, framework.put, specs(run))


def outputs(run, network, numbers, wide, deep, labels):
    return network(numbers, wide, deep, framework.compute_dtype(run), training=False)
