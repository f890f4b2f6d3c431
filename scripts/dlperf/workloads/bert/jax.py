"""BERT-Base pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: the encoder of frameworks/jax/transformer.py; the decoder at predicted positions
only.
"""

import jax.numpy as jnp
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
    gelu,
    loss,
    norm,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty


class Bert(nn.Module):
    """The loss of a batch: masked words and sentence pairs. Without training, the encoder alone,
    or for tests what the masked words' softmax takes."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True
    tests: bool = False
    padding: int = 0  # columns behind the vocabulary in the decoder's product

    @nn.compact
    def __call__(self, tokens, segments, mask, positions, labels, predicted, follows):
        embed = Embeddings(facts, self.dtype, self.training)
        x = embed(tokens, segments)
        mask = (mask > 0)[:, None, None, :]
        for layer in range(facts.LAYERS):
            own = (facts, facts.HEADS, facts.INNER_WIDTH, self.dtype, self.training)
            x = Layer(*own, name="layer%d" % layer)(x, mask)

        x = x.reshape(tokens.shape + (facts.WIDTH,))
        if not (self.training or self.tests):
            return x
        hidden = jnp.take_along_axis(x, positions[:, :, None], axis=1)
        hidden = gelu(dense(facts.WIDTH, self.dtype, "mlm")(hidden))
        hidden = norm(facts, self.dtype, "mlm_norm")(hidden)
        bias = self.param("mlm_bias", nn.initializers.zeros, (facts.VOCABULARY,))
        if self.tests:
            return embed.scores(hidden) + bias
        pooled = jnp.tanh(dense(facts.WIDTH, self.dtype, "pooler")(x[:, 0]))
        if self.padding:
            bias = jnp.pad(bias, (0, self.padding), constant_values=facts.PADDING_SCORE)
        each = cross_entropy(embed.scores(hidden, self.padding) + bias, labels)
        language = jnp.sum(each * predicted) / jnp.sum(predicted)
        pairs = dense(2, self.dtype, "nsp")(pooled)
        return language + cross_entropy(pairs, follows).mean()


def model(run, training=True):
    padding = facts.padding(run.dimensions)
    return Bert(framework.compute_dtype(run), training, padding=padding)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    return transformer.weights(run, network, empty)


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return transformer.adamw(run, facts, clip_norm)


def training(run):
    network = model(run)
    parity = {
        "optimizer": ADAMW,
        "clip": CLIP if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    own = (loss, optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    own = weights(run, model(run))  # the whole model's; the encoder takes what it has a use for
    return transformer.infer(run, model(run, training=False), outputs, own, empty)


def outputs(run, network, parameters, carried, *batch):
    return network.apply({"params": parameters}, *batch)


def tested(run, network, parameters, carried, *batch):
    """In the quality scenario: what the masked words' softmax takes."""
    network = network.clone(training=False, tests=True)
    return network.apply({"params": parameters}, *batch)
