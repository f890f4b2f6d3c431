"""ResNet-50 v1.5 in JAX, with Flax (linen) and Optax.

As fast as it gets: NHWC, which XLA's kernels want on CPU and GPU. Batch-norm statistics are each
rank's own. On a CPU, 1x1 convolutions are written as matrix products, and so are those of images
smaller than the kernel, for which XLA has but a loop a hundred times slower (`convolution`).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


@jax.custom_vjp
def matmul(x, kernel):
    """(rows, inputs) times (inputs, outputs), with the gradient of the kernel spelled out."""
    return x @ kernel


def matmul_backward(saved, gradient):
    # JAX itself derives the transpose of this product, which costs the CPU a copy and twice the
    # time.
    x, kernel = saved
    return gradient @ kernel.T, jax.lax.dot_general(x, gradient, (((0,), (0,)), ((), ())))


matmul.defvjp(lambda x, kernel: (x @ kernel, (x, kernel)), matmul_backward)


def convolution(x, kernel, strides, padding, **settings):
    """The convolution that `nn.Conv` calls: x NHWC, kernel HWIO."""
    size, _, inputs, outputs = kernel.shape
    stride = strides[0]
    height, width = (-(-length // stride) for length in x.shape[1:3])
    if jax.default_backend() != "cpu" or 1 < size <= min(height, width):
        return jax.lax.conv_general_dilated(x, kernel, strides, padding, **settings)
    x = jnp.pad(x, ((0, 0), padding[0], padding[1], (0, 0)))
    taps = [
        x[:, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]
    rows = jnp.concatenate(taps, axis=-1).reshape(-1, size * size * inputs)
    return matmul(rows, kernel.reshape(-1, outputs)).reshape(-1, height, width, outputs)


class Bottleneck(nn.Module):
    width: int
    stride: int
    project: bool
    dtype: jnp.dtype
    training: bool
    fold: bool

    @nn.compact
    def __call__(self, x):
        outputs = self.width * facts.EXPANSION
        conv, norm = layers(self.dtype, self.training, self.fold)
        shortcut = x
        if self.project:
            shortcut = norm(name="bn4")(conv(outputs, 1, self.stride, name="conv4")(x))
        y = nn.relu(norm(name="bn1")(conv(self.width, 1, name="conv1")(x)))
        y = nn.relu(norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)))
        y = norm(name="bn3")(conv(outputs, 1, name="conv3")(y))
        return nn.relu(y + shortcut)


class ResNet50(nn.Module):
    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True  # else batch-norm takes its running statistics
    fold: bool = False  # batch-norm into the convolutions, which have a bias

    @nn.compact
    def __call__(self, x):
        conv, norm = layers(self.dtype, self.training, self.fold)
        x = nn.relu(norm(name="bn1")(conv(64, 7, 2, name="conv1")(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        block = 0
        for width, count, stride in facts.STAGES:
            for index in range(count):
                x = Bottleneck(
                    width,
                    stride if index == 0 else 1,
                    project=index == 0,
                    dtype=self.dtype,
                    training=self.training,
                    fold=self.fold,
                    name="block%d" % block,
                )(x)
                block += 1
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.promote_types(x.dtype, jnp.float32))
        return nn.Dense(facts.CLASSES, name="fc")(x)


def layers(dtype, training, fold):
    def conv(outputs, size, stride=1, name=None):
        return nn.Conv(
            outputs,
            (size, size),
            stride,
            padding=size // 2,
            use_bias=fold,
            dtype=dtype,
            conv_general_dilated=convolution,
            name=name,
        )

    if fold:
        return conv, lambda name: lambda x: x
    norm = functools.partial(
        nn.BatchNorm,
        use_running_average=not training,
        momentum=facts.BATCH_NORM_MOMENTUM,
        epsilon=facts.BATCH_NORM_EPSILON,
        dtype=dtype,
    )
    return conv, norm


def model(run):
    return ResNet50(framework.compute_dtype(run), fold=bool(run.dimensions["fold"]))


def variables(run, network):
    """Shapes of the parameters, and of batch-norm's statistics."""
    px = run.dimensions["image_size"]
    return framework.shapes_of(run, network, np.zeros((1, px, px, 3), np.float32))


class Weights(framework.Weights):
    """Writes what else a step carries, too."""

    def connect(self, tree, write, carried, write_carried=None):
        super().connect(tree, write, carried, write_carried)
        self.write_carried = write_carried


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    shapes = variables(run, network)["params"]
    return Weights(run, framework.named(shapes), shapes)


def loss(run, network, parameters, carried, images, labels):
    """(cross-entropy against smoothed labels, batch-norm's statistics)

    Of mixed images and labels, where each one's own `share`, (batch,), is carried too.
    """
    targets = optax.smooth_labels(jax.nn.one_hot(labels, facts.CLASSES), facts.LABEL_SMOOTHING)
    if "share" in carried:
        images, targets = (mixed(each, carried["share"]) for each in (images, targets))
    taken = {"params": parameters, "batch_stats": carried["batch_stats"]}
    logits, statistics = network.apply(taken, images, mutable=["batch_stats"])
    return optax.softmax_cross_entropy(logits, targets).mean(), dict(carried, **statistics)


def mixed(rows, share):
    """Each row with that of the other end, by its own share."""
    share = share.reshape(-1, *[1] * (rows.ndim - 1))
    return share * rows + (1 - share) * rows[::-1]


def optimizer(run, network):
    def sgd(learning_rate):
        return optax.chain(
            optax.add_decayed_weights(facts.WEIGHT_DECAY, framework.decayed),
            optax.sgd(learning_rate, facts.MOMENTUM),
        )

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        sgd = optax.inject_hyperparams(sgd)
    return sgd(facts.learning_rate(run.global_batch_size))


def put(run, images, labels):
    return images, labels


def training(run):
    if not mixup.is_on(run):
        return train(run)
    dtype = np.float64 if run.float64 else np.float32
    work = train(run, share=np.ones(run.batch_size, dtype))
    write = work.weights.write_carried
    return mixup.each_step(run, work, lambda array: write({"share": array.astype(dtype)}))


def train(run, **carried):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        carried=dict(statistics(run, network), **carried),
        shapes=shapes(run, run.batch_size * run.data_parallel),
        layout="NHWC",
        parity={"layout": "NHWC", "optimizer": "optax.sgd, fused by XLA", "fused_optimizer": True},
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def statistics(run, network):
    """Batch-norm's running means and variances, as they start: 0 and 1."""

    def fill(path, leaf):
        return np.full(leaf.shape, 1 if path[-1].key == "var" else 0, leaf.dtype)

    shapes = {"batch_stats": variables(run, network).get("batch_stats", {})}
    return jax.tree_util.tree_map_with_path(fill, shapes)


def shapes(run, count):
    """Of a batch of `count` images."""
    px = run.dimensions["image_size"]
    dtype = np.float64 if run.float64 else np.float32
    return [((count, px, px, 3), dtype), ((count,), np.int32)]


def inference(run):
    network = model(run)
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        put,
        carried=statistics(run, network),
        shapes=shapes(run, run.batch_size),
        layout="NHWC",
        parity={"layout": "NHWC"},
    )
    return folding.beforehand(run, work)


def outputs(run, network, parameters, carried, images, labels):
    network = network.clone(training=False)
    taken = {"params": parameters, "batch_stats": carried["batch_stats"]}
    return network.apply(taken, images)
