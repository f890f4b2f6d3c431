"""BERT-Base pre-training in TensorFlow 1.15, as a session graph.

As fast as it gets: one product for query,
key and value, the decoder at predicted positions only, every gradient dense, ApplyAdam in place of
an optimiser of single operators. Gradients by hand where the graph's own take longer: of GELU, of
layer-norm, of the tied embedding, and, on the CPU, of products. There is no fused attention here.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from dlperf.data import text
from dlperf.frameworks.tensorflow1 import inference as answers
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.bert import facts

ATTENTION = "products and softmax"
HIDDEN = -10000.0  # added to the scores of padding: as a share, zero in every type
FEW_ROWS = 256  # measured on one core: up to here for every kernel, beyond for tall ones alone


def variable(name, *shape):
    """The stopwatch writes all weights."""
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


@tf.custom_gradient
def tied(words, tokens):
    """The words' rows, and all words for the decoder: one dense gradient, added to in place.

    The graph's own would be slices beside a dense array, which the framework sums as slices.
    """

    def gradient(rows, decoder):
        return tf.tensor_scatter_nd_add(decoder, tokens[:, :, None], rows), None

    return (tf.gather(words, tokens), tf.identity(words)), gradient


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


def decoder(run, x, words):
    """x @ words^T; on the CPU the words come first, as in kernel_first."""
    if run.cuda:
        return tf.matmul(x, words, transpose_b=True)
    return tf.transpose(tf.matmul(words, x, transpose_b=True))


def dense(x, outputs, name):
    kernel = variable(name + "/weight", int(x.shape[-1]), outputs)
    bias = variable(name + "/bias", outputs)
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


@tf.custom_gradient
def normalised(x):
    """`x` of mean 0 and variance 1 along its last axis."""
    mean = tf.reduce_mean(x, -1, keepdims=True)
    x = x - mean
    variance = tf.reduce_mean(tf.square(x), -1, keepdims=True)
    scale = tf.rsqrt(variance + facts.LAYER_NORM_EPSILON)
    y = x * scale

    def gradient(dy):
        along = tf.reduce_mean(dy * y, -1, keepdims=True)
        return scale * (dy - tf.reduce_mean(dy, -1, keepdims=True) - y * along)

    return y, gradient


def layer_norm(x, name):
    scale = variable(name + "/weight", facts.WIDTH)
    shift = variable(name + "/bias", facts.WIDTH)
    return tf.nn.bias_add(normalised(x) * scale, shift)


@tf.custom_gradient
def gelu(x):
    """The exact form, by the error function."""
    share = 0.5 + 0.5 * tf.erf(x * math.sqrt(0.5))

    def gradient(dy):
        density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
        return dy * (share + x * density)

    return x * share, gradient


def dropout(x, training, rate=None):
    return tf.nn.dropout(x, rate=facts.DROPOUT if rate is None else rate) if training else x


def attention(x, bias, name, training):
    """x (batch * tokens, width), bias (batch, 1, 1, tokens)."""
    batch, tokens = int(bias.shape[0]), int(bias.shape[3])
    qkv = dense(x, 3 * facts.WIDTH, name + "/qkv")
    qkv = tf.reshape(qkv, [batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH])
    query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
    query = query * (1 / math.sqrt(facts.HEAD_WIDTH))
    shares = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + bias)
    shares = dropout(shares, training, facts.ATTENTION_DROPOUT)
    mixed = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
    return dense(tf.reshape(mixed, x.shape), facts.WIDTH, name + "/projection")


def layer(x, bias, name, training):
    mixed = dropout(attention(x, bias, name, training), training)
    x = layer_norm(x + mixed, name + "/norm1")
    inner = dense(gelu(dense(x, facts.INNER_WIDTH, name + "/ffn1")), facts.WIDTH, name + "/ffn2")
    return layer_norm(x + dropout(inner, training), name + "/norm2")


def encode(run, tokens, segments, mask, training):
    """The encoder's output (batch, tokens, width), and the words for the decoder."""
    batch, length = tokens.shape.as_list()
    dtype = framework.dtype(run)
    rows, words = tied(variable("word_embedding", facts.VOCABULARY, facts.WIDTH), tokens)
    x = rows + variable("position_embedding", facts.POSITIONS, facts.WIDTH)[:length]
    x = tf.reshape(x, [batch * length, facts.WIDTH])
    kinds = tf.one_hot(tf.reshape(segments, [-1]), facts.SEGMENTS, dtype=dtype)
    # as a product, so that its gradient is dense
    x = x + tf.matmul(kinds, variable("segment_embedding", facts.SEGMENTS, facts.WIDTH))
    x = dropout(layer_norm(x, "embedding_norm"), training)
    bias = HIDDEN * (1 - tf.cast(mask, dtype))[:, None, None, :]
    with tf.get_default_graph().gradient_override_map(
        {} if run.cuda else {"MatMul": "KernelFirst"}
    ):
        for index in range(facts.LAYERS):
            x = layer(x, bias, "layer%d" % index, training)
    return tf.reshape(x, [batch, length, facts.WIDTH]), words


def heads(run, x, words, positions):
    """Logits of the words (batch * predictions, padded vocabulary) and of the pairs."""
    hidden = tf.gather_nd(x, positions[:, :, None], batch_dims=1)  # tf.gather's would be slices
    hidden = gelu(dense(tf.reshape(hidden, [-1, facts.WIDTH]), facts.WIDTH, "mlm"))
    bias, padding = variable("mlm_bias", facts.VOCABULARY), facts.padding(run.dimensions)
    hidden = layer_norm(hidden, "mlm_norm")
    if padding:
        words = tf.pad(words, [[0, padding], [0, 0]])
        bias = tf.pad(bias, [[0, padding]], constant_values=facts.PADDING_SCORE)
    hidden = decoder(run, hidden, words)
    pooled = tf.tanh(dense(x[:, 0], facts.WIDTH, "pooler"))
    return tf.nn.bias_add(hidden, bias), dense(pooled, 2, "nsp")


def bert(run, tokens, segments, mask, positions):
    """The logits of `heads`."""
    return heads(run, *encode(run, tokens, segments, mask, training=True), positions)


def model(run):
    return functools.partial(bert, run)


def weights(run, network):
    """The default graph's trained variables by the names of facts.parameters."""
    return framework.Weights({v.op.name.replace("/", "."): v for v in tf.trainable_variables()})


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    words, pairs = network(tokens, segments, mask, positions)
    predicted = tf.reshape(tf.cast(predicted, words.dtype), [-1])
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    each = entropy(labels=tf.reshape(labels, [-1]), logits=words)
    language = tf.reduce_sum(predicted * each) / tf.reduce_sum(predicted)
    return language + tf.reduce_mean(entropy(labels=follows, logits=pairs))


class AdamW(tf.train.Optimizer):
    """ApplyAdam after the decay in place: the weights are passed over twice, no more.

    The operator adds its epsilon to a root that is not bias-corrected, and corrects by powers of
    beta that it takes in float32: both are made here, in float64, and the operator told of powers
    of zero.
    """

    def __init__(self, dtype, rate, clip_norm):
        super().__init__(use_locking=False, name="AdamW")
        self.dtype, self.rate, self.clip_norm = dtype, rate, clip_norm
        # as the operator has them: 1 - 0.999 in float32 is 1e-5 off, and its correction too
        self.betas = [dtype.as_numpy_dtype(beta) for beta in (facts.BETA1, facts.BETA2)]

    def apply_gradients(self, gradients, *more, **named):
        """Clipped by their norm all together."""
        gradients, variables = zip(*gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return super().apply_gradients(list(zip(gradients, variables)), *more, **named)

    def _create_slots(self, variables):
        self._create_non_slot_variable(np.float64(0), "steps", colocate_with=variables[0])
        for variable in variables:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _prepare(self):
        """What is the same for all variables, made once: each operator costs time to build."""
        self.steps = self._get_non_slot_variable("steps", tf.get_default_graph())
        correction1, correction2 = [1 - np.float64(b) ** (self.steps + 1) for b in self.betas]
        root = tf.sqrt(correction2)
        self.decay = tf.constant(self.rate * facts.WEIGHT_DECAY, self.dtype)
        self.numbers = dict(
            beta1_power=tf.zeros([], self.dtype),
            beta2_power=tf.zeros([], self.dtype),
            lr=tf.cast(self.rate * root / correction1, self.dtype),
            beta1=tf.constant(self.betas[0], self.dtype),
            beta2=tf.constant(self.betas[1], self.dtype),
            epsilon=tf.cast(facts.EPSILON * root, self.dtype),
        )

    def _apply_dense(self, gradient, variable):
        before = [gradient]  # and with it whatever read the weights
        if len(variable.shape) > 1:
            with tf.control_dependencies(before):
                before = [
                    tf.raw_ops.ApplyGradientDescent(var=variable, alpha=self.decay, delta=variable)
                ]
        with tf.control_dependencies(before):
            return tf.raw_ops.ApplyAdam(
                var=variable,
                m=self.get_slot(variable, "m"),
                v=self.get_slot(variable, "v"),
                grad=gradient,
                **self.numbers,
            )

    def _finish(self, updates, name):
        with tf.control_dependencies(updates):
            return tf.assign_add(self.steps, np.float64(1), name=name).op


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return AdamW(framework.dtype(run), facts.learning_rate(run.global_batch_size), clip_norm)


def training(run):
    return framework.train(
        run,
        model(run),
        loss,
        optimizer,
        weights,
        fields(run),
        parity={
            "attention": ATTENTION,
            "optimizer": "AdamW by ApplyAdam",
            "clip": "global norm" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
    )


def fields(run):
    batch = text.empty(run.batch_size, run.dimensions["sequence_length"])
    return [(name, each.shape, each.dtype) for name, each in batch._asdict().items()]


def inference(run):
    parity = {"attention": ATTENTION}
    return answers.infer(run, model(run), outputs, weights, fields(run), parity=parity)


def outputs(run, network, tokens, segments, mask, positions, *_):
    x, words = encode(run, tokens, segments, mask, training=False)
    heads(run, x, words, positions)  # for their weights; the frozen graph leaves them out
    return x
