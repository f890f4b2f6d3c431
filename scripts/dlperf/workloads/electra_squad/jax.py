"""ELECTRA-Base fine-tuned on SQuAD in JAX, with Flax (linen) and Optax.

As fast as it gets: the encoder of frameworks/jax/transformer.py; a start's half of the end's head
once for all tokens.
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax import transformer
from dlperf.frameworks.jax.transformer import (
    ADAMW,
    CLIP,
    Embeddings,
    Layer,
    cross_entropy,
    dense,
    loss,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import empty


class Reader(nn.Module):
    """The loss of a batch, or without training the starts and ends of its answers."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True

    @nn.compact
    def __call__(self, tokens, segments, mask, allowed, first, last, impossible, windows):
        x = Embeddings(facts, self.dtype, self.training)(tokens, segments)
        mask = (mask > 0)[:, None, None, :]
        for layer in range(facts.LAYERS):
            own = (facts, facts.HEADS, facts.INNER_WIDTH, self.dtype, self.training)
            x = Layer(*own, name="layer%d" % layer)(x, mask)
        x = x.reshape(tokens.shape + (facts.WIDTH,))

        blocked = facts.BLOCKED * (1 - allowed)
        starts = self.without_bias(1, "start")(x)[:, :, 0] - blocked
        logarithms = nn.log_softmax(starts)
        if self.training:
            places = first[:, None]
        else:
            places = jnp.sort(jax.lax.top_k(logarithms, facts.BEAM)[1], 1)
        ends = self.ends(x, places) - blocked[:, None]
        score = self.impossible(x, starts)
        if self.training:
            pieces = cross_entropy(starts, first) + cross_entropy(ends[:, 0], last)
            answer = optax.sigmoid_binary_cross_entropy(score.astype(impossible.dtype), impossible)
            return jnp.mean(pieces / 2 + facts.ANSWERABLE_WEIGHT * answer)
        scores = jnp.concatenate([logarithms[:, None], nn.log_softmax(ends)], 1) * allowed[:, None]
        heads = jnp.concatenate([score[:, None], places], 1).astype(scores.dtype)
        return jnp.concatenate([heads[:, :, None], scores], 2)

    def without_bias(self, outputs, name):
        return nn.Dense(outputs, use_bias=False, dtype=self.dtype, name=name)

    def ends(self, x, places):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        chosen = jnp.take_along_axis(x, places[:, :, None], axis=1)
        own = dense(facts.WIDTH, self.dtype, "end_token")(x)
        hidden = own[:, None] + self.without_bias(facts.WIDTH, "end_start")(chosen)[:, :, None]
        epsilon = facts.LAYER_NORM_EPSILON
        norm = nn.LayerNorm(epsilon=epsilon, use_bias=False, dtype=self.dtype, name="end_norm")
        return self.without_bias(1, "end_output")(norm(jnp.tanh(hidden)))[:, :, :, 0]

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        expected = jnp.einsum("bt,btw->bw", nn.softmax(starts).astype(x.dtype), x)
        hidden = jnp.concatenate([expected, x[:, 0]], -1)
        hidden = jnp.tanh(dense(facts.WIDTH, self.dtype, "answer")(hidden))
        return dense(1, self.dtype, "answer_output")(hidden)[:, 0]


def model(run, training=True):
    return Reader(framework.compute_dtype(run), training)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    return transformer.weights(run, network, empty)


def slower_below():
    """Changes of each tensor times its share of the rate."""

    def update(changes, state, parameters=None):
        def scaled(path, change):
            return change * facts.rate_share(".".join(part.key for part in path))

        return jax.tree_util.tree_map_with_path(scaled, changes), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def optimizer(run, network):
    return transformer.adamw(run, facts, facts.CLIP_NORM, slower_below())


def training(run):
    network = model(run)
    parity = {"optimizer": ADAMW, "clip": CLIP}
    own = (optimizer(run, network), weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run)
    return transformer.infer(run, network, outputs, weights(run, network), empty)


def outputs(run, network, parameters, carried, *batch):
    return network.clone(training=False).apply({"params": parameters}, *batch)
