"""The clip by global norm, for optimizers of Optax."""

import jax.numpy as jnp
import optax


def clip(most, norm=optax.tree.norm):
    """Gradients times min(1, most / their norm), as a factor that XLA fuses into the update.

    norm: of the gradients; of a split model, parallel.norm's.

    optax.clip_by_global_norm divides each by the norm, which XLA writes out: on a CPU, it takes a
    fifth of the step.
    """

    def update(gradients, state, parameters=None):
        factor = jnp.minimum(1, most / norm(gradients))
        return optax.tree.scale(factor, gradients), state

    return optax.GradientTransformation(optax.init_empty_state, update)
