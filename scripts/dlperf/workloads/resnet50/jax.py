"""ResNet-50 v1.5 in JAX, with Flax (linen) and Optax.

As fast as it gets: one program a step (forward, backward, all-reduce, update), compiled ahead, its
state donated; NHWC, which XLA's kernels want on CPU and GPU. Over several ranks it runs by
`shard_map`: batch-norm statistics are each rank's own, gradients are averaged. On a CPU, 1x1
convolutions are written as matrix products, and so are those of images smaller than the kernel,
for which XLA has but a loop a hundred times slower (`convolution`).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import jax as framework
from dlperf.workloads.resnet50 import facts


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

    @nn.compact
    def __call__(self, x):
        outputs = self.width * facts.EXPANSION
        conv, norm = layers(self.dtype)
        shortcut = x
        if self.project:
            shortcut = norm(name="bn4")(conv(outputs, 1, self.stride, name="conv4")(x))
        y = nn.relu(norm(name="bn1")(conv(self.width, 1, name="conv1")(x)))
        y = nn.relu(norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)))
        y = norm(name="bn3")(conv(outputs, 1, name="conv3")(y))
        return nn.relu(y + shortcut)


class ResNet50(nn.Module):
    dtype: jnp.dtype  # of the computation; None: the parameters'

    @nn.compact
    def __call__(self, x):
        conv, norm = layers(self.dtype)
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
                    name="block%d" % block,
                )(x)
                block += 1
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.promote_types(x.dtype, jnp.float32))
        return nn.Dense(facts.CLASSES, name="fc")(x)


def layers(dtype):
    def conv(outputs, size, stride=1, name=None):
        return nn.Conv(
            outputs,
            (size, size),
            stride,
            padding=size // 2,
            use_bias=False,
            dtype=dtype,
            conv_general_dilated=convolution,
            name=name,
        )

    norm = functools.partial(
        nn.BatchNorm,
        use_running_average=False,
        momentum=facts.BATCH_NORM_MOMENTUM,
        epsilon=facts.BATCH_NORM_EPSILON,
        dtype=dtype,
    )
    return conv, norm


def model(run):
    return ResNet50(jnp.bfloat16 if run.amp else None)


def initial(run, network):
    """Parameters, all zero, as the stopwatch writes them, and batch-norm's statistics."""
    px = run.dimensions["image_size"]
    image = jax.ShapeDtypeStruct((1, px, px, 3), jnp.float32)
    shapes = jax.eval_shape(network.init, jax.random.key(0), image)
    dtype = np.float64 if run.float64 else np.float32

    def fill(path, leaf):
        return np.full(leaf.shape, 1 if path[-1].key == "var" else 0, dtype)

    return jax.tree_util.tree_map_with_path(fill, shapes)


def weights(tree, put):
    """The parameters by the names of facts.parameters."""
    names = {}
    for key in flatten_dict(tree(), sep="."):
        names[key.replace(".kernel", ".weight").replace(".scale", ".weight")] = key
    return framework.Weights(names, tree, put)


def loss(run):
    def smoothed_cross_entropy(logits, labels):
        labels = optax.smooth_labels(jax.nn.one_hot(labels, facts.CLASSES), facts.LABEL_SMOOTHING)
        return optax.softmax_cross_entropy(logits, labels).mean()

    return smoothed_cross_entropy


def optimizer(run, network):
    def decayed(parameters):
        return jax.tree.map(lambda p: p.ndim > 1, parameters)  # convolutions, the dense kernel

    return optax.chain(
        optax.add_decayed_weights(facts.WEIGHT_DECAY, decayed),
        optax.sgd(facts.learning_rate(run.global_batch_size), facts.MOMENTUM),
    )


def mean_over_ranks(run, gradients):
    if run.cuda:  # XLA combines the 161 into few
        return jax.lax.pmean(gradients, "ranks")
    flat, split = ravel_pytree(gradients)  # on a CPU it leaves them apart: twice the time
    return split(jax.lax.pmean(flat, "ranks"))


def train_step(run, network, criterion, sgd):
    """The step on one rank: (variables, state, images, labels) -> (variables, state, loss)."""

    def step(variables, state, images, labels):
        def forward(parameters):
            variables_now = dict(variables, params=parameters)
            logits, changed = network.apply(variables_now, images, mutable=["batch_stats"])
            return criterion(logits, labels), changed

        parameters = variables["params"]
        (value, changed), gradients = jax.value_and_grad(forward, has_aux=True)(parameters)
        if run.distributed:
            gradients = mean_over_ranks(run, gradients)
        updates, state = sgd.update(gradients, state, parameters)
        return dict(changed, params=optax.apply_updates(parameters, updates)), state, value[None]

    return step


def training(run):
    network, criterion = model(run), loss(run)
    sgd = optimizer(run, network)
    train = train_step(run, network, criterion, sgd)
    if run.distributed:
        mesh = Mesh(np.array(jax.devices()), ("ranks",))
        same, own = PartitionSpec(), PartitionSpec("ranks")
        train = jax.shard_map(
            train,
            mesh=mesh,
            in_specs=(same, same, own, own),
            out_specs=(same, same, own),
            check_vma=False,  # batch-norm statistics stand under `same`, but are each rank's own
        )

    def put(tree, spec):
        if not run.distributed:
            return jax.device_put(tree)
        sharding = NamedSharding(mesh, spec)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), tree)

    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: put(batch, PartitionSpec("ranks")))
    variables = initial(run, network)
    parameters = sum(p.size for p in jax.tree.leaves(variables["params"]))
    state = jax.tree.map(  # momenta start at zero
        lambda leaf: np.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(sgd.init, variables["params"]),
    )
    variables, state = put((variables, state), PartitionSpec())
    program = jax.jit(train, donate_argnums=(0, 1))
    # by its shapes alone: the first batch belongs to the first step
    sharding = NamedSharding(mesh, own) if run.distributed else None
    compiled = program.lower(variables, state, *batch_shapes(run, sharding)).compile()
    framework.meet(run, "compiled")

    def step():
        nonlocal variables, state
        variables, state, value = compiled(variables, state, *next_batch())
        return value

    def put_parameters(tree):
        nonlocal variables
        variables = dict(variables, params=put(tree, PartitionSpec()))

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(variables),
        loss=lambda value: value.addressable_data(0).item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            read_back(run, compiled),
            layout="NHWC",
            optimizer="optax.sgd, fused by XLA",
            fused_optimizer=True,
            loss_scaling="none",
            compute_dtype="bfloat16" if run.amp else "float32",
        ),
        weights=weights(lambda: variables["params"], put_parameters),
    )


def batch_shapes(run, sharding):
    px = run.dimensions["image_size"]
    images, labels = (run.global_batch_size, px, px, 3), (run.global_batch_size,)
    dtype = jnp.float64 if run.float64 else jnp.float32
    return (
        jax.ShapeDtypeStruct(images, dtype, sharding=sharding),
        jax.ShapeDtypeStruct(labels, jnp.int32, sharding=sharding),
    )


def read_back(run, compiled):
    """What XLA made of the step; raises Unsupported where it is not what the case says."""
    text = compiled.as_text()
    if jax.config.jax_disable_jit:
        raise Unsupported("JAX_DISABLE_JIT is set: nothing is compiled")
    if run.amp and "bf16[" not in text:
        raise Unsupported("XLA computes in float32 on this device, bfloat16 has no effect")
    return {
        "compiler_detail": "one program: %d fusions, %d convolutions, %d all-reduces"
        % tuple(text.count(" %s(" % kind) for kind in ("fusion", "convolution", "all-reduce"))
    }
