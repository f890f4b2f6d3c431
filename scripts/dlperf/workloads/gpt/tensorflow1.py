"""GPT pre-training in TensorFlow 1.15, as a session graph.

As fast as it gets: the decoder of frameworks/tensorflow1/transformer.py, one dense gradient of the
tied table, ApplyAdam in place of an optimiser of single operators.
"""

import functools

import tensorflow as tf

from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.frameworks.tensorflow1 import transformer
from dlperf.frameworks.tensorflow1.adamw import AdamW
from dlperf.frameworks.tensorflow1.transformer import (
    ADAMW,
    decoder,
    decoder_layers,
    dropout,
    layer_norm,
    tied,
    variable,
    weights,
)
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import empty

ATTENTION = transformer.ATTENTION + ", causal"


def gpt(run, tokens, training=True, last=False):
    """Scores of the token that follows each token, (batch * tokens, vocabulary); of the last token
    alone, each sequence, (batch, vocabulary)."""
    (batch, length), width = tokens.shape.as_list(), run.dimensions["width"]
    table, words = tied(variable("word_embedding", facts.VOCABULARY, width), lookups=1)
    x = tf.gather(table, tokens) + variable("position_embedding", length, width)
    x = dropout(tf.reshape(x, [batch * length, width]), training, facts.DROPOUT)
    x = decoder_layers(run, facts, x, training)
    if last:
        x = tf.reshape(x, [batch, length, width])[:, -1]
    return decoder(run, layer_norm(facts, x, "norm"), words)


def model(run):
    return functools.partial(gpt, run)


def loss(run, network, tokens, labels):
    """The mean cross-entropy of all next tokens."""
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    return tf.reduce_mean(entropy(labels=tf.reshape(labels, [-1]), logits=network(tokens)))


def optimizer(run, network):
    rate = facts.learning_rate(run.global_batch_size)
    return AdamW(facts, framework.dtype(run), rate, facts.CLIP_NORM)


def fields(run):
    return transformer.fields(run, empty)


def training(run):
    parity = {"attention": ATTENTION, "optimizer": ADAMW, "clip": "global norm"}
    return transformer.train(run, model(run), loss, optimizer, weights, fields(run), parity)


def inference(run):
    return transformer.infer(run, model(run), outputs, weights, fields(run), ATTENTION)


def outputs(run, network, tokens, labels):
    """Scores of the token that follows each sequence."""
    return network(tokens, training=False, last=True)
