"""BERT-Base pre-training in MindSpore.

As fast as it gets: the encoder of frameworks/mindspore/transformer.py, the decoder at predicted
positions only; the whole step, clip, update and reduction included, in one graph.
"""

import mindspore as ms
from mindspore import ops

from dlperf.frameworks.mindspore import training as framework
from dlperf.frameworks.mindspore import transformer
from dlperf.frameworks.mindspore.adamw import AdamW
from dlperf.frameworks.mindspore.transformer import (
    ADAMW,
    Embedded,
    attention_bias,
    chosen,
    cross_entropies,
    dense,
    gelu,
    layer_norm,
    layers,
    loss,
    mean_cross_entropy,
    prepared,
    starts,
    zeros,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.encoders.layers import canonical


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, padding=0):
        super().__init__(facts)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH)
        self.mlm_bias = zeros(facts.VOCABULARY)
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)
        self.cross_entropy = mean_cross_entropy()

    def encode(self, tokens, segments, mask):
        """(batch x tokens, width)"""
        x = self.embed(tokens, segments)
        bias = attention_bias(mask, x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, x, tokens, positions):
        """What the language model's softmax takes at these positions."""
        hidden = self.mlm_norm(gelu(self.mlm(chosen(x, tokens, positions))))
        table, bias = self.word_embedding, self.mlm_bias
        if self.padding:
            table = ops.concat((table, ops.zeros((self.padding, table.shape[1]), table.dtype)))
            scores = ops.full((self.padding,), facts.PADDING_SCORE, dtype=bias.dtype)
            bias = ops.concat((bias, scores))
        return (self.decoder(hidden, table) + bias).astype(ms.float32)

    def construct(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        words = self.words(x, tokens, positions)
        each = cross_entropies(words, labels)
        predicted = predicted.reshape(-1).astype(ms.float32)
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(ops.tanh(self.pooler(ops.gather(x, starts(tokens), 0))))
        return language + self.cross_entropy(pairs.astype(ms.float32), follows)


class Encoder(Bert):
    """The encoder's output, (batch, tokens, width)."""

    def construct(self, tokens, segments, mask, *_):
        x = self.encode(tokens, segments, mask)
        return x.reshape((*tokens.shape, -1))


def model(run, kind=Bert):
    return prepared(run, kind(facts.padding(run.dimensions)))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.parameters_and_names()
    return framework.Weights({canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    return AdamW(
        facts,
        network.trainable_params(),
        facts.learning_rate(run.global_batch_size),
        facts.CLIP_NORM if run.dimensions["clip"] else None,
    )


def training(run):
    network = model(run)
    parity = {
        "optimizer": ADAMW,
        "clip": "global norm" if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    own = (loss, optimizer(run, network), weights(run, network), parity)
    return transformer.train(run, network, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    network = model(run, Encoder).set_train(False)
    return transformer.infer(run, network, outputs, weights(run, network))


def outputs(network, *batch):
    return network(*batch).astype(ms.float32)


def tested(network, tokens, segments, mask, positions, *_):
    """In the quality scenario: what the masked words' softmax takes."""
    words = network.words(network.encode(tokens, segments, mask), tokens, positions)
    return words.reshape((*positions.shape, -1))
