"""The form of leondgarse/Keras_insightface, which no package has: its mobile_facenet, NormDense and
ArcfaceLoss (backbones/mobile_facenet.py, models.py, losses.py), of Keras 3's layers, in one
tf.function.

Of `y1` alone. Its second layer is a separable convolution, which has a product more than y1: here a
depthwise one. Decay is L2 regularisation of every layer, which Keras adds to the loss.
"""

import math

import keras
import tensorflow as tf
from keras import layers

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

SOURCE = "leondgarse/Keras_insightface, mobile_facenet, NormDense, ArcfaceLoss; keras 3.15.1, SGD"
REQUIREMENTS = []


def decay():
    return keras.regularizers.L2(facts.WEIGHT_DECAY / 2)


def batch_norm(x, scale=True):
    return layers.BatchNormalization(
        epsilon=facts.MOBILE_EPSILON,
        momentum=facts.BATCH_NORM_MOMENTUM,
        scale=scale,
        beta_regularizer=decay(),
        gamma_regularizer=decay() if scale else None,
    )(x)


def prelu(x):
    slopes = keras.initializers.Constant(facts.SLOPE)
    return layers.PReLU(slopes, alpha_regularizer=decay(), shared_axes=[1, 2])(x)


def conv(x, outputs, size=1, stride=1):
    kernel = dict(use_bias=False, kernel_regularizer=decay())
    return batch_norm(layers.Conv2D(outputs, size, stride, "same", **kernel)(x))


def depthwise(x, size=3, stride=1, padding="same"):
    kernel = dict(use_bias=False, depthwise_regularizer=decay())
    return batch_norm(layers.DepthwiseConv2D(size, stride, padding, **kernel)(x))


def bottleneck(x, outputs, times, stride=1):
    y = prelu(conv(x, x.shape[-1] * times))
    y = conv(prelu(depthwise(y, 3, stride)), outputs)
    return layers.add([y, x]) if stride == 1 else y


def mobile_facenet(px):
    images = x = keras.Input((px, px, 3))
    x = prelu(conv(x, 64, 3, 2))
    x = prelu(depthwise(x))
    for outputs, times, stride, more in ((64, 2, 2, 4), (128, 4, 2, 6), (128, 4, 2, 2)):
        x = bottleneck(x, outputs, times, stride)
        for _ in range(more):
            x = bottleneck(x, outputs, 2)
    x = depthwise(prelu(conv(x, 512)), px // facts.SHRINK, 1, "valid")
    kernel = dict(use_bias=False, kernel_regularizer=decay())
    x = layers.Flatten()(layers.Conv2D(facts.EMBEDDINGS["y1"], 1, **kernel)(x))
    return keras.Model(images, batch_norm(x))


class NormDense(layers.Layer):
    """Cosines with all centres."""

    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def build(self, shape):
        normal = keras.initializers.RandomNormal(stddev=facts.CENTRE_DEVIATION)
        size = (shape[-1], self.classes)
        self.kernel = self.add_weight(shape=size, initializer=normal, regularizer=decay())

    def call(self, x):
        kernel = tf.math.l2_normalize(self.kernel, axis=0)
        return tf.matmul(tf.math.l2_normalize(x, axis=1), kernel)


def arcface(labels, cosines):
    """The loss of one-hot labels."""
    own = tf.boolean_mask(cosines, tf.cast(labels, tf.bool))
    moved = tf.cos(tf.acos(own) + facts.ARC_MARGIN)
    moved = tf.where(own > math.cos(math.pi - facts.ARC_MARGIN), moved, -2 - moved)
    scores = (tf.expand_dims(moved - own, 1) * labels + cosines) * facts.SCALE
    return tf.reduce_mean(keras.losses.categorical_crossentropy(labels, scores, from_logits=True))


def training(run):
    sizes = run.dimensions
    if sizes["backbone"] != "y1":
        raise ValueError(f"this has no backbone {sizes['backbone']}")
    backbone = mobile_facenet(sizes["image_size"])
    cosines = NormDense(sizes["num_classes"])(backbone.output)
    network = keras.Model(backbone.input, cosines)
    trained = network.trainable_variables
    sgd = keras.optimizers.SGD(facts.learning_rate(run.global_batch_size), momentum=facts.MOMENTUM)
    sgd.build(trained)

    def train(images, labels):
        labels = tf.one_hot(labels, sizes["num_classes"])
        with tf.GradientTape() as tape:
            value = arcface(labels, network(images, training=True)) + tf.add_n(network.losses)
        sgd.apply(tape.gradient(value, trained))
        return value

    px = sizes["image_size"]
    specs = [
        tf.TensorSpec([run.batch_size, px, px, 3], tf.float32),
        tf.TensorSpec([run.batch_size], tf.int32),
    ]
    step = tf.function(train, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(*specs)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: [tf.constant(array) for array in batch])
    return Work(
        step=lambda: step(*next_batch()),
        wait=lambda: None,
        loss=float,
        parameters=sum(v.shape.num_elements() for v in trained),
        batches=batches,
        parity={},
    )
