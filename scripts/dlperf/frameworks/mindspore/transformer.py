"""Layers of an encoder (BERT, Devlin et al. 2018) and of a decoder (GPT-2, Radford et al. 2019).

As fast as it gets: tokens lie in rows of a matrix; one product for query, key and value. Attention
is written out: the fused operators are for Ascend only. `facts` below are those of a workload:
sizes, epsilon and dropout are read when a model is made.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import initializer

from dlperf.frameworks.mindspore import inference as answers
from dlperf.frameworks.mindspore import parallel
from dlperf.frameworks.mindspore import training as framework

ATTENTION = "products and softmax"
ADAMW = "ops.Adam, decay apart"


def dense(inputs, outputs):
    # the stopwatch writes all weights
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros")


class RowDense(nn.Cell):
    """A dense layer of whose inputs each rank of a tensor group has a part."""

    def __init__(self, tensors, inputs, outputs):
        super().__init__()
        self.weight, self.bias = zeros(outputs, inputs // tensors.size), zeros(outputs)
        self.product, self.leave = ops.MatMul(transpose_b=True), parallel.leave(tensors)

    def construct(self, x):
        return self.leave(self.product(x, self.weight)) + self.bias


def row_dense(tensors, inputs, outputs):
    return dense(inputs, outputs) if tensors.size == 1 else RowDense(tensors, inputs, outputs)


def layer_norm(facts, width):
    return nn.LayerNorm((width,), epsilon=facts.LAYER_NORM_EPSILON)


def zeros(*shape):
    return Parameter(initializer("zeros", shape))


def gelu(x):
    return ops.gelu(x, approximate="none")


class Layer(nn.Cell):
    """Attention, then two dense layers; each normalises after its sum.

    tensors: the parallel.Group that divides heads and the inner layer.
    """

    def __init__(self, facts, width, heads, inner_width, tensors=parallel.ALONE):
        super().__init__()
        ranks = tensors.size
        self.qkv = dense(width, 3 * width // ranks)
        self.projection = row_dense(tensors, width, width)
        self.norm1 = layer_norm(facts, width)
        self.ffn1 = dense(width, inner_width // ranks)
        self.ffn2 = row_dense(tensors, inner_width, width)
        self.norm2 = layer_norm(facts, width)
        # each with a seed of its own: one for all would drop the same elements
        self.dropout = parallel.HeadsDropout(p=facts.ATTENTION_DROPOUT)
        self.dropout1 = nn.Dropout(p=facts.DROPOUT)
        self.dropout2 = nn.Dropout(p=facts.DROPOUT)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.heads, self.head_width = heads // ranks, width // heads

    def attend(self, x, bias):
        """x: (batch x tokens, width); bias: (batch, 1, 1, tokens) or (tokens, tokens)."""
        qkv = self.qkv(x).reshape((-1, bias.shape[-1], 3, self.heads, self.head_width))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)))
        scores = self.scores(query * self.head_width**-0.5, key) + bias
        mixed = ops.bmm(self.dropout(ops.softmax(scores)), value)
        mixed = ops.transpose(mixed, (0, 2, 1, 3)).reshape((-1, self.heads * self.head_width))
        return self.dropout1(self.projection(mixed))

    def construct(self, x, bias):
        x = self.norm1(x + self.attend(x, bias))
        return self.norm2(x + self.dropout2(self.ffn2(gelu(self.ffn1(x)))))


class DecoderLayer(Layer):
    """Causal attention, then two dense layers; each normalises its input."""

    def __init__(self, facts, width, heads, tensors):
        super().__init__(facts, width, heads, 4 * width, tensors)
        self.enter = parallel.enter(tensors)

    def construct(self, x, bias):
        x = x + self.attend(self.enter(self.norm1(x)), bias)
        inner = ops.gelu(self.ffn1(self.enter(self.norm2(x))), approximate="tanh")
        return x + self.dropout2(self.ffn2(inner))


def mean_cross_entropy(tensors=parallel.ALONE):
    """The mean of all rows' cross-entropies, of scores, which ranks may divide, and labels.

    Where they are whole it is one operator each way: on a CPU an eighth of the time of
    ops.cross_entropy.
    """
    if tensors.size > 1:
        return parallel.MeanCrossEntropy(tensors)
    return nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


def cross_entropies(scores, labels):
    """The cross-entropy of each row of scores (rows, entries) with its label: (rows,).

    On a CPU less than a third of the time of ops.cross_entropy, which takes a logarithm of every
    entry.
    """
    scores = scores - ops.stop_gradient(scores.max(axis=-1, keepdims=True))
    hits = ops.gather_elements(scores, 1, labels.reshape((-1, 1))).reshape(-1)
    return ops.log(ops.exp(scores).sum(-1)) - hits


def layers(facts, width, heads, inner_width):
    return nn.CellList([Layer(facts, width, heads, inner_width) for _ in range(facts.LAYERS)])


class Embedded(nn.Cell):
    """A model's base, with its embeddings: of words, positions and segments."""

    def __init__(self, facts):
        super().__init__()
        self.word_embedding = zeros(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = zeros(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = zeros(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm(facts, facts.WIDTH)
        self.dropout = nn.Dropout(p=facts.DROPOUT)
        self.decoder = ops.MatMul(transpose_b=True)

    def embed(self, tokens, segments):
        """(batch x tokens, width)"""
        batch, length = tokens.shape
        x = ops.gather(self.word_embedding, tokens, 0)
        x = x + ops.gather(self.segment_embedding, segments, 0)
        x = x + self.position_embedding[:length]
        return self.dropout(self.embedding_norm(x.reshape((batch * length, -1))))

    def decode(self, hidden, bias):
        """Scores of all words: (rows, vocabulary)."""
        return self.decoder(hidden, self.word_embedding) + bias


def attention_bias(mask, dtype):
    """mask (batch, tokens) of 0 and 1 -> what attention adds to its scores."""
    batch, length = mask.shape
    return (mask.reshape((batch, 1, 1, length)) - 1).astype(dtype) * 1e4  # exp(-1e4) is 0


def causal_bias(tokens):
    """(tokens, tokens): what attention adds to its scores, so that none sees a later token."""
    return ms.Tensor(np.triu(np.full((tokens, tokens), -1e4, np.float32), 1))  # exp(-1e4) is 0


def starts(tokens):
    """The rows of x (batch x tokens, width) in which sequences begin."""
    batch, length = tokens.shape
    return ops.arange(0, batch * length, length)


def chosen(x, tokens, positions):
    """x (batch x tokens, width) at positions (batch, places) -> (batch x places, width)."""
    rows = starts(tokens).reshape((-1, 1)) + positions
    return ops.gather(x, rows.reshape(-1), 0)


def prepared(run, network):
    """The network in training mode and the run's precision; replicas drop other elements, and the
    ranks of a tensor group other ones of what is of their own heads."""
    network.set_train()
    dropouts = [each for _, each in network.cells_and_names() if isinstance(each, nn.Dropout)]
    for index, each in enumerate(dropouts):
        if isinstance(each, parallel.HeadsDropout):
            index += len(dropouts) * run.coordinates.tensor
        each.dropout = ops.Dropout(1 - each.p, run.dropout_seed, index)
    if run.amp:
        network = ms.amp.auto_mixed_precision(network, "auto", dtype=ms.float16)
    return network


def loss(network, *batch):
    """Of a network that gives its loss."""
    return network(*batch)


def train(run, network, loss, optimizer, weights, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": ATTENTION}, **parity)
    own = (loss, optimizer, weights, framework.put)
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, attention=ATTENTION):
    own = (outputs, weights, framework.put)
    return answers.infer(run, network, *own, parity={"attention": attention})
