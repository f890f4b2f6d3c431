"""ELECTRA-Base pre-training in TensorFlow 1.15, as a session graph.

As fast as it gets: the encoder of frameworks/tensorflow1/transformer.py, one dense gradient of the
words that two lookups and the decoder share, the decoder at chosen positions only, LAMB by
ApplyAdam.
"""

import functools

import tensorflow as tf

from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.frameworks.tensorflow1 import transformer
from dlperf.frameworks.tensorflow1.lamb import Lamb
from dlperf.frameworks.tensorflow1.transformer import (
    attention_bias,
    chosen,
    decoder,
    dense,
    embed,
    gelu,
    layer_norm,
    layers,
    tied,
    variable,
    weights,
)
from dlperf.workloads.electra import facts
from dlperf.workloads.electra.input import empty


def generate(run, x, bias, words, positions):
    """Scores of all words at the chosen positions: (batch * places, vocabulary)."""
    x = dense(x, facts.GENERATOR_WIDTH, "generator_input")
    sizes = (facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
    x = layers(run, facts, x, bias, *sizes, "generator/", training=True)
    hidden = gelu(dense(chosen(x, positions), facts.WIDTH, "generator_head"))
    hidden = decoder(run, layer_norm(facts, hidden, "generator_norm"), words)
    return tf.nn.bias_add(hidden, variable("generator_bias", facts.VOCABULARY))


def discriminate(run, x, bias):
    """(batch * tokens): above 0 where a token was replaced."""
    sizes = (facts.HEADS, facts.INNER_WIDTH)
    x = layers(run, facts, x, bias, *sizes, "discriminator/", training=True)
    found = dense(gelu(dense(x, facts.WIDTH, "discriminator_head")), 1, "discriminator_output")
    return tf.reshape(found, [-1])


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, (words, vocabulary), which Gumbel's noise does."""
    if noise is None:
        inner = tf.random.uniform(scores.shape, dtype=scores.dtype) + facts.NOISE_EPSILON
        noise = -tf.math.log(facts.NOISE_EPSILON - tf.math.log(inner))
    noise = tf.reshape(tf.cast(noise, scores.dtype), scores.shape)
    return tf.argmax(scores + noise, -1, output_type=tf.int32)


def electra(run, tokens, segments, mask, positions, labels, used, noise=None):
    """(scores of words at chosen positions, the discriminator's of tokens, which are replaced)."""
    words = variable("word_embedding", facts.VOCABULARY, facts.WIDTH)
    first, second, words = tied(words, lookups=2)
    bias = attention_bias(run, mask)
    x = embed(facts, first, tokens, segments, training=True)
    words = generate(run, x, bias, words, positions)

    # an unused place stands for [CLS], and gets it again
    samples = tf.reshape(sample(words, noise), labels.shape)
    filled = put(tokens, positions, tf.where(used > 0, samples, labels))
    fake = tf.not_equal(filled, put(tokens, positions, labels))
    x = embed(facts, second, filled, segments, training=True)
    return words, discriminate(run, x, bias), tf.reshape(fake, [-1])


def put(tokens, positions, words):
    """The tokens with these words (batch, places) at these positions."""
    rows = tf.range(int(tokens.shape[0]))[:, None] + tf.zeros_like(positions)
    return tf.tensor_scatter_nd_update(tokens, tf.stack([rows, positions], -1), words)


def model(run):
    return functools.partial(electra, run)


def loss(run, network, tokens, segments, mask, positions, labels, used, *noise):
    words, found, fake = network(tokens, segments, mask, positions, labels, used, *noise)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(labels, [-1]), logits=words
    )
    used = tf.reshape(tf.cast(used, words.dtype), [-1])
    generator = tf.reduce_sum(used * each) / tf.reduce_sum(used)

    fake = tf.cast(fake, found.dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=fake, logits=found)
    mask = tf.reshape(tf.cast(mask, found.dtype), [-1])
    discriminator = tf.reduce_sum(mask * each) / tf.reduce_sum(mask)
    return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def optimizer(run, network):
    return Lamb(
        framework.dtype(run),
        facts.learning_rate(run.global_batch_size),
        (facts.BETA1, facts.BETA2),
        facts.EPSILON,
        facts.WEIGHT_DECAY,
        facts.ADAPTIVE,
        facts.CLIP_NORM,
    )


def fields(run):
    return transformer.fields(run, empty)


def training(run):
    parity = {"optimizer": "LAMB by ApplyAdam", "clip": "global norm"}
    own = (model(run), loss, optimizer, weights, fields(run), parity)
    return transformer.train(run, *own)
