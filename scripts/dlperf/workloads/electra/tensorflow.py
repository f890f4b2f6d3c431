"""ELECTRA-Base pre-training in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; the encoder of
frameworks/tensorflow/transformer.py; the generator's decoder at chosen positions only; LAMB finds
its changes by one operator a tensor. Under AMP, fp32 variables are cast to bfloat16 or float16
where they are used.
"""

import tensorflow as tf

from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow import transformer
from dlperf.frameworks.tensorflow.lamb import Lamb
from dlperf.frameworks.tensorflow.transformer import (
    Dense,
    Embedded,
    LayerNorm,
    encoded,
    gelu,
    layers,
    parameters,
    rows,
    variable,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.electra.input import empty


class Electra(Embedded):
    def __init__(self):
        super().__init__(facts)
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_input = Dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(facts, *generator)
        self.generator_head = Dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = LayerNorm(facts, facts.WIDTH)
        self.generator_bias = variable(facts.VOCABULARY)
        self.discriminator = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_head = Dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = Dense(facts.WIDTH, 1)

    def generate(self, table, tokens, segments, mask, positions, dtype, training=True):
        """Scores of all words at the chosen positions: (batch x places, vocabulary)."""
        x = self.generator_input(self.embed(table, tokens, segments, dtype, training))
        x = encoded(self.generator, x, mask, dtype, training)
        hidden = gelu(self.generator_head(tf.gather(x, rows(positions, tokens.shape[1]))))
        words = tf.matmul(self.generator_norm(hidden), tf.cast(table, dtype), transpose_b=True)
        words = tf.nn.bias_add(words, tf.cast(self.generator_bias, dtype))
        return tf.cast(words, framework.dtype())  # losses and samples are not for half precision

    def discriminate(self, table, tokens, segments, mask, dtype, training=True):
        """(batch, tokens): above 0 where a token was replaced."""
        x = self.embed(table, tokens, segments, dtype, training)
        x = encoded(self.discriminator, x, mask, dtype, training)
        found = self.discriminator_output(gelu(self.discriminator_head(x)))
        return tf.cast(tf.reshape(found, tokens.shape), framework.dtype())


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, (words, vocabulary), which Gumbel's noise does."""
    if noise is None:
        inner = tf.random.uniform(scores.shape, dtype=scores.dtype) + facts.NOISE_EPSILON
        noise = -tf.math.log(facts.NOISE_EPSILON - tf.math.log(inner))
    noise = tf.reshape(tf.cast(noise, scores.dtype), scores.shape)
    return tf.argmax(scores + noise, -1)


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return Electra()


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    single = ("word_embedding", "position_embedding", "segment_embedding", "generator_bias")
    modules = ("embedding_norm", "generator_input", "generator_head", "generator_norm")
    modules += ("discriminator_head", "discriminator_output")
    stacks = {"generator.": network.generator, "discriminator.": network.discriminator}
    return framework.Weights(run, parameters(network, single, modules, stacks))


def loss(run, network, tokens, segments, mask, positions, labels, chosen, noise=None):
    dtype, table = framework.compute_dtype(run), network.table()
    # without XLA, a GPU leaves what is computed of int32 to the host, which waits for it
    tokens, labels = tf.cast(tokens, tf.int64), tf.cast(labels, tf.int64)
    words = network.generate(table, tokens, segments, mask, positions, dtype)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(labels, [-1]), words)
    used = tf.cast(chosen, words.dtype)
    generator = tf.reduce_sum(tf.reshape(used, [-1]) * each) / tf.reduce_sum(used)

    # an unused place stands for [CLS], and gets it again
    samples = tf.reshape(sample(words, noise), labels.shape)
    filled = put(tokens, positions, tf.where(chosen > 0, samples, labels))
    fake = tf.cast(filled != put(tokens, positions, labels), words.dtype)
    found = network.discriminate(table, filled, segments, mask, dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(fake, found)
    mask = tf.cast(mask, words.dtype)
    discriminator = tf.reduce_sum(each * mask) / tf.reduce_sum(mask)
    return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def put(tokens, positions, words):
    """The tokens with these words (batch, places) at these positions."""
    places, words = rows(positions, tokens.shape[1]), tf.reshape(words, [-1])
    flat = tf.tensor_scatter_nd_update(tf.reshape(tokens, [-1]), places[:, None], words)
    return tf.reshape(flat, tokens.shape)


def optimizer(run, network):
    return Lamb(
        network.trainable_variables,
        facts.learning_rate(run.global_batch_size),
        (facts.BETA1, facts.BETA2),
        facts.EPSILON,
        facts.WEIGHT_DECAY,
        facts.ADAPTIVE,
        facts.CLIP_NORM,
    )


def training(run):
    network = model(run)
    parity = {"optimizer": "LAMB, Adam fused (ResourceApplyAdam)", "clip": "global norm"}
    lamb = optimizer(run, network)
    own = (lamb, weights(run, network), empty, parity)
    schedule = facts.schedule(run)
    if not schedule:
        return transformer.train(run, network, loss, *own)

    def train(run, rates):
        return transformer.train(run, network, loss, *own, schedule=rates, outputs=evaluated)

    work = phases.joined(run, train, schedule)
    return phases.work(run, work, lambda: lamb.steps.assign(0))


def evaluated(run, network, tokens, segments, mask, positions, labels, chosen, noise=None):
    """In the quality scenario: what facts.tally takes."""
    dtype, table = framework.compute_dtype(run), network.word_embedding
    tokens = tf.cast(tokens, tf.int64)
    words = network.generate(table, tokens, segments, mask, positions, dtype, training=False)
    there = tf.gather(tokens, positions, batch_dims=1)
    samples = tf.where(chosen > 0, tf.reshape(sample(words, noise), positions.shape), there)
    filled = put(tokens, positions, samples)
    found = network.discriminate(table, filled, segments, mask, dtype, training=False)
    shares = tf.cast(samples, found.dtype) / facts.DRAWN_UNIT
    return tf.concat([tf.reshape(words, [tokens.shape[0], -1]), shares, found], 1)
