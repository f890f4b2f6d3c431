"""Keras' WideDeepModel by its own training step: Adam of both parts, in a tf.function.

It lives in tf-keras, Keras 2. Its Adam lets the moments of all rows go on, and moves all rows.
"""

import tensorflow as tf
import tf_keras as keras
from tf_keras.experimental import WideDeepModel

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import empty

SOURCE = "tf-keras 2.21.0, experimental.WideDeepModel; its Adam of all rows"
REQUIREMENTS = ["tf-keras==2.21.0"]


class Wide(keras.Model):
    def __init__(self, rows):
        super().__init__()
        self.table = keras.layers.Embedding(rows, 1)

    def call(self, ids):
        return tf.reduce_sum(self.table(ids), 1)


class Deep(keras.Model):
    def __init__(self, rows, width, layers):
        super().__init__()
        self.table = keras.layers.Embedding(rows, width)
        self.flat = keras.layers.Flatten()
        self.hidden = []
        for _ in range(layers):
            self.hidden.append(keras.layers.Dense(facts.UNITS, "relu"))
            self.hidden.append(keras.layers.Dropout(facts.DROPOUT))
        self.output_layer = keras.layers.Dense(1)

    def call(self, inputs, training=None):
        numbers, ids = inputs
        x = tf.concat([self.flat(self.table(ids)), numbers], 1)
        for layer in self.hidden:
            x = layer(x)
        return self.output_layer(x)


def training(run):
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    network = WideDeepModel(Wide(rows), Deep(rows, width, run.dimensions["layers"]))

    def adam():
        return keras.optimizers.Adam(
            facts.learning_rate(run.global_batch_size),
            beta_1=facts.BETA1,
            beta_2=facts.BETA2,
            epsilon=facts.EPSILON,
            jit_compile=False,
        )

    network.compile([adam(), adam()], keras.losses.BinaryCrossentropy(from_logits=True))
    network(
        [
            tf.zeros([1, facts.CROSSES], tf.int32),
            [tf.zeros([1, facts.NUMBERS]), tf.zeros([1, facts.FIELDS], tf.int32)],
        ]
    )

    def train(numbers, wide, deep, labels):
        return network.train_step(([wide, [numbers, deep]], labels))["loss"]

    specs = [tf.TensorSpec(array.shape, array.dtype) for array in empty(run.batch_size)]
    step = tf.function(train).get_concrete_function(*specs)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: [tf.constant(array) for array in batch])
    return Work(
        step=lambda: step(*next_batch()),
        wait=lambda: None,
        loss=float,
        parameters=sum(v.shape.num_elements() for v in network.trainable_variables),
        batches=batches,
        parity={},
    )
