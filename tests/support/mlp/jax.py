"""The MLP in JAX."""

import numpy as np
import optax
from flax import linen as nn

from dlperf.frameworks.jax import training as framework
from dlperf.workloads.mlp import facts


class MLP(nn.Module):
    @nn.compact
    def __call__(self, images):
        x = nn.relu(nn.Dense(facts.WIDTH, name="hidden")(images.reshape(len(images), -1)))
        return nn.Dense(facts.CLASSES, name="output")(x)


def model(run):
    return MLP()


def weights(run, network):
    px = run.dimensions["image_size"]
    shapes = framework.shapes_of(run, network, np.zeros((1, px, px, 3), np.float32))["params"]
    return framework.Weights(run, framework.named(shapes), shapes)


def loss(run, network, parameters, carried, images, labels):
    logits = network.apply({"params": parameters}, images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), carried


def optimizer(run, network):
    return optax.sgd(facts.learning_rate(run.global_batch_size), facts.MOMENTUM)


def put(run, images, labels):
    return images, labels


def training(run):
    network = model(run)
    count, px = run.batch_size * run.data_parallel, run.dimensions["image_size"]
    dtype = np.float64 if run.float64 else np.float32
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        carried=(),
        shapes=[((count, px, px, 3), dtype), ((count,), np.int32)],
        layout="NHWC",
        parity={"optimizer": "optax.sgd"},
    )
