"""ELECTRA-Base pre-training in PyTorch.

As fast as it gets: the encoder of frameworks/pytorch/transformer.py, the generator's decoder at
chosen positions only, LAMB by operators on all tensors at once.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch import transformer
from dlperf.frameworks.pytorch.lamb import Lamb
from dlperf.frameworks.pytorch.transformer import (
    CLIP,
    Embedded,
    attention_bias,
    dense,
    encoded,
    layer_norm,
    layers,
    loss,
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
        self.generator_bias = nn.Parameter(torch.zeros(facts.VOCABULARY))
        self.discriminator = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_head = dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = dense(facts.WIDTH, 1)

    def generate(self, tokens, segments, bias, positions):
        """Scores of all words at the chosen positions: (batch, places, vocabulary)."""
        x = self.generator_input(self.embed(tokens, segments))
        x = encoded(self.generator, x, bias)
        x = x.gather(1, positions[:, :, None].expand(-1, -1, facts.GENERATOR_WIDTH))
        hidden = self.generator_norm(F.gelu(self.generator_head(x)))
        return F.linear(hidden, self.word_embedding.weight, self.generator_bias)

    def discriminate(self, tokens, segments, bias):
        x = self.embed(tokens, segments)
        x = encoded(self.discriminator, x, bias)
        return self.discriminator_output(F.gelu(self.discriminator_head(x)))[:, :, 0]

    def forward(self, tokens, segments, mask, positions, labels, chosen, noise=None):
        bias = attention_bias(mask, self.word_embedding.weight.dtype)
        words = self.generate(tokens, segments, bias, positions)
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        generator = (each * chosen.flatten()).sum() / chosen.sum()

        # an unused place stands for [CLS], and gets it again
        samples = torch.where(chosen > 0, sample(words.detach(), noise), labels)
        replaced = tokens.scatter(1, positions, samples)
        fake = replaced != tokens.scatter(1, positions, labels)
        found = self.discriminate(replaced, segments, bias)
        each = F.binary_cross_entropy_with_logits(found, fake.to(found.dtype), reduction="none")
        discriminator = (each * mask).sum() / mask.sum()
        return generator + facts.DISCRIMINATOR_WEIGHT * discriminator

    def evaluate(self, tokens, segments, mask, positions, chosen, noise=None):
        """In the quality scenario: what facts.tally takes, in the model's own type."""
        bias = attention_bias(mask, self.word_embedding.weight.dtype)
        words = self.generate(tokens, segments, bias, positions)
        samples = torch.where(chosen > 0, sample(words, noise), tokens.gather(1, positions))
        found = self.discriminate(tokens.scatter(1, positions, samples), segments, bias)
        shares = samples.to(chosen.dtype) / facts.DRAWN_UNIT
        return torch.cat([words.flatten(1).to(chosen.dtype), shares, found.to(chosen.dtype)], 1)


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, which Gumbel's noise does: (batch, places)."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    if noise is None:
        inner = -torch.log(torch.rand_like(scores) + facts.NOISE_EPSILON)
        noise = -torch.log(inner + facts.NOISE_EPSILON)
    return (scores + noise).argmax(-1)


def model(run):
    return Electra().to(run.device).train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    dense, others = framework.by_decay(network, facts.WEIGHT_DECAY)
    return Lamb(
        [dict(dense, adaptive=facts.ADAPTIVE), dict(others, adaptive=False)],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        clip_norm=facts.CLIP_NORM,
    )


def training(run):
    run = phases.told(run)
    network = model(run)
    parity = {"optimizer": "LAMB, Adam's kernel", "clip": CLIP}
    lamb = optimizer(run, network)
    own = (lamb, weights(run, network), parity)
    work = transformer.train(
        run, network, loss, *own, schedule=facts.schedule(run), outputs=evaluated
    )
    return phases.work(run, work, lamb.count_anew)


def evaluated(run, network, tokens, segments, mask, positions, labels, *others):
    return network.evaluate(tokens, segments, mask, positions, *others)
