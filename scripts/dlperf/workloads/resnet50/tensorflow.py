"""ResNet-50 v1.5 in TensorFlow 2."""

import tensorflow as tf

from dlperf.workloads.resnet50 import facts


class Conv(tf.Module):
    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__()
        normal = tf.keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
        self.weight = tf.Variable(normal((size, size, inputs, outputs)), name="weight")
        self.stride = stride
        edge = [size // 2, size // 2]
        self.padding = [[0, 0], edge, edge, [0, 0]] if size > 1 and stride > 1 else None

    def __call__(self, x):
        if self.padding:
            x = tf.pad(x, self.padding)
        padding = "VALID" if self.padding else "SAME"
        return tf.nn.conv2d(x, tf.cast(self.weight, x.dtype), self.stride, padding)


class BatchNorm(tf.Module):
    def __init__(self, channels, gamma=1.0):
        super().__init__()
        self.gamma = tf.Variable(tf.fill([channels], gamma), name="gamma")
        self.beta = tf.Variable(tf.zeros([channels]), name="beta")
        each = dict(
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )
        self.mean = tf.Variable(tf.zeros([channels]), name="mean", **each)
        self.variance = tf.Variable(tf.ones([channels]), name="variance", **each)

    def __call__(self, x):
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x,
            self.gamma,
            self.beta,
            self.mean,
            self.variance,
            epsilon=facts.BATCH_NORM_EPSILON,
            exponential_avg_factor=1 - facts.BATCH_NORM_MOMENTUM,
        )
        self.mean.assign(mean)
        self.variance.assign(variance)
        return y


class Bottleneck(tf.Module):
    def __init__(self, inputs, width, stride, project):
        super().__init__()
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = Conv(inputs, width, 1), BatchNorm(width)
        self.conv2, self.bn2 = Conv(width, width, 3, stride), BatchNorm(width)
        self.conv3, self.bn3 = Conv(width, outputs, 1), BatchNorm(outputs, gamma=0.0)
        self.shortcut = None
        if project:
            self.shortcut = Conv(inputs, outputs, 1, stride), BatchNorm(outputs)

    def __call__(self, x):
        shortcut = x
        if self.shortcut is not None:
            conv, batch_norm = self.shortcut
            shortcut = batch_norm(conv(x))
        y = tf.nn.relu(self.bn1(self.conv1(x)))
        y = tf.nn.relu(self.bn2(self.conv2(y)))
        return tf.nn.relu(self.bn3(self.conv3(y)) + shortcut)


class ResNet50(tf.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = Conv(3, 64, 7, 2), BatchNorm(64)
        self.blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                self.blocks.append(Bottleneck(channels, width, stride if first else 1, first))
                channels = width * facts.EXPANSION
        self.weight = tf.Variable(
            tf.random.normal([channels, facts.CLASSES], 0, 0.01), name="weight"
        )
        self.bias = tf.Variable(tf.zeros([facts.CLASSES]), name="bias")

    def __call__(self, x):
        x = tf.nn.relu(self.bn1(self.conv1(x)))
        x = tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
        for block in self.blocks:
            x = block(x)
        x = tf.reduce_mean(x, [1, 2])
        return tf.matmul(x, tf.cast(self.weight, x.dtype)) + tf.cast(self.bias, x.dtype)
