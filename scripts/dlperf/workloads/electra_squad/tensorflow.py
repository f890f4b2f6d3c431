"""ELECTRA-Base fine-tuned on SQuAD in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; the encoder of
frameworks/tensorflow/transformer.py; a start's half of the end's head once for all tokens; Adam is
one operator a tensor. Under AMP, fp32 variables are cast to bfloat16 or float16 where they are
used.
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
    layers,
    parameters,
    rows,
    variable,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import empty


class Reader(Embedded):
    def __init__(self):
        super().__init__(facts)
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.start = variable(facts.WIDTH, 1)
        self.end_token = Dense(facts.WIDTH, facts.WIDTH)
        self.end_start = variable(facts.WIDTH, facts.WIDTH)
        self.end_norm = LayerNorm(facts, facts.WIDTH, bias=False)
        self.end_output = variable(facts.WIDTH, 1)
        self.answer = Dense(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = Dense(facts.WIDTH, 1)

    def encode(self, tokens, segments, mask, dtype, training):
        """The encoder's output (batch x tokens, width)."""
        x = self.embed(self.table(), tokens, segments, dtype, training)
        return encoded(self.layers, x, mask, dtype, training)

    # scores are not for half precision: softmax takes them

    def starts(self, x, allowed):
        scores = tf.reshape(product(x, self.start), allowed.shape)
        return tf.cast(scores, allowed.dtype) - facts.BLOCKED * (1 - allowed)

    def ends(self, x, places, allowed):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        (batch, count), length = places.shape, allowed.shape[1]
        chosen = tf.gather(x, rows(places, length))
        hidden = tf.reshape(self.end_token(x), [batch, 1, length, facts.WIDTH])
        hidden += tf.reshape(product(chosen, self.end_start), [batch, count, 1, facts.WIDTH])
        hidden = self.end_norm(tf.tanh(tf.reshape(hidden, [-1, facts.WIDTH])))
        scores = tf.reshape(product(hidden, self.end_output), [batch, count, length])
        return tf.cast(scores, allowed.dtype) - facts.BLOCKED * (1 - allowed[:, None])

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        batch, length = starts.shape
        shares = tf.cast(tf.nn.softmax(starts), x.dtype)[:, None]
        expected = tf.matmul(shares, tf.reshape(x, [batch, length, facts.WIDTH]))[:, 0]
        first = tf.gather(x, tf.range(0, batch * length, length))  # of each window
        hidden = tf.tanh(self.answer(tf.concat([expected, first], -1)))
        return tf.cast(self.answer_output(hidden)[:, 0], starts.dtype)


def product(x, weight):
    return tf.matmul(x, tf.cast(weight, x.dtype))


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return Reader()


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    embeddings = ("word_embedding", "position_embedding", "segment_embedding")
    modules = ("embedding_norm", "end_token", "answer", "answer_output")
    named = parameters(network, embeddings, modules, {"": network.layers})
    for name in ("start", "end_start", "end_output"):
        named[name + ".weight"] = getattr(network, name)
    named["end_norm.weight"] = network.end_norm.weight
    return framework.Weights(run, named)


def loss(run, network, tokens, segments, mask, allowed, first, last, impossible, _):
    x = network.encode(tokens, segments, mask, framework.compute_dtype(run), True)
    allowed, impossible = (tf.cast(each, framework.dtype()) for each in (allowed, impossible))
    starts = network.starts(x, allowed)
    ends = network.ends(x, first[:, None], allowed)[:, 0]
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    pieces = (entropy(first, starts) + entropy(last, ends)) / 2
    answer = tf.nn.sigmoid_cross_entropy_with_logits(impossible, network.impossible(x, starts))
    return tf.reduce_mean(pieces + facts.ANSWERABLE_WEIGHT * answer)


def optimizer(run, network):
    named = weights(run, network).named
    shares = {each.ref(): facts.rate_share(name) for name, each in named.items()}
    variables = network.trainable_variables  # in the order of their gradients
    rate = facts.learning_rate(run.global_batch_size)
    return AdamW(
        facts, variables, rate, facts.CLIP_NORM, [shares[each.ref()] for each in variables]
    )


def training(run):
    network = model(run)
    parity = {"optimizer": ADAMW, "clip": "global norm"}
    own = (optimizer(run, network), weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run)
    return transformer.infer(run, network, outputs, weights(run, network), empty)


def outputs(run, network, tokens, segments, mask, allowed, *_):
    """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
    x = network.encode(tokens, segments, mask, framework.compute_dtype(run), False)
    allowed = tf.cast(allowed, framework.dtype())
    starts = network.starts(x, allowed)
    logarithms = tf.nn.log_softmax(starts)
    places = tf.sort(tf.math.top_k(logarithms, facts.BEAM).indices)
    ends = tf.nn.log_softmax(network.ends(x, places, allowed))
    scores = tf.concat([logarithms[:, None], ends], 1) * allowed[:, None]
    score = network.impossible(x, starts)
    heads = tf.concat([score[:, None], tf.cast(places, score.dtype)], 1)
    return tf.concat([heads[:, :, None], scores], 2)
