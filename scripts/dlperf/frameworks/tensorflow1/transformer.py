"""Layers in a graph of TensorFlow 1: of an encoder (BERT, Devlin et al. 2018), with its embeddings,
and of a decoder (GPT-2, Radford et al. 2019).

Tokens lie in rows of a matrix; one product for query, key and value; every gradient dense.
Gradients by hand where the graph's own take longer: of GELU, of layer-norm, of a table that is
looked up and decodes, and, on the CPU, of products. There is no fused attention here. `facts` below
are those of a workload: sizes, epsilon and dropout.
"""

import math

import tensorflow as tf

from dlperf.frameworks.tensorflow1 import inference as answers
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.frameworks.tensorflow1.training import dtype

ATTENTION = "products and softmax"
ADAMW = "AdamW by ApplyAdam"
TWICE = 2 * math.sqrt(2 / math.pi)  # of the tanh in GPT-2's GELU
HIDDEN = -10000.0  # added to the scores of what is hidden: as a share, zero in every type
NARROW = 384  # measured on one core, with 256 rows and 51,200 words: up to here x comes first
FEW_ROWS = 256  # measured on one core: up to here for every kernel, beyond for tall ones alone


def variable(name, *shape):
    """The stopwatch writes all weights."""
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


def tied(table, lookups):
    """The table once for each lookup, and once for the decoder: one dense gradient, added to in
    place.

    The graph's own would be slices beside a dense array, which the framework sums as slices.
    """

    @tf.custom_gradient
    def copies(table):
        def gradient(*given):
            total = given[-1]
            for rows in given[:-1]:
                total = tf.tensor_scatter_nd_add(total, rows.indices[:, None], rows.values)
            return total

        return [table] * (lookups + 1), gradient

    return copies(table)


def decoder(run, x, words):
    """x @ words^T; on the CPU the words come first, as in kernel_first, unless they are narrow."""
    if run.cuda or int(x.shape[1]) <= NARROW:
        return tf.matmul(x, words, transpose_b=True)
    return tf.transpose(tf.matmul(words, x, transpose_b=True))


@tf.RegisterGradient("KernelFirst")
def kernel_first(product, dy):
    """The gradients of x @ kernel; that of few rows with the kernel as the first factor.

    Eigen packs the second one, and a transposed kernel slowly: longer than the product takes.
    """
    x, kernel = product.inputs
    inputs, outputs = kernel.shape.as_list()
    if int(x.shape[0]) <= FEW_ROWS or inputs > outputs:
        dx = tf.transpose(tf.matmul(kernel, dy, transpose_b=True))
    else:
        dx = tf.matmul(dy, kernel, transpose_b=True)
    return dx, tf.matmul(x, dy, transpose_a=True)


def dense(x, outputs, name):
    kernel = variable(name + "/weight", int(x.shape[-1]), outputs)
    bias = variable(name + "/bias", outputs)
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def layer_norm(facts, x, name):
    width = int(x.shape[-1])
    scale, shift = variable(name + "/weight", width), variable(name + "/bias", width)
    return tf.nn.bias_add(normalised(facts.LAYER_NORM_EPSILON)(x) * scale, shift)


def normalised(epsilon):
    @tf.custom_gradient
    def of(x):
        """`x` of mean 0 and variance 1 along its last axis."""
        mean = tf.reduce_mean(x, -1, keepdims=True)
        x = x - mean
        variance = tf.reduce_mean(tf.square(x), -1, keepdims=True)
        scale = tf.rsqrt(variance + epsilon)
        y = x * scale

        def gradient(dy):
            along = tf.reduce_mean(dy * y, -1, keepdims=True)
            return scale * (dy - tf.reduce_mean(dy, -1, keepdims=True) - y * along)

        return y, gradient

    return of


@tf.custom_gradient
def gelu(x):
    """The exact form, by the error function."""
    share = 0.5 + 0.5 * tf.erf(x * math.sqrt(0.5))

    def gradient(dy):
        density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
        return dy * (share + x * density)

    return x * share, gradient


@tf.custom_gradient
def gelu_by_tanh(x):
    """GPT-2's form, as a sigmoid: 1 + tanh(z) is twice that of 2 z."""
    square = tf.square(x)
    share = tf.sigmoid(x * (TWICE + TWICE * 0.044715 * square))

    def gradient(dy):
        slope = TWICE + 3 * TWICE * 0.044715 * square
        return dy * (share + x * share * (1 - share) * slope)

    return x * share, gradient


def dropout(x, training, rate):
    return tf.nn.dropout(x, rate=rate) if training else x


def embed(facts, words, tokens, segments, training):
    """(batch * tokens, width). words: a table as of `tied`; the rest is made, or there already."""
    batch, length = tokens.shape.as_list()
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        x = tf.gather(words, tokens)
        x = x + variable("position_embedding", facts.POSITIONS, facts.WIDTH)[:length]
        x = tf.reshape(x, [batch * length, facts.WIDTH])
        kinds = tf.one_hot(tf.reshape(segments, [-1]), facts.SEGMENTS, dtype=x.dtype)
        # as a product, so that its gradient is dense
        x = x + tf.matmul(kinds, variable("segment_embedding", facts.SEGMENTS, facts.WIDTH))
        return dropout(layer_norm(facts, x, "embedding_norm"), training, facts.DROPOUT)


def attention_bias(run, mask):
    """mask (batch, tokens) of 0 and 1 -> what attention adds to its scores."""
    return HIDDEN * (1 - tf.cast(mask, dtype(run)))[:, None, None, :]


def causal_bias(run, tokens):
    """What hides later tokens, (1, 1, tokens, tokens)."""
    seen = tf.linalg.band_part(tf.ones([1, 1, tokens, tokens], dtype(run)), -1, 0)
    return HIDDEN * (1 - seen)


def products(run):
    """Inside of it, products of dense layers have the faster gradient."""
    kinds = {} if run.cuda else {"MatMul": "KernelFirst"}
    return tf.get_default_graph().gradient_override_map(kinds)


def layers(run, facts, x, bias, heads, inner_width, prefix, training):
    """x (batch * tokens, width) behind all layers; bias (batch, 1, 1, tokens)."""
    with products(run):
        for index in range(facts.LAYERS):
            x = layer(facts, x, bias, heads, inner_width, "%slayer%d" % (prefix, index), training)
    return x


def layer(facts, x, bias, heads, inner_width, name, training):
    """Attention, then two dense layers; each normalises after its sum."""
    mixed = attention(facts, x, bias, heads, name, training)
    x = x + dropout(mixed, training, facts.DROPOUT)
    x = layer_norm(facts, x, name + "/norm1")
    inner = gelu(dense(x, inner_width, name + "/ffn1"))
    inner = dense(inner, int(x.shape[-1]), name + "/ffn2")
    x = x + dropout(inner, training, facts.DROPOUT)
    return layer_norm(facts, x, name + "/norm2")


def decoder_layers(run, facts, x, training):
    """x (batch * tokens, width) behind all layers of a decoder."""
    bias = causal_bias(run, run.dimensions["sequence_length"])
    with products(run):
        for index in range(run.dimensions["layers"]):
            name = "layer%d" % index
            x = decoder_layer(facts, x, bias, run.dimensions["heads"], name, training)
    return x


def decoder_layer(facts, x, bias, heads, name, training):
    """Causal attention, then two dense layers; each normalises its input."""
    width = int(x.shape[-1])
    normed = layer_norm(facts, x, name + "/norm1")
    mixed = attention(facts, normed, bias, heads, name, training)
    x = x + dropout(mixed, training, facts.DROPOUT)
    normed = layer_norm(facts, x, name + "/norm2")
    inner = gelu_by_tanh(dense(normed, 4 * width, name + "/ffn1"))
    inner = dense(inner, width, name + "/ffn2")
    return x + dropout(inner, training, facts.DROPOUT)


def attention(facts, x, bias, heads, name, training):
    """bias (batch or 1, 1, tokens or 1, tokens): added to scores."""
    tokens, width = int(bias.shape[3]), int(x.shape[-1])
    batch = int(x.shape[0]) // tokens
    qkv = dense(x, 3 * width, name + "/qkv")
    qkv = tf.reshape(qkv, [batch, tokens, 3, heads, width // heads])
    query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
    query = query * (1 / math.sqrt(width // heads))
    shares = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + bias)
    shares = dropout(shares, training, facts.ATTENTION_DROPOUT)
    mixed = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
    return dense(tf.reshape(mixed, x.shape), width, name + "/projection")


def chosen(x, positions):
    """x (batch * tokens, width) at positions (batch, places) -> (batch * places, width)."""
    batch, width = int(positions.shape[0]), int(x.shape[-1])
    x = tf.reshape(x, [batch, -1, width])
    x = tf.gather_nd(x, positions[:, :, None], batch_dims=1)  # tf.gather's would be slices
    return tf.reshape(x, [-1, width])


def trained():
    """The default graph's trained variables by their canonical names."""
    return {v.op.name.replace("/", "."): v for v in tf.trainable_variables()}


def weights(run, network):
    """The default graph's trained variables by the names of facts.parameters."""
    return framework.Weights(run, trained())


def fields(run, empty):
    """empty(batch size, sequence length): arrays of a batch."""
    batch = empty(run.batch_size, run.dimensions["sequence_length"])
    return [(name, each.shape, each.dtype) for name, each in batch._asdict().items()]


def train(run, network, loss, optimizer, weights, fields, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": ATTENTION}, **parity)
    return framework.train(run, network, loss, optimizer, weights, fields, parity=parity, **more)


def infer(run, network, outputs, weights, fields, attention=ATTENTION):
    parity = {"attention": attention}
    return answers.infer(run, network, outputs, weights, fields, parity=parity)
