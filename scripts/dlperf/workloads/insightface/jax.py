"""InsightFace in JAX, with Flax (linen).

As fast as it gets: NHWC, which XLA's kernels want on CPU and GPU; ranks that share the centres out
exchange features, labels and three numbers an image. Under mixed precision the backbone computes in
bfloat16, and what comes from its output on in float32. Batch-norm statistics are each rank's own.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from dlperf.frameworks.jax import split_head
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax.convolutions import convolution
from dlperf.workloads.insightface import facts


def layers(dtype, epsilon):
    """What makes a convolution and a batch-norm that compute in `dtype`."""

    def conv(outputs, size, stride=1, padding=None, groups=1, name=None):
        return nn.Conv(
            outputs,
            (size, size),
            stride,
            padding=size // 2 if padding is None else padding,
            feature_group_count=groups,
            use_bias=False,
            dtype=dtype,
            conv_general_dilated=convolution,
            name=name,
        )

    norm = functools.partial(
        nn.BatchNorm,
        use_running_average=False,
        momentum=facts.BATCH_NORM_MOMENTUM,
        epsilon=epsilon,
        dtype=dtype,
    )
    return conv, norm


def prelu(module, name, x):
    """With a slope for each channel, the module's parameter `name`."""
    slope = module.param(name, nn.initializers.zeros, (x.shape[-1],)).astype(x.dtype)
    return jnp.where(x >= 0, x, slope * x)


class Block(nn.Module):
    """One of the improved ResNets: nothing follows the sum."""

    width: int
    stride: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        conv, norm = layers(self.dtype, facts.BATCH_NORM_EPSILON)
        shortcut = x
        if self.stride > 1:
            shortcut = norm(name="bn3")(conv(self.width, 1, self.stride, name="conv3")(x))
        y = conv(self.width, 3, name="conv1")(norm(name="bn0")(x))
        y = prelu(self, "slope1", norm(name="bn1")(y))
        return norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)) + shortcut


class Activated(nn.Module):
    """A convolution, its norm and a PReLU for each channel."""

    outputs: int
    size: int
    dtype: jnp.dtype
    epsilon: float
    stride: int = 1
    groups: int = 1

    @nn.compact
    def __call__(self, x):
        conv, norm = layers(self.dtype, self.epsilon)
        x = conv(self.outputs, self.size, self.stride, groups=self.groups, name="conv")(x)
        return prelu(self, "slope", norm(name="bn")(x))


class Bottleneck(nn.Module):
    """One of MobileFaceNet, which adds its input where the stride is 1."""

    inner: int
    outer: int
    stride: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        conv, norm = layers(self.dtype, facts.MOBILE_EPSILON)
        y = prelu(self, "slope1", norm(name="bn1")(conv(self.inner, 1, name="conv1")(x)))
        y = conv(self.inner, 3, self.stride, groups=self.inner, name="conv2")(y)
        y = prelu(self, "slope2", norm(name="bn2")(y))
        y = norm(name="bn3")(conv(self.outer, 1, name="conv3")(y))
        return x + y if self.stride == 1 else y


def resnet(backbone, dtype):
    """The layers of an improved ResNet, but its output."""
    yield Activated(facts.RESNET_WIDTHS[0], 3, dtype, facts.BATCH_NORM_EPSILON, name="stem")
    for each in facts.residuals(backbone):
        yield Block(each.width, each.stride, dtype, name=each.name)


def mobile(dtype):
    """The layers of MobileFaceNet, but its output."""
    epsilon, channels = facts.MOBILE_EPSILON, facts.MOBILE_STEM
    yield Activated(channels, 3, dtype, epsilon, 2, name="stem")
    yield Activated(channels, 3, dtype, epsilon, groups=channels, name="depthwise")
    for each in facts.bottlenecks():
        yield Bottleneck(each.inner, each.outer, each.stride, dtype, name=each.name)
    yield Activated(facts.MOBILE_LAST, 1, dtype, epsilon, name="last")


class Output(nn.Module):
    """From a backbone's last images to embeddings: in float32 also under mixed precision."""

    width: int
    is_mobile: bool

    @nn.compact
    def __call__(self, x):
        epsilon = facts.MOBILE_EPSILON if self.is_mobile else facts.BATCH_NORM_EPSILON
        conv, norm = layers(None, epsilon)
        if self.is_mobile:
            channels = x.shape[-1]
            x = conv(channels, x.shape[1], padding=0, groups=channels, name="conv")(x)
        x = norm(name="bn")(x)
        if not self.is_mobile:
            x = nn.Dropout(facts.DROPOUT, deterministic=False)(x)
        x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # channels, rows, columns: the facts' order
        kernel = self.param("kernel", nn.initializers.zeros, (x.shape[1], self.width))
        bias = self.param("bias", nn.initializers.zeros, (2 * self.width,))
        bias, shift = jnp.split(bias, 2)  # behind the bias is the shift of the norm
        _, norm = layers(None, facts.BATCH_NORM_EPSILON)
        return norm(use_scale=False, use_bias=False, name="norm")(x @ kernel + bias) + shift


class Face(nn.Module):
    """Embeddings of images."""

    backbone: str
    dtype: jnp.dtype  # of the backbone's computation; None: the parameters'

    @nn.compact
    def __call__(self, x):
        is_mobile = self.backbone == "y1"
        if is_mobile:
            hidden = mobile(self.dtype)
        else:
            hidden = resnet(self.backbone, self.dtype)
        for layer in hidden:
            x = layer(x)
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return Output(facts.EMBEDDINGS[self.backbone], is_mobile, name="output")(x)


def head(run, parameters, x, labels, random, given=None):
    """From embeddings to the mean loss.

    random: a key to sample centres with. given: 1 for each class that the step takes, of all ranks.
    """
    dimensions, centres, rank = run.dimensions, parameters["centres"], 0
    is_split, block = facts.is_split(dimensions), len(centres)
    if is_split:
        rank = split_head.rank_of(run)
        x, labels = split_head.gathered(run, x), split_head.gathered_labels(run, labels)
    places, count = places_of(run, labels, rank, block)
    is_there = jnp.arange(block) < count
    if facts.is_sampled(dimensions):
        if given is None:
            rows = sample(run, random, rank, block, places)
        else:
            given = jnp.pad(given, (0, block))  # the last rank's rows of nobody
            given = jax.lax.dynamic_slice_in_dim(given, rank * block, block)
            (rows,) = jnp.nonzero(given, size=most_rows(run, block, len(places)), fill_value=block)
        centres = split_head.taken(centres, parameters[split_head.SAMPLE], rows)
        places = jnp.where(places >= 0, jnp.searchsorted(rows, places), -1)
        is_there = rows < block
    cosines = normalized(x) @ normalized(centres).T
    scores = facts.SCALE * with_margin(dimensions, cosines, places)
    scores = jnp.where(is_there, scores, -jnp.inf)
    return split_head.cross_entropy(scores, places, run.ranks if is_split else 1)


def normalized(rows):
    """Each of length 1; rows of nobody stay 0."""
    return rows / jnp.sqrt(jnp.maximum((rows**2).sum(1, keepdims=True), 1e-24))


def places_of(run, labels, rank, block):
    """(the rows of a rank's block that labels are of, -1 for other ranks'; how many it has)"""
    count = jnp.minimum(block, run.dimensions["num_classes"] - rank * block)
    places = labels - rank * block
    return jnp.where((places >= 0) & (places < count), places, -1), count


def most_rows(run, block, labels):
    """How many rows of a block a step takes at most, of so many labels of a global batch."""
    return min(block, max(facts.sample_size(run.dimensions, block), labels))


def sample(run, random, rank, block, places):
    """The rows of a rank's block that a step takes, by JAX's own random numbers."""
    is_last, most = rank == run.ranks - 1, most_rows(run, block, len(places))
    of_last = run.dimensions["num_classes"] - (run.ranks - 1) * block
    count = jnp.where(is_last, of_last, block)
    # by numbers of the host: those of many rows times percents overflow int32
    wanted, of_last = (facts.sample_size(run.dimensions, each) for each in (block, of_last))
    wanted = jnp.where(is_last, of_last, wanted)
    return split_head.sampled(random, count, block, wanted, most, places)


def with_margin(dimensions, cosines, places):
    """The cosines, each image's own one with the margin; `places` are below 0 where it is none."""
    is_own = split_head.is_own(cosines, places)
    own = jnp.where(is_own, cosines, 0).sum(1, keepdims=True)
    if dimensions["loss"] == "cosface":
        moved = own - facts.COSINE_MARGIN
    else:
        sine = jnp.sqrt(jnp.maximum(1 - own**2, facts.LEAST_SINE_SQUARED))
        moved = own * math.cos(facts.ARC_MARGIN) - sine * math.sin(facts.ARC_MARGIN)
    return jnp.where(is_own, moved, cosines)


def model(run):
    return Face(run.dimensions["backbone"], framework.compute_dtype(run))


def variables(run, network):
    """Shapes of the network's parameters, and of batch-norm's statistics."""
    px = run.dimensions["image_size"]
    return framework.shapes_of(run, network, np.zeros((1, px, px, 3), np.float32))


def weights(run, network):
    """The parameters by the names of facts.parameters: those of the network, and the centres."""
    dimensions, count = run.dimensions, 0
    if facts.is_sampled(dimensions):
        block = -(-dimensions["num_classes"] // run.ranks)
        count = most_rows(run, block, run.batch_size * run.data_parallel)
    centres = facts.parameters(dimensions)["centres"]
    shapes = variables(run, network)["params"]
    return split_head.weights(run, shapes, "centres", centres, count)


def sampler(run):
    """What a rank samples, as contract/sampled.py says."""
    block = -(-run.dimensions["num_classes"] // run.ranks)
    random = jax.random.key(run.seed, impl=framework.generator(run))

    @jax.jit
    def draw(random, labels):
        used, random = jax.random.split(random)
        places, _ = places_of(run, labels, run.rank, block)
        return sample(run, used, run.rank, block, places), random

    def taken(labels):
        nonlocal random
        rows, random = draw(random, labels)
        rows = np.asarray(rows)
        return run.rank * block + rows[rows < block]

    return taken


def loss(run, network, parameters, carried, images, labels, *given):
    """(the mean loss of a batch, batch-norm's statistics and the next step's random key)"""
    used, random = framework.split_key(run, carried["random"])
    dropout, drawn = jax.random.split(used)
    of_head = ("centres", split_head.SAMPLE)
    own = {name: each for name, each in parameters.items() if name not in of_head}
    taken = {"params": own, "batch_stats": carried["batch_stats"]}
    x, new = network.apply(taken, images, mutable=["batch_stats"], rngs={"dropout": dropout})
    value = head(run, parameters, x, labels, drawn, *given)
    return value, dict(new, random=random)


def optimizer(run, network):
    return split_head.sgd(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        facts.WEIGHT_DECAY,
        "".join(facts.sparse(run.dimensions)),
    )


def put(run, images, labels, *given):
    return (images, labels, *given)


def carried(run, network):
    """Batch-norm's running means and variances, as they start: 0 and 1; and a random key."""

    def fill(path, leaf):
        return np.full(leaf.shape, 1 if path[-1].key == "var" else 0, leaf.dtype)

    shapes = variables(run, network)["batch_stats"]
    statistics = jax.tree_util.tree_map_with_path(fill, shapes)
    return {"batch_stats": statistics, "random": framework.first_key(run)}


def shapes(run, count):
    """Of a batch of `count` images over all ranks."""
    px, dtype = run.dimensions["image_size"], np.float64 if run.float64 else np.float32
    batch = [((count, px, px, 3), dtype), ((count,), np.int32)]
    if facts.GIVEN_SAMPLE and facts.is_sampled(run.dimensions):  # each rank has that of all
        batch.append(((run.ranks * run.dimensions["num_classes"],), np.int32))
    return batch


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        carried=carried(run, network),
        shapes=shapes(run, run.batch_size * run.data_parallel),
        layout="NHWC",
        parity={"layout": "NHWC", "optimizer": "SGD, fused by XLA", "fused_optimizer": True},
    )
