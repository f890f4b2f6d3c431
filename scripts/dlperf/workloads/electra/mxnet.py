"""ELECTRA-Base pre-training in MXNet's Gluon.

As fast as it gets: the encoder of frameworks/mxnet/transformer.py; both models and their losses are
one hybrid block with `static_alloc` and `static_shape`, samples and all; the generator's decoder
sees chosen positions only.
"""

from mxnet.gluon import nn

from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet import transformer
from dlperf.frameworks.mxnet.lamb import Lamb
from dlperf.frameworks.mxnet.transformer import (
    Embedded,
    LayerNorm,
    dense,
    gelu,
    layers,
    loss,
)
from dlperf.workloads.electra import facts, phases
from dlperf.workloads.electra.input import Batch, Noisy, empty
from dlperf.workloads.encoders.layers import canonical


class Electra(Embedded):
    """The loss of a batch: words that the generator fills in, and what the discriminator finds."""

    def __init__(self, run):
        super().__init__(run, facts)
        generator = (facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_input = dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = layers(run, facts, *generator)
        self.generator_head = dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.generator_norm = LayerNorm(run, facts, facts.WIDTH)
        self.generator_bias = self.params.get(
            "generator_bias", shape=(facts.VOCABULARY,), init="zeros"
        )
        self.discriminator = layers(run, facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_head = dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_output = dense(facts.WIDTH, 1)

    def sized(self, run):
        """Let the graph that is made next have this run's batches."""
        self.run = run
        for layer in (*self.generator, *self.discriminator):
            layer.run = run

    def generate(self, F, tokens, segments, mask, rows, own):
        """Scores of all words at the chosen positions: (places x batch, vocabulary)."""
        x = self.generator_input(self.embed(F, tokens, segments, own))
        bias = self.attention_bias(F, mask, facts.GENERATOR_HEADS)
        for layer in self.generator:
            x = layer(x, bias)
        hidden = self.generator_norm(gelu(F, self.generator_head(F.take(x, rows)), self.run))
        word, bias = own["word_embedding"], own["generator_bias"]
        return F.FullyConnected(hidden, word, bias, num_hidden=facts.VOCABULARY)

    def discriminate(self, F, tokens, segments, mask, own):
        """(tokens x batch,): above 0 where a token was replaced."""
        x = self.embed(F, tokens, segments, own)
        bias = self.attention_bias(F, mask, facts.HEADS)
        for layer in self.discriminator:
            x = layer(x, bias)
        hidden = gelu(F, self.discriminator_head(x), self.run)
        return self.discriminator_output(hidden).reshape((-1,))

    def hybrid_forward(self, F, tokens, segments, mask, rows, labels, chosen, noise=None, **own):
        tokens, segments = tokens.transpose(), segments.transpose()
        rows, labels, chosen = (each.reshape((-1,)) for each in (rows, labels, chosen))
        words = self.generate(F, tokens, segments, mask, rows, own)
        hits = F.pick(F.log_softmax(words), labels)
        generator = -F.sum(hits * chosen) / F.sum(chosen)

        # an unused place stands for [CLS], and gets it again
        noise = None if noise is None else noise.reshape((-3, 0))
        samples = F.where(chosen > 0, sample(F, F.BlockGrad(words), self.run, noise), labels)
        count = self.run.dimensions["sequence_length"] * self.run.batch_size
        there, rows = F.take(tokens.reshape((-1,)), rows), rows.reshape((1, -1))
        change = F.scatter_nd(samples - there, rows, shape=(count,))
        inputs = tokens + change.reshape((-1, self.run.batch_size))
        fake = F.scatter_nd((samples != labels), rows, shape=(count,))
        found = self.discriminate(F, inputs, segments, mask, own)
        if self.run.amp:
            found = F.amp_cast(found, dtype="float32")
        # log(1 + exp(x)) - x where it is fake
        fake = F.cast(fake, dtype="float64" if self.run.float64 else "float32")
        each = F.Activation(found, act_type="softrelu") - found * fake
        discriminator = F.sum(each * mask.transpose().reshape((-1,))) / F.sum(mask)
        return generator + facts.DISCRIMINATOR_WEIGHT * discriminator

    def evaluate(self, F, tokens, segments, mask, rows, labels, chosen, noise=None, **own):
        """In the quality scenario: what facts.tally takes."""
        batch, tokens, segments = self.run.batch_size, tokens.transpose(), segments.transpose()
        rows, chosen = rows.reshape((-1,)), chosen.reshape((-1,))
        words = self.generate(F, tokens, segments, mask, rows, own)
        noise = None if noise is None else noise.reshape((-3, 0))
        there, drawn = F.take(tokens.reshape((-1,)), rows), sample(F, words, self.run, noise)
        samples = F.where(chosen > 0, drawn, there)
        count = self.run.dimensions["sequence_length"] * batch
        change = F.scatter_nd(samples - there, rows.reshape((1, -1)), shape=(count,))
        inputs = tokens + change.reshape((-1, batch))
        found = self.discriminate(F, inputs, segments, mask, own).reshape((-1, batch)).transpose()
        if self.run.amp:
            words, found = (F.amp_cast(each, dtype="float32") for each in (words, found))
        shares = F.cast(samples, dtype="float64" if self.run.float64 else "float32")
        shares = (shares / facts.DRAWN_UNIT).reshape((batch, -1))
        return F.concat(words.reshape((batch, -1)), shares, found, dim=1)


class Phase(nn.HybridBlock):
    """The loss of a phase's batch, in a graph of its own: one has batches of one shape."""

    def __init__(self, run, network):
        super().__init__()
        self.run, self.network = run, network
        for own in ("word_embedding", "position_embedding", "segment_embedding", "generator_bias"):
            setattr(self, own, getattr(network, own))

    def hybrid_forward(self, F, *batch, **own):
        self.network.sized(self.run)
        return self.network.hybrid_forward(F, *batch, **own)


class Evaluated(Phase):
    """In the quality scenario: what facts.tally takes."""

    def hybrid_forward(self, F, *batch, **own):
        self.network.sized(self.run)
        return self.network.evaluate(F, *batch, **own)


def sample(F, scores, run, noise=None):
    """Words drawn by softmax of their scores, which Gumbel's noise does: int32, (places,)."""
    if run.amp:
        scores = F.amp_cast(scores, dtype="float32")
    if noise is None:
        inner = -F.log(F.random.uniform_like(scores) + facts.NOISE_EPSILON)
        noise = -F.log(inner + facts.NOISE_EPSILON)
    return F.cast(F.argmax(scores + noise, axis=-1), dtype="int32")


def model(run):
    return transformer.initialized(run, Electra(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in framework.named(network)}
    return transformer.Weights(run, named, heads)


def heads(name):
    """Of the layer whose tensor has this name."""
    return facts.GENERATOR_HEADS if name.startswith("generator.") else facts.HEADS


def optimizer(run, network):
    lamb = Lamb(
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        facts.ADAPTIVE,
        facts.CLIP_NORM,
        tensors=len(facts.parameters({})),
        learning_rate=facts.learning_rate(run.global_batch_size),
        wd=facts.WEIGHT_DECAY,
    )
    return framework.trainer(run, network, lamb)


def put(run, *batch):
    kind = Noisy if facts.GIVEN_NOISE else Batch
    return transformer.put(run, kind(*batch))


def training(run):
    network = model(run)
    fields = empty(1, run.dimensions["sequence_length"])._fields
    parity = {"optimizer": "LAMB, two operators a tensor", "clip": "global norm"}
    trainer = optimizer(run, network)
    own = (trainer, weights(run, network), put, len(fields), parity)
    schedule = facts.schedule(run)
    if not schedule:
        return transformer.train(run, network, loss, *own)

    def train(run, rates):
        more = {"schedule": rates, "outputs": Evaluated, "tested": len(fields)}
        return transformer.train(run, network, Phase, *own, **more)

    def count_anew():
        for counts in trainer.optimizer._all_index_update_counts.values():
            counts.clear()

    return phases.work(run, phases.joined(run, train, schedule), count_anew)
