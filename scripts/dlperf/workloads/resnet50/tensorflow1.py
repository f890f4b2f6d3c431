"""ResNet-50 v1.5 in TensorFlow 1.15, as a session graph.

As fast as it gets: fused batch-norm. NHWC
on the CPU (Eigen has no other kernels), NCHW for fp32 on a GPU, and NHWC there under AMP (Tensor
Cores). On the CPU, Eigen's own kernel for the gradient of a convolution's input in place of the
default one, which multiplies matrices of a few rows: a step of 8 images of 64 px takes less than
half as long on one core, one of 4 images of 224 px 7 % less. That kernel has no explicit padding:
"SAME" where that is the same, else a pad beside the operator.
"""

import functools

import numpy as np
import tensorflow as tf

from dlperf.frameworks.tensorflow1 import inference as answers
from dlperf.frameworks.tensorflow1 import layers
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


def layout(run):
    return "NCHW" if run.cuda and not run.amp else "NHWC"


def conv(x, outputs, size, stride, order, name):
    kernel = layers.variable(name + "/kernel", size, size, layers.channels_of(x, order), outputs)
    return layers.conv(x, kernel, size, stride, order)


def batch_norm(x, order, name, training):
    channels, epsilon = layers.channels_of(x, order), facts.BATCH_NORM_EPSILON
    scale = layers.variable(name + "/gamma", channels)
    shift = layers.variable(name + "/beta", channels)
    running = layers.statistics(name, channels)
    if not training:
        return normalised(x, *running, shift, scale, epsilon, order)
    share = facts.BATCH_NORM_MOMENTUM
    return layers.standardized(x, scale, shift, running, epsilon, share, order)


def normalised(x, mean, variance, shift, scale, epsilon, order):
    """By given statistics."""
    if x.dtype == tf.float64:
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, epsilon)
    return tf.raw_ops.FusedBatchNormV3(
        x=x,
        scale=scale,
        offset=shift,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
        data_format=order,
        is_training=False,
    )[0]


def folded(x, order, name):
    """The bias of the convolution into which batch-norm is folded, in place of that."""
    bias = layers.variable(name.replace("bn", "conv") + "/bias", layers.channels_of(x, order))
    return tf.nn.bias_add(x, bias, data_format=order)


def bottleneck(x, width, stride, project, order, name, norm):
    """norm: batch_norm, or what is in its place."""
    outputs = width * facts.EXPANSION
    shortcut = x
    if project:
        shortcut = conv(x, outputs, 1, stride, order, name + "/conv4")
        shortcut = norm(shortcut, order, name + "/bn4")
    y = conv(x, width, 1, 1, order, name + "/conv1")
    y = tf.nn.relu(norm(y, order, name + "/bn1"))
    y = conv(y, width, 3, stride, order, name + "/conv2")
    y = tf.nn.relu(norm(y, order, name + "/bn2"))
    y = conv(y, outputs, 1, 1, order, name + "/conv3")
    return tf.nn.relu(norm(y, order, name + "/bn3") + shortcut)


def resnet50(run, images, training=True):
    """Logits of `images`; batch-norm's updates are in the graph's UPDATE_OPS."""
    order, norm = layout(run), functools.partial(batch_norm, training=training)
    if run.dimensions["fold"]:
        norm = folded
    x = conv(images, 64, 7, 2, order, "conv1")
    x = tf.nn.relu(norm(x, order, "bn1"))
    # zeros are as good as minus infinity under a maximum: nothing is below zero after a ReLU
    x = tf.pad(x, layers.spatial(order, [1, 1], [1, 1], [0, 0]))
    window, strides = layers.spatial(order, 3, 3, 1), layers.spatial(order, 2, 2, 1)
    x = tf.nn.max_pool(x, window, strides, "VALID", data_format=order)
    block = 0
    for width, count, stride in facts.STAGES:
        for index in range(count):
            first, name = index == 0, "block%d" % block
            x = bottleneck(x, width, stride if first else 1, first, order, name, norm)
            block += 1
    x = tf.reduce_mean(x, [2, 3] if order == "NCHW" else [1, 2])
    dense = layers.variable("fc/kernel", int(x.shape[1]), facts.CLASSES)
    bias = layers.variable("fc/bias", facts.CLASSES)
    return tf.matmul(x, dense) + bias


def model(run):
    return functools.partial(resnet50, run)


def weights(run, network):
    """The default graph's trained variables by the names of facts.parameters."""
    named = {}
    for variable in tf.trainable_variables():
        layer, kind = variable.op.name.rsplit("/", 1)
        kind = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}[kind]
        named["%s.%s" % (layer.replace("/", "."), kind)] = variable
    running = {
        variable.op.name.replace("/", "."): variable
        for variable in tf.global_variables()
        if variable.op.name.endswith(("/mean", "/variance"))
    }
    return framework.Weights(run, named, running)


def loss(run, network, images, labels):
    """Of mixed images and labels, where the run has them; SHARE: of each its own, (batch,)."""
    if mixup.is_on(run):
        share = tf.get_variable(
            SHARE, [run.batch_size], initializer=tf.ones_initializer(), trainable=False
        )
        images = mixed(images, share)
    logits, smoothing = network(images), facts.LABEL_SMOOTHING
    target = tf.one_hot(labels, facts.CLASSES, dtype=logits.dtype)
    target = (1 - smoothing) * target + smoothing / facts.CLASSES
    if mixup.is_on(run):
        target = mixed(target, share)
    # not tf.losses, which casts to float32 what a certificate has in float64
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(target, logits))


SHARE = "share"


def mixed(rows, share):
    """Each row with that of the other end, by its own share."""
    share = tf.reshape(share, [-1] + [1] * (rows.shape.ndims - 1))
    return share * rows + (1 - share) * tf.reverse(rows, [0])


class SGD(tf.train.MomentumOptimizer):
    """With weight decay on what has two dimensions and more."""

    def apply_gradients(self, gradients, *more, **named):
        decayed = [
            (gradient + facts.WEIGHT_DECAY * variable, variable)
            if len(variable.shape) > 1
            else (gradient, variable)
            for gradient, variable in gradients
        ]
        return super().apply_gradients(decayed, *more, **named)


def optimizer(run, network, rate=None):
    if rate is None:  # not a float, which would become float32
        rate = np.float64(facts.learning_rate(run.global_batch_size))
    return SGD(rate, facts.MOMENTUM)


def training(run):
    work = framework.train(
        run,
        model(run),
        loss,
        optimizer,
        weights,
        fields(run),
        layout=layout(run),
        parity={"layout": layout(run), "optimizer": "MomentumOptimizer"},
        schedule=facts.schedule(run),
        outputs=outputs,
    )
    if not mixup.is_on(run):
        return work
    session = work.weights.session
    with session.graph.as_default():
        (share,) = (each for each in tf.global_variables() if each.op.name == SHARE)
        coming = tf.placeholder(share.dtype.base_dtype, share.shape)
        write = session.make_callable(share.assign(coming).op, feed_list=[coming])
    return mixup.each_step(run, work, write)


def fields(run):
    size = run.dimensions["image_size"]
    image = [3, size, size] if layout(run) == "NCHW" else [size, size, 3]
    return [
        ("images", [run.batch_size] + image, framework.dtype(run)),
        ("labels", [run.batch_size], tf.int32),
    ]


def inference(run):
    work = answers.infer(
        run,
        model(run),
        outputs,
        weights,
        fields(run),
        layout=layout(run),
        parity={"layout": layout(run)},
    )
    return folding.beforehand(run, work)


def outputs(run, network, images, labels):
    return network(images, training=False)
