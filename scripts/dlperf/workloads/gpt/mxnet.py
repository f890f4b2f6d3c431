"""GPT pre-training in MXNet's Gluon.

As fast as it gets: the decoder of frameworks/mxnet/transformer.py; network and loss are one hybrid
block with `static_alloc` and `static_shape`; a fused operator updates each weight, with the clip as
a factor of it.
"""

from mxnet.gluon import nn

from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet import transformer
from dlperf.frameworks.mxnet.transformer import (
    DecoderLayer,
    LayerNorm,
    causal_bias,
    hidden_later,
    loss,
    name_of,
)
from dlperf.workloads.encoders.layers import canonical
from dlperf.workloads.gpt import facts


class GPT(nn.HybridBlock):
    """The loss of a batch: the mean cross-entropy of all next tokens."""

    def __init__(self, run):
        super().__init__()
        self.run, sizes = run, run.dimensions
        self.width, heads = sizes["width"], sizes["heads"]
        self.word_embedding = self.table("word_embedding", facts.VOCABULARY)
        self.position_embedding = self.table("position_embedding", sizes["sequence_length"])
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.later = hidden_later(self, sizes["sequence_length"])
        self.layers = nn.HybridSequential()
        for _ in range(sizes["layers"]):
            self.layers.add(DecoderLayer(run, facts, self.width, heads, 4 * self.width))
        self.norm = LayerNorm(run, facts, self.width)

    def table(self, name, entries):
        return self.params.get(name, shape=(entries, self.width), init="zeros")

    def decode(self, F, tokens, own):
        """(batch, tokens) -> (tokens x batch, width), behind the last layer."""
        x = F.Embedding(tokens.transpose(), own["word_embedding"], facts.VOCABULARY, self.width)
        x = F.broadcast_add(x, own["position_embedding"].expand_dims(1)).reshape((-3, 0))
        x, bias = self.dropout(x), causal_bias(F, own["later"], self.run)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def scores(self, F, x, own):
        """(n, width) -> (n, vocabulary)"""
        words = {"num_hidden": facts.VOCABULARY, "no_bias": True}
        return F.FullyConnected(self.norm(x), own["word_embedding"], **words)

    def hybrid_forward(self, F, tokens, labels, **own):
        scores = self.scores(F, self.decode(F, tokens, own), own)
        return -F.mean(F.pick(F.log_softmax(scores), labels.transpose().reshape((-1,))))


class Next(GPT):
    """Scores of the token that follows each sequence."""

    def hybrid_forward(self, F, tokens, **own):
        x = self.decode(F, tokens, own)
        last = F.slice_axis(x, axis=0, begin=-self.run.batch_size, end=None)
        return self.scores(F, last, own)


def model(run, kind=GPT):
    return transformer.initialized(run, kind(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in framework.named(network)}
    return transformer.Weights(run, named, lambda name: run.dimensions["heads"])


def optimizer(run, network):
    return transformer.adamw(run, network, facts, facts.CLIP_NORM)


def put(run, *batch):
    return [framework.put(run, array, "int32") for array in batch]


def training(run):
    network = model(run)
    trainer = optimizer(run, network)
    parity = {
        "attention": attention(run),
        "optimizer": name_of(trainer),
        "clip": "global norm",
    }
    own = (loss, trainer, weights(run, network), put, 2, parity)
    return transformer.train(run, network, *own)


def inference(run):
    network = model(run, Next)
    own = (outputs, weights(run, network), put, 1)
    return transformer.infer(run, network, *own, attention=attention(run))


def attention(run):
    return transformer.attention(run) + ", causal"


def outputs(run, network):
    return network
