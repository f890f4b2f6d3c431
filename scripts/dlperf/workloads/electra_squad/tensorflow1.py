"""ELECTRA-Base fine-tuned on SQuAD in TensorFlow 1.15, as a session graph.

As fast as it gets: the encoder of frameworks/tensorflow1/transformer.py, one dense gradient of the
words, a start's half of the end's head once for all tokens, AdamW by ApplyAdam.
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
    dense,
    embed,
    layers,
    normalised,
    tied,
    trained,
    variable,
    weights,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import empty


def encode(run, tokens, segments, mask, training):
    """The encoder's output (batch * tokens, width)."""
    words = variable("word_embedding", facts.VOCABULARY, facts.WIDTH)
    words, _ = tied(words, lookups=1)  # for a dense gradient: nothing decodes
    x = embed(facts, words, tokens, segments, training)
    bias = attention_bias(run, mask)
    return layers(run, facts, x, bias, facts.HEADS, facts.INNER_WIDTH, "", training)


def product(x, outputs, name):
    """A dense layer without a bias."""
    return tf.matmul(x, variable(name + "/weight", int(x.shape[-1]), outputs))


def start_scores(x, allowed):
    """(batch, tokens)"""
    return tf.reshape(product(x, 1, "start"), allowed.shape) - facts.BLOCKED * (1 - allowed)


def end_scores(x, places, allowed):
    """Scores of the ends that go with these starts: (batch, starts, tokens)."""
    (batch, count), length = places.shape.as_list(), int(allowed.shape[1])
    start = product(chosen(x, places), facts.WIDTH, "end_start")
    hidden = tf.reshape(dense(x, facts.WIDTH, "end_token"), [batch, 1, length, facts.WIDTH])
    hidden = hidden + tf.reshape(start, [batch, count, 1, facts.WIDTH])
    hidden = normalised(facts.LAYER_NORM_EPSILON)(tf.tanh(hidden))
    hidden = tf.reshape(hidden * variable("end_norm/weight", facts.WIDTH), [-1, facts.WIDTH])
    scores = tf.reshape(product(hidden, 1, "end_output"), [batch, count, length])
    return scores - facts.BLOCKED * (1 - allowed[:, None])


def impossible_score(x, starts):
    """The score of a window without an answer, from the start that is expected and [CLS]."""
    batch, length = starts.shape.as_list()
    x = tf.reshape(x, [batch, length, facts.WIDTH])
    expected = tf.matmul(tf.nn.softmax(starts)[:, None], x)[:, 0]
    hidden = tf.tanh(dense(tf.concat([expected, x[:, 0]], -1), facts.WIDTH, "answer"))
    return dense(hidden, 1, "answer_output")[:, 0]


def model(run):
    return functools.partial(encode, run)


def loss(run, network, tokens, segments, mask, allowed, first, last, impossible, _):
    x = network(tokens, segments, mask, training=True)
    allowed, impossible = (tf.cast(each, x.dtype) for each in (allowed, impossible))
    starts = start_scores(x, allowed)
    ends = end_scores(x, first[:, None], allowed)[:, 0]
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    pieces = (entropy(labels=first, logits=starts) + entropy(labels=last, logits=ends)) / 2
    score = impossible_score(x, starts)
    answer = tf.nn.sigmoid_cross_entropy_with_logits(labels=impossible, logits=score)
    return tf.reduce_mean(pieces + facts.ANSWERABLE_WEIGHT * answer)


def optimizer(run, network, rate=None):
    return AdamW(
        facts,
        framework.dtype(run),
        facts.learning_rate(run.global_batch_size) if rate is None else rate,
        facts.CLIP_NORM,
        {each: facts.rate_share(name) for name, each in trained().items()},
    )


def fields(run):
    return transformer.fields(run, empty)


def training(run):
    parity = {"optimizer": ADAMW, "clip": "global norm"}
    own = (model(run), loss, optimizer, weights, fields(run), parity)
    return transformer.train(run, *own, schedule=facts.schedule(run), outputs=outputs)


def inference(run):
    return transformer.infer(run, model(run), outputs, weights, fields(run))


def outputs(run, network, tokens, segments, mask, allowed, *_):
    """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
    x = network(tokens, segments, mask, training=False)
    allowed = tf.cast(allowed, x.dtype)
    starts = start_scores(x, allowed)
    logarithms = tf.nn.log_softmax(starts)
    places = tf.sort(tf.math.top_k(logarithms, facts.BEAM).indices)
    ends = tf.nn.log_softmax(end_scores(x, places, allowed))
    scores = tf.concat([logarithms[:, None], ends], 1) * allowed[:, None]
    heads = tf.concat([impossible_score(x, starts)[:, None], tf.cast(places, x.dtype)], 1)
    return tf.concat([heads[:, :, None], scores], 2)
