"""ResNet-50 v1.5 in JAX, with Flax (linen) and Optax.
"""

import functools

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec

from dlperf.measure.run import Unsupported, Work, feed
from dlperf.workloads.resnet50 import facts

import os
MODE = os.environ.get("MODE", "dot")

def convolution(x, kernel, strides, padding, **settings):
    size, _, inputs, outputs = kernel.shape
    if MODE != "conv" and jax.default_backend() == "cpu":
        stride = strides[0]
        if size == 1:
            return jnp.einsum("bhwi,io->bhwo", x[:, ::stride, ::stride], kernel[0, 0])
        out = -(-x.shape[1] // stride)
        if out < size:
            x = jnp.pad(x, ((0, 0), padding[0], padding[1], (0, 0)))
            taps = [
                x[:, i : i + stride * out : stride, j : j + stride * out : stride]
                for i in range(size)
                for j in range(size)
            ]
            return jnp.einsum(
                "bhwi,io->bhwo", jnp.concatenate(taps, -1), kernel.reshape(-1, outputs)
            )
    return jax.lax.conv_general_dilated(x, kernel, strides, padding, **settings)


class ResNet50(nn.Module):
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        kaiming = nn.initializers.variance_scaling(2.0, "fan_out", "normal")

        def conv(outputs, size, stride=1):
            return nn.Conv(
                outputs,
                (size, size),
                (stride, stride),
                padding=size // 2,
                use_bias=False,
                dtype=self.dtype,
                kernel_init=kaiming,
                conv_general_dilated=convolution,
            )

        norm = functools.partial(
            nn.BatchNorm,
            use_running_average=False,
            momentum=facts.BATCH_NORM_MOMENTUM,
            epsilon=facts.BATCH_NORM_EPSILON,
            dtype=self.dtype,
        )
        x = nn.relu(norm()(conv(64, 7, 2)(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for width, count, stride in facts.STAGES:
            for index in range(count):
                step = stride if index == 0 else 1
                y = nn.relu(norm()(conv(width, 1)(x)))
                y = nn.relu(norm()(conv(width, 3, step)(y)))
                y = norm(scale_init=nn.initializers.zeros)(conv(width * facts.EXPANSION, 1)(y))
                if index == 0:
                    x = norm()(conv(width * facts.EXPANSION, 1, step)(x))
                x = nn.relu(x + y)
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return nn.Dense(facts.CLASSES, kernel_init=nn.initializers.normal(0.01))(x)


def model(run):
    return ResNet50(jnp.bfloat16 if run.amp else jnp.float32)


def loss(run):
    def smoothed(logits, labels):
        log = jax.nn.log_softmax(logits)
        hit = jnp.take_along_axis(log, labels[:, None], axis=-1)[:, 0]
        return -jnp.mean((1 - facts.LABEL_SMOOTHING) * hit + facts.LABEL_SMOOTHING * log.mean(-1))
    return smoothed


def optimizer(run, network):
    def decayed(parameters):
        return jax.tree.map(lambda p: p.ndim > 1, parameters)

    return optax.chain(
        optax.add_decayed_weights(facts.WEIGHT_DECAY, decayed),
        optax.sgd(facts.learning_rate(run.global_batch_size), facts.MOMENTUM),
    )


def training(run):
    import time
    t=time.time()
    network, criterion = model(run), loss(run)
    sgd = optimizer(run, network)
    px = run.dimensions["image_size"]

    @jax.jit
    def start():
        variables = network.init(jax.random.key(run.seed), jnp.zeros((1, px, px, 3)))
        return variables, sgd.init(variables["params"])

    def train(variables, state, images, labels):
        def forward(parameters):
            logits, changed = network.apply(
                dict(variables, params=parameters), images, mutable=["batch_stats"]
            )
            return criterion(logits, labels), changed["batch_stats"]

        parameters = variables["params"]
        (value, statistics), gradients = jax.value_and_grad(forward, has_aux=True)(parameters)
        updates, state = sgd.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return {"params": parameters, "batch_stats": statistics}, state, value

    batches = run.batches("NHWC")
    next_batch = feed(batches, lambda images, labels: (jnp.asarray(images), jnp.asarray(labels)))
    variables, state = start()
    jax.block_until_ready(state)
    print("init", time.time()-t); t=time.time()
    lowered = jax.jit(train, donate_argnums=(0, 1)).lower(variables, state, *next_batch())
    print("lower", time.time()-t); t=time.time()
    compiled = lowered.compile()
    print("compile", time.time()-t); t=time.time()
    if os.environ.get("HLO"): open(os.environ["HLO"],"w").write(compiled.as_text())
    parameters = sum(p.size for p in jax.tree.leaves(variables["params"]))

    def step():
        nonlocal variables, state
        variables, state, value = compiled(variables, state, *next_batch())
        return value

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(variables),
        loss=float,
        parameters=parameters,
        batches=batches,
        parity={},
    )
