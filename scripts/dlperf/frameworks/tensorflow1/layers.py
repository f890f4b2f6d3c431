"""Layers of networks of images in TensorFlow 1.15, as ResNet-50 and InsightFace have them.

`order` is NHWC or NCHW. Of batch-norm the fused operator computes, by a batch's own statistics;
the running ones move when UPDATE_OPS run.
"""

import tensorflow as tf


def spatial(order, height, width, rest):
    """`rest` for batch and channels, `height` and `width`, in the layout's order."""
    return [rest, rest, height, width] if order == "NCHW" else [rest, height, width, rest]


def channels_of(x, order):
    return int(x.shape[1 if order == "NCHW" else 3])


def variable(name, *shape):
    """By the canonical name, with slashes. The stopwatch writes all weights."""
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


def padded(x, size, stride, order):
    """(x, padding): at stride 2, "SAME" would pad an even image by (0, 1) in place of (1, 1)."""
    if size == 1 or stride == 1:
        return x, "SAME"
    pad = [size // 2, size // 2]
    return tf.pad(x, spatial(order, pad, pad, [0, 0])), "VALID"


def conv(x, kernel, size, stride, order):
    x, padding = padded(x, size, stride, order)
    return tf.nn.conv2d(x, kernel, spatial(order, stride, stride, 1), padding, data_format=order)


def statistics(name, channels):
    """Batch-norm's running mean and variance, which are not trained."""
    fixed = {"shape": [channels], "trainable": False}
    mean = tf.get_variable(name + "/mean", initializer=tf.zeros_initializer(), **fixed)
    variance = tf.get_variable(name + "/variance", initializer=tf.ones_initializer(), **fixed)
    return mean, variance


def standardized(x, scale, shift, running, epsilon, momentum, order):
    """Batch-norm by the batch's statistics. momentum: the share of `running` that stays."""
    if x.dtype == tf.float64:  # the fused operator has none; a CPU's layout is NHWC
        batch_mean, batch_variance = tf.nn.moments(x, [0, 1, 2])
        y = tf.nn.batch_normalization(x, batch_mean, batch_variance, shift, scale, epsilon)
    else:
        # not tf.nn.fused_batch_norm, which raises epsilon to 1.001e-5
        y, batch_mean, batch_variance = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=shift, mean=[], variance=[], epsilon=epsilon, data_format=order
        )[:3]
    for moving, new in zip(running, (batch_mean, batch_variance)):
        update = tf.assign_sub(moving, (1 - momentum) * (moving - new))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
    return y
