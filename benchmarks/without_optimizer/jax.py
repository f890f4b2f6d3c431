"""A page's training step without the update of its weights: gradients are made, and left."""

import jax
import jax.numpy as jnp
import optax

from dlperf import workloads


def nothing():
    """Does all that an optimizer does but the update, and the clip that belongs to it.

    Its state is the gradients: XLA would not make what the program does not return.
    """

    def update(gradients, state, parameters=None):
        return jax.tree.map(jnp.zeros_like, gradients), gradients  # XLA leaves a sum with 0 out

    return optax.GradientTransformation(lambda parameters: parameters, update)


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: nothing()
    return page.training(run)
