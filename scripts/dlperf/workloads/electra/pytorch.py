"""ELECTRA-Base pre-training in PyTorch.

As fast as it gets: the encoder of frameworks/pytorch/transformer.py, the generator's decoder at
chosen positions only, LAMB by operators on all tensors at once.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch.lamb import Lamb
from dlperf.frameworks.pytorch.transformer import (
    Layer,
    attention_bias,
    dense,
    embedding,
    layer_norm,
)
from dlperf.workloads.electra import facts


class Electra(nn.Module):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds."""

    def __init__(self):
        super().__init__()
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.word_embedding = embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm(facts, facts.WIDTH)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.generator_input = dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(*generator)
        self.generator_head = dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = layer_norm(facts, facts.WIDTH)
        self.generator_bias = nn.Parameter(torch.zeros(facts.VOCABULARY))
        self.discriminator = layers(facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_head = dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = dense(facts.WIDTH, 1)

    def embed(self, tokens, segments):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        return self.dropout(self.embedding_norm(x))

    def generate(self, tokens, segments, bias, positions):
        """Scores of all words at the chosen positions: (batch, places, vocabulary)."""
        x = self.generator_input(self.embed(tokens, segments))
        for layer in self.generator:
            x = layer(x, bias)
        x = x.gather(1, positions[:, :, None].expand(-1, -1, facts.GENERATOR_WIDTH))
        hidden = self.generator_norm(F.gelu(self.generator_head(x)))
        return F.linear(hidden, self.word_embedding.weight, self.generator_bias)

    def discriminate(self, tokens, segments, bias):
        x = self.embed(tokens, segments)
        for layer in self.discriminator:
            x = layer(x, bias)
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


def layers(width, heads, inner_width):
    return nn.ModuleList(Layer(facts, width, heads, inner_width) for _ in range(facts.LAYERS))


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
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("generator.", "generator.layer")
        name = name.replace("discriminator.", "discriminator.layer")
        named[name.replace("embedding.weight", "embedding")] = parameter
    return framework.Weights(run, named)


def loss(run, network, *batch):
    return network(*batch)


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
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        parity={
            "attention": "scaled_dot_product_attention",
            "optimizer": "LAMB, foreach",
            "clip": "global norm, foreach",
        },
    )
