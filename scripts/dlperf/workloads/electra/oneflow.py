"""ELECTRA-Base pre-training in OneFlow.

As fast as it gets: the encoder of frameworks/oneflow/transformer.py, the generator's decoder at
chosen positions only, LAMB whose changes Adam's own kernel finds. Eager: nn.Graph has no such LAMB.
On the GPU, which this has not run on, Adam's kernel is one for all tensors.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import training as framework
from dlperf.frameworks.oneflow import transformer
from dlperf.frameworks.oneflow.lamb import Lamb
from dlperf.frameworks.oneflow.transformer import (
    Embedded,
    encoded,
    layer_norm,
    layers,
    loss,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.electra.input import empty
from dlperf.workloads.encoders.layers import canonical


class Electra(Embedded):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds."""

    def __init__(self, fused):
        super().__init__(facts, fused)
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_input = framework.Linear(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(facts, *generator, fused)
        self.generator_head = framework.Linear(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = layer_norm(facts, facts.WIDTH, fused)
        self.generator_bias = nn.Parameter(flow.zeros(facts.VOCABULARY))
        self.discriminator = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.discriminator_head = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = framework.Linear(facts.WIDTH, 1)

    def generate(self, tokens, segments, mask, positions):
        """Scores of all words at the chosen positions: (batch, places, vocabulary)."""
        x = self.generator_input(self.embed(tokens, segments))
        x = flow._C.batch_gather(encoded(self.generator, x, mask), positions)
        return self.words(self.generator_norm(F.gelu(self.generator_head(x))), self.generator_bias)

    def discriminate(self, tokens, segments, mask):
        """(batch, tokens): above 0 where a token was replaced."""
        x = encoded(self.discriminator, self.embed(tokens, segments), mask)
        return self.discriminator_output(F.gelu(self.discriminator_head(x))).squeeze(2)

    def forward(self, tokens, segments, mask, positions, labels, chosen, noise=None):
        words = self.generate(tokens, segments, mask, positions)
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        generator = (each * chosen.flatten()).sum() / chosen.sum()

        # an unused place stands for [CLS], and gets it again
        samples = flow.where(chosen > 0, sample(words.detach(), noise), labels)
        filled = flow.scatter(tokens, 1, positions, samples)
        fake = filled != flow.scatter(tokens, 1, positions, labels)
        found = self.discriminate(filled, segments, mask)
        fake, mask = fake.to(found.dtype), mask.to(found.dtype)
        each = F.binary_cross_entropy_with_logits(found, fake, reduction="none")
        return generator + facts.DISCRIMINATOR_WEIGHT * ((each * mask).sum() / mask.sum())

    def evaluate(self, tokens, segments, mask, positions, chosen, noise=None):
        """In the quality scenario: what facts.tally takes, in the model's own type."""
        words = self.generate(tokens, segments, mask, positions)
        there = flow.gather(tokens, 1, positions)
        samples = flow.where(chosen > 0, sample(words, noise), there)
        found = self.discriminate(flow.scatter(tokens, 1, positions, samples), segments, mask)
        shares = samples.to(chosen.dtype) / facts.DRAWN_UNIT
        return flow.cat([words.flatten(1).to(chosen.dtype), shares, found.to(chosen.dtype)], 1)


def sample(scores, noise=None):
    """Words drawn by softmax of their scores, which Gumbel's noise does: (batch, places)."""
    if noise is None:
        inner = flow.rand(*scores.shape, dtype=scores.dtype, device=scores.device)
        inner = -flow.log(inner + facts.NOISE_EPSILON)
        noise = -flow.log(inner + facts.NOISE_EPSILON)
    return (scores + noise).argmax(-1)


def model(run):
    return framework.place(run, Electra(fused=run.cuda))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


class TwoPhases(Lamb):
    """LAMB whose second phase counts its steps anew, and goes on with its moments."""

    def set_rate(self, rate):
        self.lr = self.param_groups[1]["lr"] = rate

    def count_anew(self):
        self._state["step"] = 0


def optimizer(run, network):
    return TwoPhases(
        network,
        facts.learning_rate(run.global_batch_size),
        (facts.BETA1, facts.BETA2),
        facts.EPSILON,
        facts.WEIGHT_DECAY,
        facts.ADAPTIVE,
        facts.CLIP_NORM,
        fused=run.cuda,
    )


def training(run):
    run = phases.told(run)
    network = model(run)
    parity = {"optimizer": "LAMB, Adam's kernel", "clip": "global norm, by tensor"}
    lamb = optimizer(run, network)
    own = (lamb, weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": evaluated}
    return phases.work(run, transformer.train(run, network, loss, *own, **more), lamb.count_anew)


def evaluated(run, network, tokens, segments, mask, positions, labels, *others):
    return network.evaluate(tokens, segments, mask, positions, *others)
