"""Layers in MXNet's Gluon: of an encoder (BERT, Devlin et al. 2018), with its embeddings, and of a
decoder (GPT-2, Radford et al. 2019).

As fast as it gets: tokens lie before sequences, as the fused operators of self-attention want it;
query, key and value are one product, interleaved head by head for them. On a CPU, layer norm is put
together from products. `facts` below are those of a workload: epsilon and dropout are read when a
model is made.
"""

import numpy as np
from mxnet.gluon import nn

from dlperf import workloads
from dlperf.frameworks.mxnet import inference as answers
from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet.adamw import AdamW

TWICE = 2 * (2 / np.pi) ** 0.5  # of the tanh in GPT-2's GELU
HIDDEN = -1e9  # added to a score: the share is 0 exactly, and no infinity meets bfloat16


def dense(inputs, outputs, bias=True):
    # the stopwatch writes all weights
    return nn.Dense(outputs, in_units=inputs, use_bias=bias, weight_initializer="zeros")


class LayerNorm(nn.LayerNorm):
    """On a CPU by products: MXNet's own sums and broadcasts take three times as long there."""

    def __init__(self, run, facts, width, center=True):
        super().__init__(epsilon=facts.LAYER_NORM_EPSILON, center=center, in_channels=width)
        self.cuda, self.width = run.cuda, width

    def hybrid_forward(self, F, x, gamma, beta):
        if self.cuda:
            return super().hybrid_forward(F, x, gamma, beta)
        across, down = F.ones_like(gamma), F.ones_like(F.slice_axis(x, axis=1, begin=0, end=1))
        spread, mean = across.reshape((1, -1)), across.reshape((-1, 1)) / self.width
        x = F.elemwise_sub(x, F.dot(F.dot(x, mean), spread))
        scale = F.rsqrt(F.dot(F.square(x), mean) + self._epsilon)
        x = F.elemwise_mul(x, F.dot(scale, spread))
        x = F.elemwise_mul(x, F.dot(down, gamma.reshape((1, -1))))
        return F.elemwise_add(x, F.dot(down, beta.reshape((1, -1))))


def gelu(F, x, run):
    if run.float64:  # MXNet's own is exact, but computes in float32
        erf = F.erf(x * 0.5**0.5)
        # and has sqrt(pi) in float32 in erf's derivative: the value stays, the gradient gets right
        more = float(np.float32(np.pi**0.5)) / np.pi**0.5 - 1
        return 0.5 * x * (1 + erf + more * (erf - F.BlockGrad(erf)))
    return F.LeakyReLU(x, act_type="gelu")


def gelu_by_tanh(F, x):
    """GPT-2's form, which MXNet has not, as a sigmoid: 1 + tanh(z) is twice that of 2 z."""
    inner = F.elemwise_mul(x, F.square(x) * (TWICE * 0.044715) + TWICE)
    return F.elemwise_mul(x, F.sigmoid(inner))


class Layer(nn.HybridBlock):
    """Attention, then two dense layers; each normalises after its sum."""

    def __init__(self, run, facts, width, heads, inner_width):
        super().__init__()
        self.run, self.width, self.heads = run, width, heads
        self.qkv = dense(width, 3 * width)
        self.projection = dense(width, width)
        self.norm1 = LayerNorm(run, facts, width)
        self.ffn1 = dense(width, inner_width)
        self.ffn2 = dense(inner_width, width)
        self.norm2 = LayerNorm(run, facts, width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout = nn.Dropout(facts.ATTENTION_DROPOUT)

    def hybrid_forward(self, F, x, bias):
        """x (tokens x batch, width), as dense layers are fastest; bias of attention_bias."""
        x = self.norm1(F.elemwise_add(x, self.dropout(self.attention(F, x, bias))))
        inner = self.ffn2(gelu(F, self.ffn1(x), self.run))
        return self.norm2(F.elemwise_add(x, self.dropout(inner)))

    def attention(self, F, x, bias):
        qkv = self.qkv(x)
        if self.run.amp and not self.run.cuda:  # there the fused operators know no bfloat16
            qkv = F.amp_cast(qkv, dtype="float32")
        qkv = qkv.reshape((-1, self.run.batch_size, 3 * self.width))
        shares = F.softmax(F.elemwise_add(self.scores(F, qkv), bias))
        mixed = self.mix(F, qkv, self.attention_dropout(shares)).reshape((-3, 0))
        return self.projection(mixed)

    def scores(self, F, qkv):
        """(tokens, batch, heads x 3 x head width) -> (batch x heads, tokens, tokens), scaled."""
        if self.run.float64:  # the fused operators know float32 only
            query, key, _ = self.parts(F, qkv)
            scale = (self.width // self.heads) ** -0.5
            return F.batch_dot(query * scale, key, transpose_b=True)
        return F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self.heads)

    def mix(self, F, qkv, shares):
        """Values by their shares: (tokens, batch, width)."""
        if self.run.float64:
            mixed = F.batch_dot(shares, self.parts(F, qkv)[2]).reshape((-4, -1, self.heads, 0, 0))
            return mixed.transpose((2, 0, 1, 3)).reshape((0, 0, -3))
        return F.contrib.interleaved_matmul_selfatt_valatt(qkv, shares, heads=self.heads)

    def parts(self, F, qkv):
        qkv = qkv.reshape((0, 0, self.heads, 3, -1)).transpose((3, 1, 2, 0, 4))
        return F.split(qkv.reshape((0, -3, 0, 0)), num_outputs=3, axis=0, squeeze_axis=True)


class DecoderLayer(Layer):
    """Causal attention, then two dense layers; each normalises its input."""

    def hybrid_forward(self, F, x, bias):
        """x (tokens x batch, width); bias of causal_bias."""
        mixed = self.attention(F, self.norm1(x), bias)
        x = F.elemwise_add(x, self.dropout(mixed))
        inner = self.ffn2(gelu_by_tanh(F, self.ffn1(self.norm2(x))))
        return F.elemwise_add(x, self.dropout(inner))


def hidden_later(block, tokens):
    """A constant of this block: what hides later tokens, (1, tokens, tokens)."""
    hidden = np.triu(np.full((1, tokens, tokens), HIDDEN, np.float32), 1)
    return block.params.get_constant("later", hidden)


def causal_bias(F, later, run):
    """hidden_later as layers add it to their scores: a row a head and query, see attention_bias."""
    return F.broadcast_axis(later, axis=0, size=run.batch_size * run.dimensions["heads"])


def layers(run, facts, width, heads, inner_width):
    made = nn.HybridSequential()
    for _ in range(facts.LAYERS):
        made.add(Layer(run, facts, width, heads, inner_width))
    return made


class Embedded(nn.HybridBlock):
    """A model over the sum of three tables, normalised: its blocks, and what reads them."""

    def __init__(self, run, facts):
        super().__init__()
        self.run, self.facts = run, facts
        self.word_embedding = self.table("word_embedding", facts.VOCABULARY)
        self.position_embedding = self.table("position_embedding", facts.POSITIONS)
        self.segment_embedding = self.table("segment_embedding", facts.SEGMENTS)
        self.embedding_norm = LayerNorm(run, facts, facts.WIDTH)
        self.dropout = nn.Dropout(facts.DROPOUT)

    def table(self, name, entries):
        return self.params.get(name, shape=(entries, self.facts.WIDTH), init="zeros")

    def embed(self, F, tokens, segments, own):
        """Tokens and segments, (tokens, batch) -> (tokens x batch, width)"""
        facts, word, segment = self.facts, own["word_embedding"], own["segment_embedding"]
        length = self.run.dimensions["sequence_length"]
        x = F.Embedding(tokens, word, facts.VOCABULARY, facts.WIDTH)
        x = x + F.Embedding(segments, segment, facts.SEGMENTS, facts.WIDTH)
        position = F.slice_axis(own["position_embedding"], axis=0, begin=0, end=length)
        x = F.broadcast_add(x, position.expand_dims(1)).reshape((-3, 0))
        return self.dropout(self.embedding_norm(x))

    def attention_bias(self, F, mask, heads):
        """mask (batch, tokens) of 0 and 1 -> what layers of so many heads add to their scores.

        A row a head and query: the sum of two equal shapes is five times as fast as one that
        broadcasts, and softmax with lengths is slower still.
        """
        bias = F.repeat((mask - 1) * -HIDDEN, heads, axis=0).expand_dims(1)
        return F.broadcast_axis(bias, axis=1, size=self.run.dimensions["sequence_length"])


def initialized(run, network):
    """training.initialized, where tensors of one dimension have no decay."""
    network = framework.initialized(run, network)
    for parameter in network.collect_params().values():
        if len(parameter.shape) == 1:
            parameter.wd_mult = 0.0
    return network


class Weights(framework.Weights):
    """The operators of attention want query, key and value of a head side by side.

    heads: of the layer whose tensor has this name.
    """

    def __init__(self, run, named, heads):
        super().__init__(run, named)
        self._tensors, self.heads = workloads.built(run.workload, run.dimensions), heads

    def own(self, name, array):
        blocks = self._blocks(name)
        return array if blocks == 1 else regrouped(array, blocks, self.heads(name))

    def canonical(self, name, array):
        blocks = self._blocks(name)
        return array if blocks == 1 else regrouped(array, self.heads(name), blocks)

    def _blocks(self, name):
        """3 where query, key and value are one tensor, else 1."""
        return self._tensors[name].blocks if name in self._tensors else 1


def regrouped(array, first, second):
    """Rows (first, second, head width) -> (second, first, head width)."""
    split = array.reshape((first, second, -1) + array.shape[1:])
    return split.swapaxes(0, 1).reshape(array.shape)


def attention(run):
    return "batch_dot" if run.float64 else "interleaved_matmul_selfatt"


def put(run, batch):
    """A loader's batch, a NamedTuple -> arrays: int32, and what is multiplied in the model's type.

    For positions come rows of (tokens x batch, width); AMP breaks the `arange` of a graph.
    """
    count = len(batch.tokens)
    rows = batch.positions * count + np.arange(count)[:, None]
    dtype = "float64" if run.float64 else "float32"
    return [
        framework.put(run, array, dtype if name == "mask" or array.dtype == np.float32 else "int32")
        for name, array in batch._replace(positions=rows)._asdict().items()
    ]


def adamw(run, network, facts, clip_norm):
    """A trainer by AdamW with the constants of a workload's facts."""
    adam = AdamW(
        facts,
        clip_norm=clip_norm,
        tensors=len(workloads.built(run.workload, run.dimensions)),
        many=45 if run.cuda else 1,  # on a CPU one by one takes 10 % less time
        learning_rate=facts.learning_rate(run.global_batch_size),
        wd=facts.WEIGHT_DECAY,
    )
    return framework.trainer(run, network, adam)


def name_of(trainer):
    """What a record says of adamw."""
    return "AdamW, fused, %d tensors an operator" % trainer.optimizer.many


def loss(run, network):
    """Of a network that gives its loss."""
    return network


def train(run, network, loss, optimizer, weights, put, inputs, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": attention(run)}, **parity)
    own = (loss, optimizer, weights, put, inputs)
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, put, inputs, **parity):
    own = (outputs, weights, put, inputs)
    parity = dict({"attention": attention(run)}, **parity)
    return answers.infer(run, network, *own, parity=parity)
