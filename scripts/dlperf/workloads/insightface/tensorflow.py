"""InsightFace in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes, but for samples that may
grow; NHWC; batch-norm with its moving averages is one operator, and so is momentum SGD. Ranks that
share the centres out exchange features, labels and three numbers an image. Under AMP the backbone
computes in bfloat16 or float16, and what comes from its output on in float32.
"""

import functools
import math

import tensorflow as tf

from dlperf.contract.shards import RowBlock
from dlperf.frameworks.tensorflow import split_head
from dlperf.frameworks.tensorflow import training as framework
from dlperf.workloads.insightface import facts, input
from dlperf.workloads.insightface.backbones import named_layers


def pads(edge):
    return [[0, 0], [edge, edge], [edge, edge], [0, 0]]


def variable(*shape, value=0.0, trainable=True):
    # the stopwatch writes all weights
    return tf.Variable(tf.fill(shape, tf.cast(value, framework.dtype())), trainable=trainable)


class Conv(tf.Module):
    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__()
        self.weight = variable(size, size, inputs, outputs)
        self.stride = stride
        # at stride 2, "SAME" would pad an even image by (0, 1) in place of (1, 1)
        self.pads = pads(size // 2) if size > 1 and stride > 1 else None

    def __call__(self, x):
        if self.pads:
            return self.product(tf.pad(x, self.pads), "VALID")
        return self.product(x, "SAME")

    def product(self, x, padding):
        return tf.nn.conv2d(x, tf.cast(self.weight, x.dtype), self.stride, padding)


class Depthwise(Conv):
    """Each channel by itself."""

    def __init__(self, channels, size, stride=1):
        super().__init__(1, channels, size, stride)

    def product(self, x, padding):
        # (height, width, 1, channels) lies in memory as TensorFlow's (height, width, channels, 1)
        size, _, _, channels = self.weight.shape
        kernel = tf.reshape(tf.cast(self.weight, x.dtype), [size, size, channels, 1])
        return tf.nn.depthwise_conv2d(x, kernel, [1, self.stride, self.stride, 1], padding)


class Standardized(tf.Module):
    """Batch-norm and its moving averages; scale and shift are given."""

    def __init__(self, channels, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.mean = variable(channels, trainable=False)
        self.variance = variable(channels, value=1.0, trainable=False)

    def __call__(self, x, scale, shift):
        share = 1 - facts.BATCH_NORM_MOMENTUM
        if x.dtype == tf.float64:  # the fused operator has none
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, new in ((self.mean, mean), (self.variance, variance)):
                moving.assign_sub(share * (moving - new))
            return tf.nn.batch_normalization(x, mean, variance, shift, scale, self.epsilon)
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x,
            scale,
            shift,
            self.mean,
            self.variance,
            epsilon=self.epsilon,
            exponential_avg_factor=share,
        )
        self.mean.assign(mean)
        self.variance.assign(variance)
        return y


class BatchNorm(Standardized):
    def __init__(self, channels, epsilon):
        super().__init__(channels, epsilon)
        self.gamma, self.beta = variable(channels), variable(channels)

    def __call__(self, x):
        return super().__call__(x, self.gamma, self.beta)


def prelu(x, slope):
    """With a slope for each channel; TensorFlow's own gradient takes twice as long on a CPU."""

    @tf.custom_gradient
    def activated(x, slope):
        narrow = tf.cast(slope, x.dtype)

        def backward(gradient):
            # products and their sum are not for half precision
            low = tf.cast(gradient, slope.dtype) * tf.cast(tf.minimum(x, 0), slope.dtype)
            return tf.where(x > 0, gradient, narrow * gradient), tf.reduce_sum(low, [0, 1, 2])

        return tf.where(x > 0, x, narrow * x), backward

    return activated(x, tf.convert_to_tensor(slope))


class Block(tf.Module):
    """One of the improved ResNets: nothing follows the sum."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        epsilon = facts.BATCH_NORM_EPSILON
        self.bn0, self.conv1 = BatchNorm(inputs, epsilon), Conv(inputs, width, 3)
        self.bn1, self.slope1 = BatchNorm(width, epsilon), variable(width)
        self.conv2, self.bn2 = Conv(width, width, 3, stride), BatchNorm(width, epsilon)
        self.conv3 = self.bn3 = None
        if stride > 1:
            self.conv3, self.bn3 = Conv(inputs, width, 1, stride), BatchNorm(width, epsilon)

    def __call__(self, x):
        shortcut = x if self.conv3 is None else self.bn3(self.conv3(x))
        y = prelu(self.bn1(self.conv1(self.bn0(x))), self.slope1)
        return self.bn2(self.conv2(y)) + shortcut


class Activated(tf.Module):
    """A convolution, its norm and a PReLU for each channel."""

    def __init__(self, inputs, outputs, size, stride=1, groups=1, epsilon=None):
        super().__init__()
        if groups > 1:
            self.conv = Depthwise(outputs, size, stride)
        else:
            self.conv = Conv(inputs, outputs, size, stride)
        self.bn, self.slope = BatchNorm(outputs, epsilon), variable(outputs)

    def __call__(self, x):
        return prelu(self.bn(self.conv(x)), self.slope)


class Bottleneck(tf.Module):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    def __init__(self, inputs, inner, outer, stride):
        super().__init__()
        epsilon = facts.MOBILE_EPSILON
        self.adds = stride == 1
        self.conv1, self.bn1 = Conv(inputs, inner, 1), BatchNorm(inner, epsilon)
        self.conv2, self.bn2 = Depthwise(inner, 3, stride), BatchNorm(inner, epsilon)
        self.conv3, self.bn3 = Conv(inner, outer, 1), BatchNorm(outer, epsilon)
        self.slope1, self.slope2 = variable(inner), variable(inner)

    def __call__(self, x):
        y = prelu(self.bn1(self.conv1(x)), self.slope1)
        y = prelu(self.bn2(self.conv2(y)), self.slope2)
        y = self.bn3(self.conv3(y))
        return x + y if self.adds else y


class Output(tf.Module):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    def __init__(self, dimensions):
        super().__init__()
        width, side = facts.embedding(dimensions), dimensions["image_size"] // facts.SHRINK
        if dimensions["backbone"] == "y1":
            inputs = facts.MOBILE_LAST
            self.conv, self.bn = Depthwise(inputs, side), BatchNorm(inputs, facts.MOBILE_EPSILON)
        else:
            self.conv = None
            self.bn = BatchNorm(facts.RESNET_WIDTHS[-1], facts.BATCH_NORM_EPSILON)
            inputs = facts.RESNET_WIDTHS[-1] * side**2
        self.weight = variable(inputs, width)
        self.bias = variable(2 * width)  # and behind it the shift of the norm
        self.norm = Standardized(width, facts.BATCH_NORM_EPSILON)

    def __call__(self, x):
        if self.conv is None:
            x = tf.nn.dropout(self.bn(x), facts.DROPOUT)
        else:  # a kernel over all of the image
            x = self.bn(tf.reduce_sum(x * self.conv.weight[:, :, 0], [1, 2], keepdims=True))
        # the facts' order: channels, rows, columns
        x = tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [x.shape[0], -1])
        bias, shift = tf.split(self.bias, 2)
        x = tf.nn.bias_add(tf.matmul(x, self.weight), bias)
        return self.norm(x[:, None, None], tf.ones_like(shift), shift)[:, 0, 0]


class Head(tf.Module):
    """From embeddings to the mean loss; its weight are the centres, or a rank's share of them."""

    def __init__(self, run):
        super().__init__()
        self.run, self.centres = run, facts.parameters(run.dimensions)["centres"]
        self.weight = split_head.weight(run, "centres", self.centres)
        self.replicas = split_head.Replicas(run, self.centres)

    def __call__(self, x, labels, *given):
        """given: 1 for each class that the step takes, of all ranks."""
        dimensions, centres = self.run.dimensions, self.weight
        x, labels = self.replicas.features(x), self.replicas.gathered(labels)
        first, count = split_head.first_row(centres), centres.shape[0]
        places, is_there = places_of(labels, first, count), True
        if facts.is_sampled(dimensions):
            rows = sample(self.run, count, places, *(each[first:][:count] for each in given))
            centres = split_head.looked_up(centres, rows)
            places = tf.where(places >= 0, tf.searchsorted(rows, places, out_type=tf.int64), -1)
            is_there = rows < count

        def scores(x, centres):
            cosines = tf.matmul(normalized(x), normalized(centres), transpose_b=True)
            scores = facts.SCALE * with_margin(dimensions, cosines, places)
            if self.run.compiler == "xla":  # whose samples have a fixed size
                scores = tf.where(is_there, scores, split_head.NEVER)
            return scores

        scores = split_head.piece(self.run, self.centres, scores)
        return self.replicas.cross_entropy(scores(x, centres), places)


def normalized(rows):
    return tf.math.l2_normalize(rows, 1, epsilon=1e-24)


def places_of(labels, first, count):
    """The rows that labels are of, counted from a rank's first of so many; -1 for other ranks'."""
    # without XLA, a GPU leaves what is computed of int32 to the host, which waits for it
    places = tf.cast(labels, tf.int64) - first
    return tf.where((places >= 0) & (places < count), places, -1)


def sample(run, count, places, given=None):
    """The rows of `count` that a step takes, by TensorFlow's own random numbers.

    given: 1 for each that is taken, where it is given.
    """
    keys = split_head.drawn(count, places) if given is None else 2 * given
    wanted = facts.sample_size(run.dimensions, count)
    return split_head.taken(keys, wanted, places.shape[0], fixed=run.compiler == "xla")


def with_margin(dimensions, cosines, places):
    """The cosines, each image's own one with the margin; `places` are below 0 where it is none."""
    columns, is_own = split_head.columns_of(places, cosines.dtype)
    own = tf.gather_nd(cosines, columns)
    if dimensions["loss"] == "cosface":
        moved = own - facts.COSINE_MARGIN
    else:
        sine = tf.sqrt(tf.maximum(1 - own**2, facts.LEAST_SINE_SQUARED))
        moved = own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)
    return tf.tensor_scatter_nd_add(cosines, columns, is_own * (moved - own))


class Face(tf.Module):
    def __init__(self, run):
        super().__init__()
        backbone = run.dimensions["backbone"]
        activated = functools.partial(Activated, epsilon=facts.epsilon(backbone))
        layers = named_layers(backbone, activated, Block, Bottleneck)
        self.run, (self.names, self.layers) = run, zip(*layers)
        self.output, self.head = Output(run.dimensions), Head(run)

    def embeddings(self, x):
        x = tf.cast(x, framework.compute_dtype(self.run))
        for layer in self.layers:
            x = layer(x)
        return self.output(tf.cast(x, framework.dtype()))

    def __call__(self, images, labels, *given):
        embeddings = split_head.piece(self.run, self.head.centres, self.embeddings)
        return self.head(embeddings(images), labels, *given)


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return Face(run)


def weights(run, network):
    """The variables by the names of facts.parameters."""
    named, running = {}, {}
    for layer, module in (*zip(network.names, network.layers), ("output", network.output)):
        for own, part in vars(module).items():
            name = "%s.%s" % (layer, own)
            if isinstance(part, tf.Variable):
                named[name] = part
            elif isinstance(part, Conv):
                named[name + ".weight"] = part.weight
            elif isinstance(part, Standardized):
                running[name + ".mean"], running[name + ".variance"] = part.mean, part.variance
            if isinstance(part, BatchNorm):
                named[name + ".weight"], named[name + ".bias"] = part.gamma, part.beta
    named["centres"] = network.head.weight
    return framework.Weights(run, named, running)


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    centres = facts.parameters(run.dimensions)["centres"]
    rows = RowBlock(run, "centres", centres)

    @framework.function
    def drawn(labels):
        return sample(run, rows.held, places_of(labels, rows.first, rows.held))

    def taken(labels):
        numbers = drawn(tf.constant(labels, tf.int32)).numpy()
        return rows.first + numbers[numbers < rows.held]

    return taken


def loss(run, network, images, labels, *given):
    return network(images, labels, *given)


def optimizer(run, network):
    sgd = split_head.SGD(
        run,
        network.trainable_variables,
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        facts.WEIGHT_DECAY,
    )
    sgd.apply = split_head.piece(run, network.head.centres, sgd.apply)
    return sgd


def specs(run):
    size = run.dimensions["image_size"]
    batch = [
        tf.TensorSpec([run.batch_size, size, size, 3], framework.dtype()),
        tf.TensorSpec([run.batch_size], tf.int32),
    ]
    if input.is_sample_given(run.dimensions):
        batch.append(tf.TensorSpec([run.dimensions["num_classes"]], tf.int32))
    return batch


def training(run):
    network = model(run)
    return framework.train(
        split_head.around_pieces(run, network.head.centres),
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        specs(run),
        layout="NHWC",
        parity={"layout": "NHWC", "optimizer": "SGD, fused (ResourceApplyMomentum)"},
    )
