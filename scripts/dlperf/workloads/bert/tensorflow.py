"""BERT-Base pre-training in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; the encoder of
frameworks/tensorflow/transformer.py; the decoder at predicted positions only; Adam is one operator
a tensor. Under AMP, fp32 variables are cast to bfloat16 or float16 where they are used.
"""

import tensorflow as tf

from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow import transformer
from dlperf.frameworks.tensorflow.adamw import AdamW
from dlperf.frameworks.tensorflow.transformer import (
    ADAMW,
    Dense,
    Embedded,
    LayerNorm,
    encoded,
    gelu,
    layers,
    parameters,
    rows,
    variable,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty


class Bert(Embedded):
    def __init__(self, padding=0):
        super().__init__(facts)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.mlm = Dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = LayerNorm(facts, facts.WIDTH)
        self.mlm_bias = variable(facts.VOCABULARY)
        self.pooler = Dense(facts.WIDTH, facts.WIDTH)
        self.nsp = Dense(facts.WIDTH, 2)

    def encode(self, table, tokens, segments, mask, dtype, training):
        """The encoder's output (batch x tokens, width); table: the word embedding."""
        x = self.embed(table, tokens, segments, dtype, training)
        return encoded(self.layers, x, mask, dtype, training)

    def __call__(self, tokens, segments, mask, positions, dtype, training=True):
        """Logits of words (batch x predictions, padded vocabulary) and of pairs (batch, 2)."""
        batch, length = tokens.shape
        table = self.table()
        x = self.encode(table, tokens, segments, mask, dtype, training)
        hidden = tf.gather(x, rows(positions, length))
        hidden = self.mlm_norm(gelu(self.mlm(hidden)))
        table, bias = tf.cast(table, dtype), tf.cast(self.mlm_bias, dtype)
        if self.padding:
            table = tf.pad(table, [[0, self.padding], [0, 0]])
            bias = tf.pad(bias, [[0, self.padding]], constant_values=facts.PADDING_SCORE)
        words = tf.nn.bias_add(tf.matmul(hidden, table, transpose_b=True), bias)
        first = tf.range(0, batch * length, length)  # the row of each sequence's first token
        pairs = self.nsp(tf.tanh(self.pooler(tf.gather(x, first))))
        # the losses are not for half precision
        return tf.cast(words, framework.dtype()), tf.cast(pairs, framework.dtype())


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return Bert(facts.padding(run.dimensions))


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    single = ("word_embedding", "position_embedding", "segment_embedding", "mlm_bias")
    modules = ("embedding_norm", "mlm", "mlm_norm", "pooler", "nsp")
    return framework.Weights(run, parameters(network, single, modules, {"": network.layers}))


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    words, pairs = network(tokens, segments, mask, positions, framework.compute_dtype(run))
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    predicted = tf.reshape(tf.cast(predicted, words.dtype), [-1])
    language = entropy(tf.reshape(labels, [-1]), words)
    language = tf.reduce_sum(predicted * language) / tf.reduce_sum(predicted)
    return language + tf.reduce_mean(entropy(follows, pairs))


def optimizer(run, network):
    return AdamW(
        facts,
        network.trainable_variables,
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
    own = (loss, optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    network = model(run)
    return transformer.infer(run, network, outputs, weights(run, network), empty)


def outputs(run, network, tokens, segments, mask, *_):
    dtype, table = framework.compute_dtype(run), network.word_embedding
    x = network.encode(table, tokens, segments, mask, dtype, training=False)
    return tf.cast(tf.reshape(x, tokens.shape + [facts.WIDTH]), framework.dtype())


def tested(run, network, tokens, segments, mask, positions, *_):
    """In the quality scenario: what the masked words' softmax takes."""
    dtype = framework.compute_dtype(run)
    words, _ = network(tokens, segments, mask, positions, dtype, training=False)
    return tf.reshape(words, positions.shape + [facts.VOCABULARY])
