"""ResNet-50 v1.5 in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; NHWC, which oneDNN reads
as it is and the graph optimiser turns into what cuDNN likes; batch-norm with its moving averages is
one operator (Keras computes it from a dozen), and so is momentum SGD; under AMP, fp32 variables are
cast to bfloat16 or float16 where they are used. oneDNN has no gradients for explicit
padding: "SAME" where that is the same, else a pad beside the operator. That made a step on one core
twice as fast in fp32, six times in bfloat16.
"""

import functools

import tensorflow as tf

from dlperf.frameworks.tensorflow import inference as answers
from dlperf.frameworks.tensorflow import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


def pads(edge):
    return [[0, 0], [edge, edge], [edge, edge], [0, 0]]


def zeros(*shape):
    return tf.zeros(shape, framework.dtype())


class Conv(tf.Module):
    def __init__(self, inputs, outputs, size, stride=1, bias=False):
        super().__init__()
        # the stopwatch writes all weights
        self.weight = tf.Variable(zeros(size, size, inputs, outputs), name="weight")
        self.bias = tf.Variable(zeros(outputs), name="bias") if bias else None
        self.stride = stride
        # at stride 2, "SAME" would pad an even image by (0, 1) in place of (1, 1)
        self.pads = pads(size // 2) if size > 1 and stride > 1 else None

    def __call__(self, x):
        weight = tf.cast(self.weight, x.dtype)
        if self.pads:
            y = tf.nn.conv2d(tf.pad(x, self.pads), weight, self.stride, "VALID")
        else:
            y = tf.nn.conv2d(x, weight, self.stride, "SAME")
        return y if self.bias is None else tf.nn.bias_add(y, tf.cast(self.bias, y.dtype))


class BatchNorm(tf.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = tf.Variable(zeros(channels), name="gamma")
        self.beta = tf.Variable(zeros(channels), name="beta")
        self.mean = tf.Variable(zeros(channels), trainable=False, name="mean")
        ones = tf.ones([channels], framework.dtype())
        self.variance = tf.Variable(ones, trainable=False, name="variance")

    def __call__(self, x, training):
        if x.dtype == tf.float64:
            return self.in_float64(x, training)
        if not training:
            return tf.compat.v1.nn.fused_batch_norm(
                x,
                self.gamma,
                self.beta,
                self.mean,
                self.variance,
                epsilon=facts.BATCH_NORM_EPSILON,
                is_training=False,
            )[0]
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

    def in_float64(self, x, training):
        """The fused operator has no float64."""
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, new in ((self.mean, mean), (self.variance, variance)):
                moving.assign_sub((1 - facts.BATCH_NORM_MOMENTUM) * (moving - new))
        epsilon = facts.BATCH_NORM_EPSILON
        return tf.nn.batch_normalization(x, mean, variance, self.beta, self.gamma, epsilon)


def layers(fold):
    """What makes a convolution, and the batch-norm behind it: nothing where it is folded."""
    if fold:
        return functools.partial(Conv, bias=True), lambda channels: lambda x, training: x
    return Conv, BatchNorm


class Bottleneck(tf.Module):
    def __init__(self, inputs, width, stride, project, fold):
        super().__init__()
        Conv, BatchNorm = layers(fold)
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = Conv(inputs, width, 1), BatchNorm(width)
        self.conv2, self.bn2 = Conv(width, width, 3, stride), BatchNorm(width)
        self.conv3, self.bn3 = Conv(width, outputs, 1), BatchNorm(outputs)
        self.shortcut = None
        if project:
            self.shortcut = Conv(inputs, outputs, 1, stride), BatchNorm(outputs)

    def __call__(self, x, training):
        shortcut = x
        if self.shortcut is not None:
            conv, batch_norm = self.shortcut
            shortcut = batch_norm(conv(x), training)
        y = tf.nn.relu(self.bn1(self.conv1(x), training))
        y = tf.nn.relu(self.bn2(self.conv2(y), training))
        return tf.nn.relu(self.bn3(self.conv3(y), training) + shortcut)


class ResNet50(tf.Module):
    def __init__(self, fold=False):
        super().__init__()
        Conv, BatchNorm = layers(fold)
        self.conv1, self.bn1 = Conv(3, 64, 7, 2), BatchNorm(64)
        self.blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                self.blocks.append(Bottleneck(channels, width, stride if first else 1, first, fold))
                channels = width * facts.EXPANSION
        self.weight = tf.Variable(zeros(channels, facts.CLASSES), name="weight")
        self.bias = tf.Variable(zeros(facts.CLASSES), name="bias")

    def __call__(self, x, training=True):
        x = tf.nn.relu(self.bn1(self.conv1(x), training))
        # zeros are as good as minus infinity: nothing is below them after a ReLU
        x = tf.nn.max_pool2d(tf.pad(x, pads(1)), 3, 2, "VALID")
        for block in self.blocks:
            x = block(x, training)
        x = tf.reduce_mean(x, [1, 2])
        x = tf.matmul(x, tf.cast(self.weight, x.dtype))
        return tf.cast(x, self.bias.dtype) + self.bias  # the loss is not for half precision


class SGD(tf.Module):
    """v = momentum v + g + decay w; w -= rate v: PyTorch's form, by TensorFlow's fused operator."""

    def __init__(self, variables, learning_rate):
        super().__init__()
        self.trained, self.learning_rate = variables, learning_rate
        self.velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients, norm=None, finite=None):
        dtype = framework.dtype()
        rate = framework.choose(finite, tf.convert_to_tensor(self.learning_rate, dtype), 0.0)
        momentum = framework.choose(finite, tf.constant(facts.MOMENTUM, dtype), 1.0)
        for variable, velocity, gradient in zip(self.trained, self.velocities, gradients):
            if variable.shape.rank > 1:  # convolutions, the dense weight
                gradient += facts.WEIGHT_DECAY * variable
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=rate,
                grad=framework.choose(finite, gradient, 0.0),
                momentum=momentum,
            )


def model(run):
    # Plain variables, also for many ranks: all draw the same from the seed. Made in the strategy's
    # scope each would be broadcast alone, which took ten seconds.
    return ResNet50(run.dimensions["fold"])


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    named, running = {"fc.weight": network.weight, "fc.bias": network.bias}, {}

    def add(block, number, conv, batch_norm):
        named["%sconv%d.weight" % (block, number)] = conv.weight
        if conv.bias is not None:
            named["%sconv%d.bias" % (block, number)] = conv.bias
            return
        named["%sbn%d.weight" % (block, number)] = batch_norm.gamma
        named["%sbn%d.bias" % (block, number)] = batch_norm.beta
        running["%sbn%d.mean" % (block, number)] = batch_norm.mean
        running["%sbn%d.variance" % (block, number)] = batch_norm.variance

    add("", 1, network.conv1, network.bn1)
    for index, block in enumerate(network.blocks):
        pairs = [(block.conv1, block.bn1), (block.conv2, block.bn2), (block.conv3, block.bn3)]
        pairs += [block.shortcut] if block.shortcut else []
        for number, (conv, batch_norm) in enumerate(pairs, 1):
            add("block%d." % index, number, conv, batch_norm)
    return framework.Weights(run, named, running)


def loss(run, network, images, labels, share=None):
    """share: of each image and label its own, (batch,), where they are mixed."""
    if share is not None:
        images = mixed(images, share)
    logits = network(tf.cast(images, framework.compute_dtype(run)))
    smoothing = facts.LABEL_SMOOTHING
    target = tf.one_hot(labels, facts.CLASSES, dtype=logits.dtype)
    target = (1 - smoothing) * target + smoothing / facts.CLASSES
    if share is not None:
        target = mixed(target, share)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits))


def mixed(rows, share):
    """Each row with that of the other end, by its own share."""
    share = tf.reshape(share, [-1] + [1] * (rows.shape.rank - 1))
    return share * rows + (1 - share) * tf.reverse(rows, [0])


def optimizer(run, network):
    rate = facts.learning_rate(run.global_batch_size)
    if facts.schedule(run):  # else a constant of the graph
        rate = tf.Variable(rate, trainable=False, dtype=framework.dtype())
    return SGD(network.trainable_variables, rate)


def specs(run):
    size = run.dimensions["image_size"]
    return [
        tf.TensorSpec([run.batch_size, size, size, 3], framework.dtype()),
        tf.TensorSpec([run.batch_size], tf.int32),
    ]


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    share = tf.Variable(tf.ones([run.batch_size], framework.dtype()), trainable=False)
    work = train(run, functools.partial(loss, share=share))
    write = share.assign
    return mixup.each_step(run, work, lambda array: write(array.astype(share.dtype.as_numpy_dtype)))


def train(run, loss):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        specs(run),
        layout="NHWC",
        parity={"layout": "NHWC", "optimizer": "SGD, fused (ResourceApplyMomentum)"},
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run)
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        specs(run),
        freeze=True,  # fuses batch-norm into convolutions
        layout="NHWC",
        parity={"layout": "NHWC"},
    )
    return folding.beforehand(run, work)


def outputs(run, network, images, labels):
    return network(tf.cast(images, framework.compute_dtype(run)), training=False)
