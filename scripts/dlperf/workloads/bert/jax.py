"""BERT-Base pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: the encoder of frameworks/jax/transformer.py; the decoder at predicted positions
only.
"""

import jax.numpy as jnp
import optax
from flax import linen as nn

from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax.clip import clip
from dlperf.frameworks.jax.transformer import (
    ATTENTION,
    Embeddings,
    Layer,
    cross_entropy,
    dense,
    gelu,
    names,
    norm,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import Batch, empty


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
    example = empty(1, run.dimensions["sequence_length"])
    shapes = framework.shapes_of(run, network, *example)["params"]
    return framework.Weights(run, names(framework.named(shapes)), shapes)


def loss(run, network, parameters, random, *batch):
    """(the network's loss, the next step's random key)"""
    used, random = framework.split_key(run, random)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": used}), random


def optimizer(run, network):
    def adamw(learning_rate):
        adam = optax.adamw(
            learning_rate,
            facts.BETA1,
            facts.BETA2,
            facts.EPSILON,
            weight_decay=facts.WEIGHT_DECAY,
            mask=framework.decayed,
        )
        return optax.chain(clip(facts.CLIP_NORM), adam) if run.dimensions["clip"] else adam

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        adamw = optax.inject_hyperparams(adamw)
    return adamw(facts.learning_rate(run.global_batch_size))


def put(run, *batch):
    """A Batch with `predicted` in the model's type."""
    batch = Batch(*batch)
    return batch._replace(predicted=batch.predicted.astype("f8" if run.float64 else "f4"))


def shapes(run, count):
    """Of a batch of `count` sequences."""
    batch = empty(count, run.dimensions["sequence_length"])
    return [(each.shape, each.dtype) for each in put(run, *batch)]


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        carried=framework.first_key(run),
        shapes=shapes(run, run.batch_size * run.data_parallel),
        parity={
            "attention": ATTENTION,
            "optimizer": "optax.adamw, fused by XLA",
            "clip": "global norm, fused by XLA" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
        schedule=facts.schedule(run),
        outputs=tested,
    )


def inference(run):
    own = weights(run, model(run))  # the whole model's; the encoder takes what it has a use for
    network = model(run, training=False)
    given = shapes(run, run.batch_size)
    parity = {"attention": ATTENTION}
    return answers.infer(run, network, outputs, own, put, given, parity=parity)


def outputs(run, network, parameters, carried, *batch):
    return network.apply({"params": parameters}, *batch)


def tested(run, network, parameters, carried, *batch):
    """Of a training to a quality: what the masked words' softmax takes."""
    network = network.clone(training=False, tests=True)
    return network.apply({"params": parameters}, *batch)
