"""Wide & Deep in TensorFlow 1.15, as a session graph.

As fast as it gets: the gradients of both tables are slices, by which Adam updates the rows that a
batch looks up; of the dense layers it is ApplyAdam, an operator a tensor. With `adam: dense`, it is
that of the tables too; with `tables: sharded`, each rank has a part of them.
"""

import functools

import tensorflow as tf

from dlperf.contract.shards import Shard
from dlperf.frameworks.tensorflow1 import inference as answers
from dlperf.frameworks.tensorflow1 import sparse
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import empty


def variable(name, *shape):
    """The stopwatch writes all weights."""
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


def dense(x, outputs, name):
    kernel = variable(name + "/weight", int(x.shape[-1]), outputs)
    return tf.nn.bias_add(tf.matmul(x, kernel), variable(name + "/bias", outputs))


def wide_deep(run, numbers, wide, deep, training=True):
    """Logits (batch,)."""
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    if facts.sharded(run.dimensions):
        tensors = facts.parameters(run.dimensions)
        crosses, fields = (
            sparse.lookup(run, name, Shard(run, name, tensors[name]), ids)
            for name, ids in (("wide_embedding", wide), ("deep_embedding", deep))
        )
    else:
        lazy = bool(facts.sparse(run.dimensions))
        crosses = tf.gather(sparse.table("wide_embedding", rows, 1, lazy), wide)
        fields = tf.gather(sparse.table("deep_embedding", rows, width, lazy), deep)
    fields = tf.reshape(fields, [int(deep.shape[0]), facts.FIELDS * width])
    x = tf.concat([fields, tf.cast(numbers, fields.dtype)], 1)
    for layer in range(run.dimensions["layers"]):
        x = tf.nn.relu(dense(x, facts.UNITS, "hidden%d" % layer))
        x = tf.nn.dropout(x, rate=facts.DROPOUT) if training else x
    return dense(x, 1, "output")[:, 0] + tf.reduce_sum(crosses, [1, 2])


def model(run):
    return functools.partial(wide_deep, run)


def weights(run, network):
    """The default graph's trained variables by the names of facts.parameters."""
    return framework.Weights(
        run, {v.op.name.replace("/", "."): v for v in tf.trainable_variables()}
    )


def loss(run, network, numbers, wide, deep, labels):
    logits = network(numbers, wide, deep)
    labels = tf.cast(labels, logits.dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)


def optimizer(run, network, rate=None):
    return sparse.Adam(
        framework.dtype(run),
        facts.learning_rate(run.global_batch_size) if rate is None else rate,
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        lazy=bool(facts.sparse(run.dimensions)),
    )


def fields(run):
    batch = empty(run.batch_size)
    return [(name, each.shape, each.dtype) for name, each in batch._asdict().items()]


def training(run):
    return framework.train(
        run,
        model(run),
        loss,
        optimizer,
        weights,
        fields(run),
        parity={
            "optimizer": "Adam by ApplyAdam; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-to-all"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    return answers.infer(run, model(run), outputs, weights, fields(run))


def outputs(run, network, numbers, wide, deep, labels):
    return network(numbers, wide, deep, training=False)
