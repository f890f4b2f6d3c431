"""BERT-Base pre-training in MXNet's Gluon.

As fast as it gets: the encoder of frameworks/mxnet/transformer.py; network and loss are one hybrid
block with `static_alloc` and `static_shape`; the decoder sees predicted positions only; a fused
operator updates each weight, with the clip as a factor of it.
"""

from mxnet.gluon import nn

from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet import transformer
from dlperf.frameworks.mxnet.transformer import (
    Embedded,
    LayerNorm,
    dense,
    gelu,
    layers,
    loss,
    name_of,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import Batch
from dlperf.workloads.encoders.layers import canonical


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, run):
        super().__init__(run, facts)
        self.layers = layers(run, facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = LayerNorm(run, facts, facts.WIDTH)
        self.mlm_bias = self.params.get("mlm_bias", shape=(facts.VOCABULARY,), init="zeros")
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, F, tokens, segments, mask, own):
        """(tokens x batch, width)"""
        x = self.embed(F, tokens.transpose(), segments.transpose(), own)
        bias = self.attention_bias(F, mask, facts.HEADS)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, F, x, rows, own):
        """What the language model's softmax takes of these rows: (rows, vocabulary)."""
        word, bias = own["word_embedding"], own["mlm_bias"]
        hidden = self.mlm_norm(gelu(F, self.mlm(F.take(x, rows.reshape((-1,)))), self.run))
        return self.decode(F, hidden, word, bias)

    def hybrid_forward(self, F, *inputs, **own):
        tokens, segments, mask, rows, labels, predicted, follows = inputs
        x, batch = self.encode(F, tokens, segments, mask, own), self.run.batch_size
        hits = F.pick(F.log_softmax(self.words(F, x, rows, own)), labels.reshape((-1,)))
        language = F.sum(hits * predicted.reshape((-1,))) / F.sum(predicted)
        pairs = self.nsp(F.tanh(self.pooler(F.slice_axis(x, axis=0, begin=0, end=batch))))
        return -(language + F.mean(F.pick(F.log_softmax(pairs), follows)))

    def decode(self, F, hidden, word, bias):
        """What the language model's softmax takes; behind the vocabulary there may be padding."""
        padding = facts.padding(self.run.dimensions)
        if padding:
            zeros = F.zeros_like(F.slice_axis(word, axis=0, begin=0, end=padding))
            scores = F.zeros_like(F.slice_axis(bias, axis=0, begin=0, end=padding))
            word = F.concat(word, zeros, dim=0)
            bias = F.concat(bias, scores + facts.PADDING_SCORE, dim=0)
        return F.FullyConnected(hidden, word, bias, num_hidden=facts.VOCABULARY + padding)


class Encoder(Bert):
    """The encoder's output, (batch, tokens, width)."""

    def hybrid_forward(self, F, tokens, segments, mask, **own):
        x = self.encode(F, tokens, segments, mask, own)
        return x.reshape((-1, self.run.batch_size, facts.WIDTH)).transpose((1, 0, 2))


class Tested(nn.HybridBlock):
    """In the quality scenario: what the masked words' softmax takes, in a graph of its own."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        for table in ("word_embedding", "position_embedding", "segment_embedding", "mlm_bias"):
            setattr(self, table, getattr(network, table))

    def hybrid_forward(self, F, tokens, segments, mask, rows, **own):
        x = self.network.encode(F, tokens, segments, mask, own)
        words = self.network.words(F, x, rows, own)
        return words.reshape((self.network.run.batch_size, -1, facts.VOCABULARY))


def model(run, kind=Bert):
    return transformer.initialized(run, kind(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in framework.named(network)}
    return transformer.Weights(run, named, lambda name: facts.HEADS)


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return transformer.adamw(run, network, facts, clip_norm)


def put(run, *batch):
    return transformer.put(run, Batch(*batch))


def training(run):
    network, inputs = model(run), len(Batch._fields)
    trainer = optimizer(run, network)
    parity = {
        "optimizer": name_of(trainer),
        "clip": "global norm" if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    more = {"schedule": facts.schedule(run), "outputs": tested, "tested": 4}
    own = (trainer, weights(run, network), put, inputs, parity)
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run, Encoder)
    return transformer.infer(run, network, outputs, weights(run, network), put, inputs=3)


def outputs(run, network):
    return network


def tested(run, network):
    return Tested(network)
