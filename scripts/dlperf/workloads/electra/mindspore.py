"""ELECTRA-Base pre-training in MindSpore.

As fast as it gets: the encoder of frameworks/mindspore/transformer.py; the generator's decoder at
chosen positions only; the whole step, samples, clip, update and reduction included, in one graph.
"""

import mindspore as ms
from mindspore import ops

from dlperf.frameworks.mindspore import training as framework
from dlperf.frameworks.mindspore import transformer
from dlperf.frameworks.mindspore.lamb import Lamb
from dlperf.frameworks.mindspore.transformer import (
    Embedded,
    attention_bias,
    chosen,
    cross_entropies,
    dense,
    gelu,
    layer_norm,
    layers,
    loss,
    prepared,
    zeros,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.encoders.layers import canonical


class Electra(Embedded):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds."""

    def __init__(self):
        super().__init__(facts)
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_input = dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(facts, *generator)
        self.generator_head = dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = layer_norm(facts, facts.WIDTH)
        self.generator_bias = zeros(facts.VOCABULARY)
        self.discriminator = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_head = dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = dense(facts.WIDTH, 1)

    def generate(self, tokens, segments, bias, positions):
        """Scores of all words at the chosen positions: (batch x places, vocabulary)."""
        x = self.generator_input(self.embed(tokens, segments))
        for layer in self.generator:
            x = layer(x, bias)
        hidden = gelu(self.generator_head(chosen(x, tokens, positions)))
        return self.decode(self.generator_norm(hidden), self.generator_bias).astype(ms.float32)

    def discriminate(self, tokens, segments, bias):
        """(batch, tokens): above 0 where a token was replaced."""
        x = self.embed(tokens, segments)
        for layer in self.discriminator:
            x = layer(x, bias)
        found = self.discriminator_output(gelu(self.discriminator_head(x)))
        return found.reshape(tokens.shape).astype(ms.float32)

    def construct(self, tokens, segments, mask, positions, labels, used, noise=None):
        bias = attention_bias(mask, self.word_embedding.dtype)
        words = self.generate(tokens, segments, bias, positions)
        each = cross_entropies(words, labels)
        generator = (each * used.reshape(-1)).sum() / used.sum()

        # an unused place stands for [CLS], and gets it again
        drawn = sample(ops.stop_gradient(words), noise).reshape(labels.shape)
        drawn = ops.select(used > 0, drawn, labels)
        original = ops.tensor_scatter_elements(tokens, positions, labels, axis=1)
        replaced = ops.tensor_scatter_elements(tokens, positions, drawn, axis=1)
        fake = (replaced != original).astype(ms.float32)
        found = self.discriminate(replaced, segments, bias)
        one, mask = ops.ones_like(found), mask.astype(ms.float32)
        each = ops.binary_cross_entropy_with_logits(found, fake, mask, one, reduction="sum")
        return generator + facts.DISCRIMINATOR_WEIGHT * each / mask.sum()

    def evaluate(self, tokens, segments, mask, positions, used, noise=None):
        """In the quality scenario: what facts.tally takes."""
        bias = attention_bias(mask, self.word_embedding.dtype)
        words = self.generate(tokens, segments, bias, positions)
        drawn = sample(words, noise).reshape(positions.shape)
        drawn = ops.select(used > 0, drawn, ops.gather_elements(tokens, 1, positions))
        replaced = ops.tensor_scatter_elements(tokens, positions, drawn, axis=1)
        found = self.discriminate(replaced, segments, bias)
        shares = drawn.astype(ms.float32) / facts.DRAWN_UNIT
        return ops.cat([words.reshape((tokens.shape[0], -1)), shares, found], 1)


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, which Gumbel's noise does: int32, (places,)."""
    if noise is None:
        inner = -ops.log(ops.rand_like(scores) + facts.NOISE_EPSILON)
        noise = -ops.log(inner + facts.NOISE_EPSILON)
    return ops.argmax(scores + noise.reshape(scores.shape), -1).astype(ms.int32)


def model(run):
    return prepared(run, Electra())


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.parameters_and_names()
    return framework.Weights({canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    return Lamb(
        network.trainable_params(),
        facts.learning_rate(run.global_batch_size),
        (facts.BETA1, facts.BETA2),
        facts.EPSILON,
        facts.WEIGHT_DECAY,
        facts.ADAPTIVE,
        facts.CLIP_NORM,
    )


def training(run):
    run = phases.told(run)
    network = model(run)
    parity = {"optimizer": "LAMB, on ops.Adam", "clip": "global norm"}
    lamb = optimizer(run, network)
    own = (lamb, weights(run, network), parity)
    more = {"schedule": facts.schedule(run), "outputs": evaluated}

    def count_anew():
        framework.assign(lamb.steps, ops.zeros_like(lamb.steps))

    return phases.work(run, transformer.train(run, network, loss, *own, **more), count_anew)


def evaluated(network, tokens, segments, mask, positions, labels, *others):
    return network.evaluate(tokens, segments, mask, positions, *others)
