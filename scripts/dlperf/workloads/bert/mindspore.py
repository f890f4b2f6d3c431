"""BERT-Base pre-training in MindSpore.

As fast as it gets: one product for query, key and value, the decoder at predicted positions only;
the whole step, clip, update and reduction included, in one graph. On a CPU `ops.Adam` and a decay
beside it take less than half the time of `ops.AdamWeightDecay`, a sum of squares by rows a third of
one over all axes. Attention is written out: the fused operators are for Ascend only.
"""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.common.initializer import initializer

from dlperf.frameworks.mindspore import inference as answers
from dlperf.frameworks.mindspore import training as framework
from dlperf.workloads.bert import facts

ATTENTION = "products and softmax"


def dense(inputs, outputs):
    # the stopwatch writes all weights
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros")


def layer_norm():
    return nn.LayerNorm((facts.WIDTH,), epsilon=facts.LAYER_NORM_EPSILON)


def embedding(entries):
    return Parameter(initializer("zeros", (entries, facts.WIDTH)))


def gelu(x):
    return ops.gelu(x, approximate="none")


class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.qkv = dense(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = dense(facts.WIDTH, facts.WIDTH)
        self.norm1 = layer_norm()
        self.ffn1 = dense(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = dense(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = layer_norm()
        # each with a seed of its own: one for all would drop the same elements
        self.dropout = nn.Dropout(p=facts.ATTENTION_DROPOUT)
        self.dropout1 = nn.Dropout(p=facts.DROPOUT)
        self.dropout2 = nn.Dropout(p=facts.DROPOUT)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.heads, self.head_width = facts.HEADS, facts.HEAD_WIDTH

    def construct(self, x, bias):
        """x: (batch x tokens, width); bias: (batch, 1, 1, tokens)."""
        batch, tokens = bias.shape[0], bias.shape[3]
        qkv = self.qkv(x).reshape((batch, tokens, 3, self.heads, self.head_width))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)))
        scores = self.scores(query * self.head_width**-0.5, key) + bias
        mixed = ops.bmm(self.dropout(ops.softmax(scores)), value)
        mixed = self.projection(ops.transpose(mixed, (0, 2, 1, 3)).reshape(x.shape))
        x = self.norm1(x + self.dropout1(mixed))
        inner = self.ffn2(gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout2(inner))


class Bert(nn.Cell):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, padding=0):
        super().__init__()
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.word_embedding = embedding(facts.VOCABULARY)
        self.position_embedding = embedding(facts.POSITIONS)
        self.segment_embedding = embedding(facts.SEGMENTS)
        self.embedding_norm = layer_norm()
        self.dropout = nn.Dropout(p=facts.DROPOUT)
        self.layers = nn.CellList([Layer() for _ in range(facts.LAYERS)])
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.decoder = ops.MatMul(transpose_b=True)
        self.mlm_bias = Parameter(initializer("zeros", (facts.VOCABULARY,)))
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        """(batch x tokens, width)"""
        batch, length = tokens.shape
        x = ops.gather(self.word_embedding, tokens, 0)
        x = x + ops.gather(self.segment_embedding, segments, 0)
        x = x + self.position_embedding[:length]
        x = self.embedding_norm(x.reshape((batch * length, -1)))
        x = self.dropout(x)
        bias = (mask.reshape((batch, 1, 1, length)) - 1).astype(x.dtype) * 1e4  # exp(-1e4) is 0
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def construct(self, tokens, segments, mask, positions, labels, predicted, follows):
        batch, length = tokens.shape
        x = self.encode(tokens, segments, mask)
        first = ops.arange(0, batch * length, length)  # of each sequence
        hidden = ops.gather(x, (first.reshape((batch, 1)) + positions).reshape(-1), 0)
        hidden = self.mlm_norm(gelu(self.mlm(hidden)))
        table, bias = self.word_embedding, self.mlm_bias
        if self.padding:
            table = ops.concat((table, ops.zeros((self.padding, table.shape[1]), table.dtype)))
            scores = ops.full((self.padding,), facts.PADDING_SCORE, dtype=bias.dtype)
            bias = ops.concat((bias, scores))
        words = self.decoder(hidden, table) + bias
        each = ops.cross_entropy(words.astype(ms.float32), labels.reshape(-1), reduction="none")
        predicted = predicted.reshape(-1).astype(ms.float32)
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(ops.tanh(self.pooler(ops.gather(x, first, 0))))
        return language + ops.cross_entropy(pairs.astype(ms.float32), follows)


class Encoder(Bert):
    """The encoder's output, (batch, tokens, width)."""

    def construct(self, tokens, segments, mask, *_):
        x = self.encode(tokens, segments, mask)
        return x.reshape((*tokens.shape, -1))


def model(run, kind=Bert):
    network = kind(facts.padding(run.dimensions)).set_train()
    dropouts = [each for _, each in network.cells_and_names() if isinstance(each, nn.Dropout)]
    for index, each in enumerate(dropouts):  # ranks drop other elements
        each.dropout = ops.Dropout(1 - each.p, run.seed + run.rank, index)
    if run.amp:
        network = ms.amp.auto_mixed_precision(network, "auto", dtype=ms.float16)
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.parameters_and_names():
        name = own.replace("layers.", "layer")
        named[name.replace(".gamma", ".weight").replace(".beta", ".bias")] = parameter
    return framework.Weights(named)


def loss(network, *batch):
    return network(*batch)


class AdamW(nn.Cell):
    """The rate and epsilon that `ops.Adam` is given hold the bias correction of both moments.

    Its own adds epsilon beside the root of the second moment before the correction.
    """

    def __init__(self, parameters, rate, clip_norm):
        super().__init__()
        self.parameters = ParameterTuple(parameters)
        self.decayed = tuple(each.ndim > 1 for each in parameters)  # dense weights, embeddings
        self.first = self.parameters.clone("first", init="zeros")
        self.second = self.parameters.clone("second", init="zeros")
        self.steps = Parameter(Tensor(0, ms.float32), name="steps")
        betas = np.array([facts.BETA1, facts.BETA2], np.float32)
        # Of the betas as the operator has them: 1 - float32(0.999) is off by 1e-5, and where the
        # correction is too, both cancel.
        logarithms = [math.log(beta) for beta in betas]
        # a graph keeps Python's numbers in float32
        constants = [*betas, *logarithms, rate, rate * facts.WEIGHT_DECAY, facts.EPSILON]
        self.constants = tuple(Tensor(each, ms.float32) for each in constants)
        self.clip_norm = None if clip_norm is None else Tensor(clip_norm, ms.float32)
        self.none = Tensor(0, ms.float32)  # for the operator's own bias correction
        self.adam, self.shrink = ops.Adam(), ops.ApplyGradientDescent()
        self.map = ops.HyperMap()

    def construct(self, gradients):
        beta1, beta2, log1, log2, rate, decay, epsilon = self.constants
        ops.assign_add(self.steps, ops.ones_like(self.steps))
        correction1 = -ops.expm1(self.steps * log1)
        root2 = ops.sqrt(-ops.expm1(self.steps * log2))
        if self.clip_norm is not None:
            norm = ops.sqrt(ops.addn(self.map(sum_of_squares, gradients)))
            scale = ops.minimum(self.clip_norm / norm, 1)
            gradients = self.map(ops.partial(ops.mul, scale), gradients)
        one = ops.partial(
            self.one, beta1, beta2, rate * root2 / correction1, decay, epsilon * root2
        )
        return self.map(one, self.parameters, self.first, self.second, self.decayed, gradients)

    def one(self, beta1, beta2, rate, decay, epsilon, weight, first, second, decayed, gradient):
        if decayed:
            self.shrink(weight, decay, weight)
        none = self.none
        self.adam(weight, first, second, none, none, rate, beta1, beta2, epsilon, gradient)
        return True


def sum_of_squares(x):
    """Rows first: the sum over all axes at once is slower and adds up its rounding."""
    return ops.reduce_sum(ops.reduce_sum(ops.square(x), -1))


def optimizer(run, network):
    return AdamW(
        network.trainable_params(),
        facts.learning_rate(run.global_batch_size),
        facts.CLIP_NORM if run.dimensions["clip"] else None,
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
            "attention": ATTENTION,
            "optimizer": "ops.Adam, decay apart",
            "clip": "global norm" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
    )


def inference(run):
    network = model(run, Encoder).set_train(False)
    own = weights(run, network)
    parity = {"attention": ATTENTION}
    return answers.infer(run, network, outputs, own, framework.put, parity=parity)


def outputs(network, *batch):
    return network(*batch).astype(ms.float32)
