"""BERT-Base pre-training in TensorFlow 1.15, as a session graph.

As fast as it gets: the encoder of frameworks/tensorflow1/transformer.py, the decoder at predicted
positions only, ApplyAdam in place of an optimiser of single operators.
"""

import functools

import tensorflow as tf

from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.frameworks.tensorflow1 import transformer
from dlperf.frameworks.tensorflow1.adamw import AdamW
from dlperf.frameworks.tensorflow1.transformer import (
    ADAMW,
    attention_bias,
    chosen,
    decoder,
    dense,
    embed,
    gelu,
    layer_norm,
    layers,
    tied,
    variable,
    weights,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty


def encode(run, tokens, segments, mask, training):
    """The encoder's output (batch * tokens, width), and the words for the decoder."""
    words = variable("word_embedding", facts.VOCABULARY, facts.WIDTH)
    own, words = tied(words, lookups=1)
    x = embed(facts, own, tokens, segments, training)
    bias = attention_bias(run, mask)
    return layers(run, facts, x, bias, facts.HEADS, facts.INNER_WIDTH, "", training), words


def heads(run, x, words, positions):
    """Logits of the words (batch * predictions, padded vocabulary) and of the pairs."""
    hidden = gelu(dense(chosen(x, positions), facts.WIDTH, "mlm"))
    bias, padding = variable("mlm_bias", facts.VOCABULARY), facts.padding(run.dimensions)
    hidden = layer_norm(facts, hidden, "mlm_norm")
    if padding:
        words = tf.pad(words, [[0, padding], [0, 0]])
        bias = tf.pad(bias, [[0, padding]], constant_values=facts.PADDING_SCORE)
    hidden = decoder(run, hidden, words)
    first = tf.reshape(x, [int(positions.shape[0]), -1, facts.WIDTH])[:, 0]
    pooled = tf.tanh(dense(first, facts.WIDTH, "pooler"))
    return tf.nn.bias_add(hidden, bias), dense(pooled, 2, "nsp")


def bert(run, tokens, segments, mask, positions, training=True):
    """The logits of `heads`."""
    return heads(run, *encode(run, tokens, segments, mask, training), positions)


def model(run):
    return functools.partial(bert, run)


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    words, pairs = network(tokens, segments, mask, positions)
    predicted = tf.reshape(tf.cast(predicted, words.dtype), [-1])
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    each = entropy(labels=tf.reshape(labels, [-1]), logits=words)
    language = tf.reduce_sum(predicted * each) / tf.reduce_sum(predicted)
    return language + tf.reduce_mean(entropy(labels=follows, logits=pairs))


def optimizer(run, network, rate=None):
    return AdamW(
        facts,
        framework.dtype(run),
        facts.learning_rate(run.global_batch_size) if rate is None else rate,
        facts.CLIP_NORM if run.dimensions["clip"] else None,
    )


def fields(run):
    return transformer.fields(run, empty)


def training(run):
    parity = {
        "optimizer": ADAMW,
        "clip": "global norm" if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    own = (model(run), loss, optimizer, weights, fields(run), parity)
    return transformer.train(run, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    return transformer.infer(run, model(run), outputs, weights, fields(run))


def outputs(run, network, tokens, segments, mask, positions, *_):
    x, words = encode(run, tokens, segments, mask, training=False)
    heads(run, x, words, positions)  # for their weights; the frozen graph leaves them out
    return tf.reshape(x, tokens.shape.as_list() + [facts.WIDTH])


def tested(run, network, tokens, segments, mask, positions, *_):
    """In the quality scenario: what the masked words' softmax takes."""
    words, _ = network(tokens, segments, mask, positions, training=False)
    return tf.reshape(words, positions.shape.as_list() + [facts.VOCABULARY])
