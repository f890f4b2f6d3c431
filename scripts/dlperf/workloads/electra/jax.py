"""ELECTRA-Base pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: the encoder of frameworks/jax/transformer.py; the generator's decoder at chosen
positions only; the noise of its samples is made in the program of the step.
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from dlperf.frameworks.jax import phases as phased
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax import transformer
from dlperf.frameworks.jax.lamb import lamb
from dlperf.frameworks.jax.transformer import (
    CLIP,
    Embeddings,
    Layer,
    cross_entropy,
    dense,
    gelu,
    loss,
    norm,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.electra.input import empty


class Encoder(nn.Module):
    heads: int
    inner_width: int
    dtype: jnp.dtype
    training: bool

    @nn.compact
    def __call__(self, x, mask):
        for layer in range(facts.LAYERS):
            own = (facts, self.heads, self.inner_width, self.dtype, self.training)
            x = Layer(*own, name="layer%d" % layer)(x, mask)
        return x


class Electra(nn.Module):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds.
    Without training, what facts.tally takes."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True

    @nn.compact
    def __call__(self, tokens, segments, mask, positions, labels, chosen, noise=None):
        dtype, real = self.dtype, (mask > 0)[:, None, None, :]
        embed = Embeddings(facts, dtype, self.training)  # for both

        x = dense(facts.GENERATOR_WIDTH, dtype, "generator_input")(embed(tokens, segments))
        own = (facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH, dtype, self.training)
        x = Encoder(*own, name="generator")(x, real)
        x = x.reshape(tokens.shape + (facts.GENERATOR_WIDTH,))
        x = jnp.take_along_axis(x, positions[:, :, None], axis=1)
        hidden = gelu(dense(facts.WIDTH, dtype, "generator_head")(x))
        hidden = norm(facts, dtype, "generator_norm")(hidden)
        bias = self.param("generator_bias", nn.initializers.zeros, (facts.VOCABULARY,))
        words = embed.scores(hidden) + bias

        # an unused place stands for [CLS], and gets it again
        key = None if facts.GIVEN_NOISE else self.make_rng("dropout")
        samples = sample(jax.lax.stop_gradient(words), key, noise)
        samples = jnp.where(chosen > 0, samples, jnp.take_along_axis(tokens, positions, axis=1))
        rows = jnp.arange(len(tokens))[:, None]
        inputs = tokens.at[rows, positions].set(samples)

        own = (facts.HEADS, facts.INNER_WIDTH, dtype, self.training)
        x = Encoder(*own, name="discriminator")(embed(inputs, segments), real)
        hidden = gelu(dense(facts.WIDTH, dtype, "discriminator_head")(x))
        found = dense(1, dtype, "discriminator_output")(hidden).reshape(tokens.shape)
        found = found.astype(jnp.promote_types(found.dtype, jnp.float32))
        if not self.training:
            words = words.reshape(len(tokens), -1).astype(found.dtype)
            shares = samples.astype(found.dtype) / facts.DRAWN_UNIT
            return jnp.concatenate([words, shares, found], axis=1)

        each = cross_entropy(words, labels)
        generator = jnp.sum(each * chosen) / jnp.sum(chosen)
        fake = inputs != tokens.at[rows, positions].set(labels)
        each = optax.sigmoid_binary_cross_entropy(found, fake)
        discriminator = jnp.sum(each * mask) / jnp.sum(mask)
        return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def sample(scores, key, noise=None):
    """Words drawn by softmax of their scores, which Gumbel's noise does: (batch, places)."""
    scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    if noise is None:
        uniform = jax.random.uniform(key, scores.shape, scores.dtype)
        inner = -jnp.log(uniform + facts.NOISE_EPSILON)
        noise = -jnp.log(inner + facts.NOISE_EPSILON)
    return jnp.argmax(scores + noise, -1).astype(jnp.int32)


def model(run):
    return Electra(framework.compute_dtype(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    return transformer.weights(run, network, empty)


def optimizer(run, network):
    def made(learning_rate):
        return lamb(
            learning_rate,
            facts.BETA1,
            facts.BETA2,
            facts.EPSILON,
            facts.WEIGHT_DECAY,
            facts.ADAPTIVE,
            facts.CLIP_NORM,
        )

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        made = optax.inject_hyperparams(made)
    return made(facts.learning_rate(run.global_batch_size))


def training(run):
    run = phases.told(run)
    network = model(run)
    parity = {"optimizer": "LAMB of optax's parts, fused by XLA", "clip": CLIP}
    own = (optimizer(run, network), weights(run, network))
    if not facts.schedule(run):
        return transformer.train(run, network, loss, *own, empty, parity)
    shapes = [
        transformer.shapes(each, empty, each.batch_size * each.data_parallel)
        for each in phases.alone(run)
    ]
    work, count_anew = phased.train(
        run,
        network,
        loss,
        *own,
        transformer.put,
        framework.first_key(run),
        shapes,
        dict({"attention": transformer.ATTENTION}, **parity),
        facts.schedule(run),
        evaluated,
    )
    return phases.work(run, work, count_anew)


def evaluated(run, network, parameters, carried, *batch):
    """In the quality scenario: what facts.tally takes."""
    # of the words that are drawn
    drawing = jax.random.wrap_key_data(carried, impl=framework.generator(run))
    network = network.clone(training=False)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": drawing})
