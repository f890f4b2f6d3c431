"""BERT-Base pre-training in PaddlePaddle.

The encoder of frameworks/paddlepaddle/transformer.py; the decoder at predicted positions only,
AdamW in one kernel a tensor, the clip in place. On the CPU: to_static without oneDNN. On the GPU,
which this has not run on: level O2 (narrow weights, fp32 master weights) under AMP, with fp32
gradients for the clip's norm.
"""

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
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty
from dlperf.workloads.encoders.layers import canonical


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, fused, padding=0):
        super().__init__(facts)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH)
        self.mlm_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        return encoded(self.layers, self.embed(tokens, segments), mask)

    def words(self, x, positions):
        """What the language model's softmax takes, (batch x predictions, padded vocabulary)."""
        hidden = self.mlm_norm(F.gelu(self.mlm(chosen(x, positions))))
        table, bias = self.word_embedding.weight, self.mlm_bias
        if self.padding:
            zeros = paddle.zeros([self.padding, facts.WIDTH], table.dtype)
            table = paddle.concat([table, zeros])
            scores = paddle.full([self.padding], facts.PADDING_SCORE, bias.dtype)
            bias = paddle.concat([bias, scores])
        return paddle.matmul(hidden, table, transpose_y=True) + bias

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        words = self.words(x, positions)
        each = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        predicted = predicted.reshape([-1, 1])
        language = (each * predicted).sum() / predicted.sum()
        first = paddle.zeros([tokens.shape[0], 1], positions.dtype)
        pairs = self.nsp(F.tanh(self.pooler(chosen(x, first))))
        return language + F.cross_entropy(pairs, follows)


class Encoder(nn.Layer):
    """The encoder's output, (batch, tokens, width)."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, segments, mask):
        return self.bert.encode(tokens, segments, mask)


class Tested(nn.Layer):
    """What the masked words' softmax takes, (batch, predictions, vocabulary)."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, segments, mask, positions):
        words = self.bert.words(self.bert.encode(tokens, segments, mask), positions)
        return words.reshape([*positions.shape, facts.VOCABULARY])


def model(run):
    network = Bert(run.amp, facts.padding(run.dimensions))
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return transformer.adamw(run, network.parameters(), facts, clip_norm)


def training(run):
    products(run)
    network = model(run)
    parity = {
        "optimizer": "AdamW",
        "clip": "global norm" if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    own = (optimizer(run, network), weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": tests, "tested": 4}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run)
    network.eval()
    spec = transformer.spec(run, empty)[:3]
    return transformer.infer(run, network, outputs, weights(run, network), spec)


def outputs(run, network):
    return Encoder(network)


def tests(run, network):
    """In the quality scenario."""
    return Tested(network)
