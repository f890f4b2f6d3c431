"""Layers in TensorFlow 2, as tf.Modules: of an encoder (BERT, Devlin et al. 2018), with its
embeddings, and of a decoder (GPT-2, Radford et al. 2019).

Tokens lie in rows of a matrix, as a product of more dimensions is a slower operator with a slower
gradient; one product for query, key and value. TensorFlow has no fused operator for attention.
`facts` below are those of a workload: sizes, epsilon and dropout are read when a model is made.
"""

import math

import tensorflow as tf

from dlperf.frameworks.tensorflow import inference as answers
from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow.process import dtype as own_type

ATTENTION = "matmul, softmax, matmul (TensorFlow has none fused)"
ADAMW = "AdamW, Adam fused (ResourceApplyAdam)"
TWICE = 2 * math.sqrt(2 / math.pi)  # of the tanh in GPT-2's GELU


def variable(*shape):
    return tf.Variable(tf.zeros(shape, own_type()))  # the stopwatch writes all weights


class Dense(tf.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = variable(inputs, outputs), variable(outputs)

    def __call__(self, x):
        x = tf.matmul(x, tf.cast(self.weight, x.dtype))
        return tf.nn.bias_add(x, tf.cast(self.bias, x.dtype))


class RowDense(Dense):
    """A dense layer of whose inputs each rank of a tensor group has a part."""

    def __init__(self, group, inputs, outputs):
        super().__init__(inputs // group.size, outputs)
        self.group = group

    def __call__(self, x):
        x = self.group.leave(tf.matmul(x, tf.cast(self.weight, x.dtype)))
        return tf.nn.bias_add(x, tf.cast(self.bias, x.dtype))


class LayerNorm(tf.Module):
    def __init__(self, facts, width, bias=True):
        super().__init__()
        self.weight, self.bias = variable(width), variable(width) if bias else None
        self.epsilon = facts.LAYER_NORM_EPSILON

    def __call__(self, x):
        """In the variables' type, whatever that of x: means are not for half precision."""
        wide = tf.cast(x, self.weight.dtype)
        mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
        y = tf.nn.batch_normalization(wide, mean, variance, self.bias, self.weight, self.epsilon)
        return tf.cast(y, x.dtype)


def gelu(x):
    """The exact form. tf.nn.gelu is this with the root rounded to float32, also for float64."""
    return 0.5 * x * tf.math.erfc(x * -(0.5**0.5))


def gelu_by_tanh(x):
    """GPT-2's form, as a sigmoid: 1 + tanh(z) is twice that of 2 z. tf.nn.gelu's takes more passes,
    and rounds a constant to float32."""
    return x * tf.sigmoid(x * (TWICE + TWICE * 0.044715 * tf.square(x)))


def dropout(x, training, rate, seed=None):
    """Of half precision by float32 random numbers: tf.nn.dropout draws them in x's type, which has
    so few values that another share than `rate` is dropped.

    seed: the operator's; None: TensorFlow numbers operators.
    """
    if not training or x.dtype.size > 2:
        return tf.nn.dropout(x, rate, seed=seed) if training else x
    shares = tf.where(tf.random.uniform(x.shape, seed=seed) < rate, 0.0, 1 / (1 - rate))
    return x * tf.cast(shares, x.dtype)


class Layer(tf.Module):
    """Attention, then two dense layers; each normalises after its sum."""

    def __init__(self, facts, width, heads, inner_width):
        super().__init__()
        self.heads, self.head_width, self.seed = heads, width // heads, None
        self.qkv = Dense(width, 3 * width)
        self.projection = Dense(width, width)
        self.norm1 = LayerNorm(facts, width)
        self.ffn1 = Dense(width, inner_width)
        self.ffn2 = Dense(inner_width, width)
        self.norm2 = LayerNorm(facts, width)
        self.dropout, self.attention_dropout = facts.DROPOUT, facts.ATTENTION_DROPOUT

    def __call__(self, x, bias, training):
        """x (batch x tokens, width), bias (batch, 1, 1, tokens): added to attention's scores."""
        mixed = self.projection(self.attention(x, bias, training))
        x = self.norm1(x + dropout(mixed, training, self.dropout))
        inner = self.ffn2(gelu(self.ffn1(x)))
        return self.norm2(x + dropout(inner, training, self.dropout))

    def attention(self, x, bias, training):
        """bias (batch or 1, 1, tokens or 1, tokens): added to scores."""
        tokens, heads, head_width = bias.shape[-1], self.heads, self.head_width
        batch = x.shape[0] // tokens
        qkv = tf.reshape(self.qkv(x), [batch, tokens, 3, heads, head_width])
        query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        query *= head_width**-0.5
        scores = tf.matmul(query, key, transpose_b=True) + bias
        shares = dropout(tf.nn.softmax(scores), training, self.attention_dropout, self.seed)
        mixed = tf.matmul(shares, value)
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch * tokens, heads * head_width])


class DecoderLayer(Layer):
    """Causal attention, then two dense layers; each normalises its input.

    group: the parallel.TensorGroup that divides heads and the inner layer.
    """

    def __init__(self, group, facts, width, heads, inner_width):
        ranks = group.size
        super().__init__(facts, width, heads, inner_width)
        self.group, self.heads, self.seed = group, heads // ranks, group.own_seed()
        self.qkv = Dense(width, 3 * width // ranks)
        self.projection = RowDense(group, width, width)
        self.ffn1 = Dense(width, inner_width // ranks)
        self.ffn2 = RowDense(group, inner_width, width)

    def __call__(self, x, bias, training):
        """x (batch x tokens, width), bias of causal_bias."""
        entered = self.group.enter(self.norm1(x))
        mixed = self.projection(self.attention(entered, bias, training))
        x += dropout(mixed, training, self.dropout)
        inner = gelu_by_tanh(self.ffn1(self.group.enter(self.norm2(x))))
        return x + dropout(self.ffn2(inner), training, self.dropout)


def layers(facts, width, heads, inner_width):
    return [Layer(facts, width, heads, inner_width) for _ in range(facts.LAYERS)]


class Embedded(tf.Module):
    """A model's base, with its embeddings: of words, positions and segments."""

    def __init__(self, facts):
        super().__init__()
        self.word_embedding = variable(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = variable(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = variable(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = LayerNorm(facts, facts.WIDTH)
        self.dropout = facts.DROPOUT

    def table(self):
        """The words' rows, as a tensor: once they were gathered from a variable, each read of it is
        a copy. Its gradient is dense: of slices, a clip's norm would count each use of a row.
        """
        return with_dense_gradient(tf.convert_to_tensor(self.word_embedding))

    def embed(self, table, tokens, segments, dtype, training):
        """(batch x tokens, width); table: the words' rows."""
        batch, length = tokens.shape
        x = tf.gather(table, tokens)
        # of two rows, a product is faster than a gather and its gradient
        segments = tf.one_hot(segments, self.segment_embedding.shape[0], dtype=dtype)
        segments = tf.tensordot(segments, tf.cast(self.segment_embedding, dtype), 1)
        x += tf.cast(segments, x.dtype) + self.position_embedding[:length]
        x = tf.reshape(x, [batch * length, x.shape[-1]])
        return dropout(tf.cast(self.embedding_norm(x), dtype), training, self.dropout)


@tf.custom_gradient
def with_dense_gradient(table):
    return tf.identity(table), tf.convert_to_tensor


def encoded(layers, x, mask, dtype, training):
    """What these layers make of x; mask (batch, tokens)."""
    bias = attention_bias(mask, dtype)
    for layer in layers:
        x = layer(x, bias, training)
    return x


def attention_bias(mask, dtype):
    """mask (batch, tokens) of 0 and 1 -> what attention adds to its scores."""
    return tf.where(mask[:, None, None, :] == 0, tf.constant(float("-inf"), dtype), 0)


def causal_bias(tokens, dtype):
    """What hides later tokens, (1, 1, tokens, tokens)."""
    seen = tf.linalg.band_part(tf.ones([1, 1, tokens, tokens], tf.bool), -1, 0)
    return tf.where(seen, tf.constant(0, dtype), tf.constant(float("-inf"), dtype))


def rows(positions, length):
    """The rows of x (batch x tokens, width) that positions (batch, places) are in."""
    starts = tf.range(0, positions.shape[0] * length, length)
    return tf.reshape(positions + starts[:, None], [-1])


def parameters(network, single, modules, layers):
    """Canonical name -> variable: of `single` ones, of modules, and of layers by their prefix."""
    named = {name: getattr(network, name) for name in single}

    def add(module, prefix, *names):
        for name in names:
            named[prefix + name + ".weight"] = getattr(module, name).weight
            named[prefix + name + ".bias"] = getattr(module, name).bias

    add(network, "", *modules)
    for prefix, stack in layers.items():
        for index, layer in enumerate(stack):
            names = ("qkv", "projection", "norm1", "ffn1", "ffn2", "norm2")
            add(layer, "%slayer%d." % (prefix, index), *names)
    return named


def specs(run, empty):
    """empty(batch size, sequence length): arrays of a batch."""
    batch = empty(run.batch_size, run.dimensions["sequence_length"])
    return [tf.TensorSpec(array.shape, array.dtype) for array in batch]


def train(run, network, loss, optimizer, weights, empty, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": ATTENTION}, **parity)
    own = (loss, optimizer, weights, framework.put, specs(run, empty))
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, empty, attention=ATTENTION):
    own = (outputs, weights, framework.put, specs(run, empty))
    return answers.infer(run, network, *own, parity={"attention": attention})
