"""LAMB (You et al. 2019), of Optax's parts: its own `lamb` scales the changes of biases too."""

import optax

from dlperf.frameworks.jax.clip import clip
from dlperf.frameworks.jax.training import decayed


def lamb(learning_rate, beta1, beta2, epsilon, weight_decay, adaptive, clip_norm):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + epsilon) + weight_decay w; w -= learning_rate |w| / |u| u, the ratio never
    clipped, and 1 where a norm is 0. Tensors of one dimension have neither decay nor ratio, and
    none has a ratio without `adaptive`. clip_norm: of all gradients together, before the update.
    """
    parts = [
        clip(clip_norm),
        optax.scale_by_adam(beta1, beta2, epsilon),
        optax.add_decayed_weights(weight_decay, decayed),
    ]
    if adaptive:
        parts.append(optax.masked(optax.scale_by_trust_ratio(), decayed))
    return optax.chain(*parts, optax.scale_by_learning_rate(learning_rate))
