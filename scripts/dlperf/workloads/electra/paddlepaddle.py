"""ELECTRA-Base pre-training in PaddlePaddle.

The encoder of frameworks/paddlepaddle/transformer.py; the generator's decoder at chosen positions
only; Paddle's own LAMB in one kernel a tensor, the clip in place. On the CPU: to_static without
oneDNN. On the GPU, which this has not run on: level O2 (narrow weights, fp32 master weights) under
AMP, with fp32 gradients for the clip's norm.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.frameworks.paddlepaddle import transformer
from dlperf.frameworks.paddlepaddle.transformer import (
    Embedded,
    chosen,
    dense,
    encoded,
    layer_norm,
    layers,
    loss,
    products,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.electra.input import empty
from dlperf.workloads.encoders.layers import canonical


class Electra(Embedded):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds."""

    def __init__(self, fused):
        super().__init__(facts)
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_input = dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(facts, *generator, fused)
        self.generator_head = dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = layer_norm(facts, facts.WIDTH)
        self.generator_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.discriminator = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.discriminator_head = dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = dense(facts.WIDTH, 1)

    def generate(self, tokens, segments, mask, positions):
        """Scores of all words at the chosen positions: (batch x places, vocabulary)."""
        x = self.generator_input(self.embed(tokens, segments))
        x = encoded(self.generator, x, mask)
        hidden = self.generator_norm(F.gelu(self.generator_head(chosen(x, positions))))
        words = paddle.matmul(hidden, self.word_embedding.weight, transpose_y=True)
        return words + self.generator_bias

    def discriminate(self, tokens, segments, mask):
        x = encoded(self.discriminator, self.embed(tokens, segments), mask)
        return self.discriminator_output(F.gelu(self.discriminator_head(x))).squeeze(2)

    def forward(self, tokens, segments, mask, positions, labels, used, noise=None):
        words = self.generate(tokens, segments, mask, positions)
        each = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        generator = (each * used.reshape([-1, 1])).sum() / used.sum()

        # an unused place stands for [CLS], and gets it again
        samples = sample(words.detach(), noise).reshape(labels.shape)
        samples = paddle.where(used > 0, samples, labels)
        filled = tokens.put_along_axis(positions, samples, 1)
        fake = filled != tokens.put_along_axis(positions, labels, 1)
        found = self.discriminate(filled, segments, mask).astype(used.dtype)
        fake, mask = fake.astype(used.dtype), mask.astype(used.dtype)
        each = F.binary_cross_entropy_with_logits(found, fake, reduction="none")
        return generator + facts.DISCRIMINATOR_WEIGHT * ((each * mask).sum() / mask.sum())

    def evaluate(self, tokens, segments, mask, positions, used, noise=None):
        """In the quality scenario: what facts.tally takes, in the model's own type."""
        words = self.generate(tokens, segments, mask, positions)
        there = paddle.take_along_axis(tokens, positions, 1)
        samples = paddle.where(used > 0, sample(words, noise).reshape(positions.shape), there)
        filled = tokens.put_along_axis(positions, samples, 1)
        found = self.discriminate(filled, segments, mask).astype(used.dtype)
        shares = samples.astype(used.dtype) / facts.DRAWN_UNIT
        words = words.astype(used.dtype).reshape([tokens.shape[0], -1])
        return paddle.concat([words, shares, found], 1)


class Evaluated(nn.Layer):
    """In the quality scenario."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, tokens, segments, mask, positions, labels, *others):
        return self.network.evaluate(tokens, segments, mask, positions, *others)


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, (words, vocabulary), which Gumbel's noise does."""
    scores = scores.astype(paddle.get_default_dtype())  # ties of half precision favour low ids
    if noise is None:
        inner = -paddle.log(paddle.rand(scores.shape) + facts.NOISE_EPSILON)
        noise = -paddle.log(inner + facts.NOISE_EPSILON)
    return (scores + noise.reshape(scores.shape)).argmax(-1)


def model(run):
    network = Electra(fused=run.amp)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    # What is excluded from decay has no ratio either.
    return paddle.optimizer.Lamb(
        facts.learning_rate(run.global_batch_size),
        facts.WEIGHT_DECAY,
        rounded(facts.BETA1),
        rounded(facts.BETA2),
        facts.EPSILON,
        parameters=network.parameters(),
        grad_clip=nn.ClipGradByGlobalNorm(facts.CLIP_NORM),
        exclude_from_weight_decay_fn=lambda p: p.ndim == 1 or not facts.ADAPTIVE,
    )


def rounded(number):
    """As the kernel has it, which takes a float32: moments are corrected by powers of the same."""
    return float(np.float32(number))


def training(run):
    products(run)
    network = model(run)
    parity = {"optimizer": "LAMB", "clip": "global norm"}
    lamb = optimizer(run, network)
    own = (lamb, weights(run, network), empty, parity)
    schedule = facts.schedule(run)
    if not schedule:
        return transformer.train(run, network, loss, *own)

    def train(run, rates):
        given = len(empty(1, run.dimensions["sequence_length"]))
        more = {"schedule": rates, "outputs": evaluated, "tested": given}
        return transformer.train(run, network, loss, *own, **more)

    def count_anew():
        """Moments are corrected by powers of the betas, which the optimiser keeps for each."""
        for kind, beta in (("beta1_pow_acc", facts.BETA1), ("beta2_pow_acc", facts.BETA2)):
            for each in lamb._accumulators.get(kind, {}).values():
                each.set_value(paddle.full_like(each, rounded(beta)))

    return phases.work(run, phases.joined(run, train, schedule), count_anew)


def evaluated(run, network):
    return Evaluated(network)
