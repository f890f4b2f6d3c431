"""InsightFace in TensorFlow 1.15, as a session graph; all centres are on every device.

As fast as it gets: fused batch-norm. NHWC on the CPU (Eigen has no other kernels), NCHW on a GPU.
Convolutions of stride 2 have their pad beside them: see resnet50/tensorflow1.py.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from dlperf.frameworks.tensorflow1 import layers
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.insightface import facts


def layout(run):
    return "NCHW" if run.cuda else "NHWC"


def conv(x, outputs, size, stride, order, name):
    kernel = layers.variable(name + "/weight", size, size, layers.channels_of(x, order), outputs)
    return layers.conv(x, kernel, size, stride, order)


def depthwise_kernel(channels, size, name):
    # canonical (height, width, 1, channels) lies in memory as (height, width, channels, 1)
    kernel = layers.variable(name + "/weight", size, size, 1, channels)
    return tf.reshape(kernel, [size, size, -1, 1])


def depthwise(x, size, stride, order, name):
    """Each channel by itself."""
    kernel = depthwise_kernel(layers.channels_of(x, order), size, name)
    x, padding = layers.padded(x, size, stride, order)
    strides = layers.spatial(order, stride, stride, 1)
    return tf.nn.depthwise_conv2d(x, kernel, strides, padding, data_format=order)


def batch_norm(x, epsilon, order, name):
    channels = layers.channels_of(x, order)
    weights = layers.variable(name + "/weight", channels), layers.variable(name + "/bias", channels)
    return standardized(x, *weights, epsilon, order, name)


def standardized(x, scale, shift, epsilon, order, name):
    """Batch-norm whose scale and shift are given; its moving averages are updated by UPDATE_OPS."""
    running = layers.statistics(name, layers.channels_of(x, order))
    share = facts.BATCH_NORM_MOMENTUM
    return layers.standardized(x, scale, shift, running, epsilon, share, order)


def prelu(x, order, name):
    """With a slope for each channel."""
    slope = layers.variable(name, layers.channels_of(x, order))
    slope = tf.reshape(slope, layers.spatial(order, 1, 1, -1)[1:])
    return tf.where(x > 0, x, slope * x)


def block(x, kind, order):
    """One of the improved ResNets: nothing follows the sum."""
    name, width, stride = kind.name, kind.width, kind.stride
    norm = functools.partial(batch_norm, epsilon=facts.BATCH_NORM_EPSILON, order=order)
    shortcut = x
    if stride > 1:
        shortcut = norm(conv(x, width, 1, stride, order, name + "/conv3"), name=name + "/bn3")
    y = conv(norm(x, name=name + "/bn0"), width, 3, 1, order, name + "/conv1")
    y = prelu(norm(y, name=name + "/bn1"), order, name + "/slope1")
    y = conv(y, width, 3, stride, order, name + "/conv2")
    return norm(y, name=name + "/bn2") + shortcut


def bottleneck(x, kind, order):
    """One of MobileFaceNet, which adds its input where the stride is 1."""
    name = kind.name
    norm = functools.partial(batch_norm, epsilon=facts.MOBILE_EPSILON, order=order)
    y = norm(conv(x, kind.inner, 1, 1, order, name + "/conv1"), name=name + "/bn1")
    y = prelu(y, order, name + "/slope1")
    y = norm(depthwise(y, 3, kind.stride, order, name + "/conv2"), name=name + "/bn2")
    y = prelu(y, order, name + "/slope2")
    y = norm(conv(y, kind.outer, 1, 1, order, name + "/conv3"), name=name + "/bn3")
    return x + y if kind.stride == 1 else y


def resnet(x, backbone, order):
    """An improved ResNet, but its output."""
    x = conv(x, facts.RESNET_WIDTHS[0], 3, 1, order, "stem/conv")
    x = prelu(batch_norm(x, facts.BATCH_NORM_EPSILON, order, "stem/bn"), order, "stem/slope")
    for each in facts.residuals(backbone):
        x = block(x, each, order)
    return x


def mobile(x, order):
    """MobileFaceNet likewise."""

    def activated(x, name):
        x = batch_norm(x, facts.MOBILE_EPSILON, order, name + "/bn")
        return prelu(x, order, name + "/slope")

    x = activated(conv(x, facts.MOBILE_STEM, 3, 2, order, "stem/conv"), "stem")
    x = activated(depthwise(x, 3, 1, order, "depthwise/conv"), "depthwise")
    for each in facts.bottlenecks():
        x = bottleneck(x, each, order)
    return activated(conv(x, facts.MOBILE_LAST, 1, 1, order, "last/conv"), "last")


def embeddings(x, dimensions, order):
    """From a backbone's last images."""
    if dimensions["backbone"] == "y1":
        kernel = depthwise_kernel(facts.MOBILE_LAST, int(x.shape[2]), "output/conv")[..., 0]
        if order == "NCHW":
            kernel = tf.transpose(kernel, [2, 0, 1])
        # a kernel over all of the image
        over = [2, 3] if order == "NCHW" else [1, 2]
        x = tf.reduce_sum(x * kernel, over, keepdims=True)
        x = batch_norm(x, facts.MOBILE_EPSILON, order, "output/bn")
    else:
        x = batch_norm(x, facts.BATCH_NORM_EPSILON, order, "output/bn")
        x = tf.nn.dropout(x, rate=facts.DROPOUT)
    if order == "NHWC":  # the facts' order: channels, rows, columns
        x = tf.transpose(x, [0, 3, 1, 2])
    x = tf.reshape(x, [int(x.shape[0]), -1])
    width = facts.embedding(dimensions)
    kernel = layers.variable("output/weight", int(x.shape[1]), width)
    # behind the bias is the shift of the norm
    bias, shift = tf.split(layers.variable("output/bias", 2 * width), 2)
    x = tf.nn.bias_add(tf.matmul(x, kernel), bias)[:, None, None]
    epsilon, scale = facts.BATCH_NORM_EPSILON, tf.ones_like(shift)
    return standardized(x, scale, shift, epsilon, "NHWC", "output/norm")[:, 0, 0]


def scores(run, images, labels):
    """Those of all centres; batch-norm's updates are in the graph's UPDATE_OPS."""
    dimensions, order = run.dimensions, layout(run)
    backbone = dimensions["backbone"]
    if backbone == "y1":
        x = mobile(images, order)
    else:
        x = resnet(images, backbone, order)
    x = embeddings(x, dimensions, order)
    centres = layers.variable("centres", dimensions["num_classes"], int(x.shape[1]))
    cosines = tf.matmul(normalized(x), normalized(centres), transpose_b=True)
    return facts.SCALE * with_margin(dimensions, cosines, labels)


def normalized(rows):
    return tf.math.l2_normalize(rows, 1, epsilon=1e-24)


def with_margin(dimensions, cosines, labels):
    """The cosines, each image's own one with the margin."""
    columns = tf.stack([tf.range(int(labels.shape[0])), labels], 1)
    own = tf.gather_nd(cosines, columns)
    if dimensions["loss"] == "cosface":
        moved = own - facts.COSINE_MARGIN
    else:
        sine = tf.sqrt(tf.maximum(1 - own**2, facts.LEAST_SINE_SQUARED))
        moved = own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)
    return tf.tensor_scatter_nd_add(cosines, columns, moved - own)


def model(run):
    return functools.partial(scores, run)


def weights(run, network):
    """The default graph's variables by the names of facts.parameters."""
    named = {v.op.name.replace("/", "."): v for v in tf.trainable_variables()}
    running = {
        v.op.name.replace("/", "."): v
        for v in tf.global_variables()
        if v.op.name.endswith(("/mean", "/variance"))
    }
    return framework.Weights(run, named, running)


def loss(run, network, images, labels):
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=network(images, labels)
    )
    return tf.reduce_mean(each)


class SGD(tf.train.MomentumOptimizer):
    """With weight decay on all."""

    def apply_gradients(self, gradients, *more, **named):
        decayed = [
            (gradient + facts.WEIGHT_DECAY * weight, weight) for gradient, weight in gradients
        ]
        return super().apply_gradients(decayed, *more, **named)


def optimizer(run, network):
    # not floats, which would become float32
    rate = np.float64(facts.learning_rate(run.global_batch_size))
    return SGD(rate, np.float64(facts.MOMENTUM))


def training(run):
    return framework.train(
        run,
        model(run),
        loss,
        optimizer,
        weights,
        fields(run),
        layout=layout(run),
        parity={"layout": layout(run), "optimizer": "MomentumOptimizer"},
    )


def fields(run):
    size = run.dimensions["image_size"]
    image = [3, size, size] if layout(run) == "NCHW" else [size, size, 3]
    return [
        ("images", [run.batch_size] + image, framework.dtype(run)),
        ("labels", [run.batch_size], tf.int32),
    ]
