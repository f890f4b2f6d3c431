"""GPT pre-training in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; the decoder of
frameworks/tensorflow/transformer.py; Adam is one operator a tensor. Under AMP, fp32 variables are
cast to bfloat16 or float16 where they are used. A tensor group divides layers, embedding and head
by frameworks/tensorflow/parallel.py.
"""

import tensorflow as tf

from dlperf.frameworks.tensorflow import parallel, transformer
from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow.adamw import AdamW
from dlperf.frameworks.tensorflow.transformer import (
    ADAMW,
    DecoderLayer,
    LayerNorm,
    causal_bias,
    dropout,
    parameters,
    variable,
)
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import empty

ATTENTION = transformer.ATTENTION + ", causal"


class GPT(tf.Module):
    """Scores of the token that follows each token; of the last token alone, each sequence.

    A rank has those of its own entries of the vocabulary.
    """

    def __init__(self, run):
        super().__init__()
        width, heads = run.dimensions["width"], run.dimensions["heads"]
        self.group = parallel.TensorGroup(run)
        self.word_embedding = variable(facts.VOCABULARY // self.group.size, width)
        self.position_embedding = variable(run.dimensions["sequence_length"], width)
        self.layers = [
            DecoderLayer(self.group, facts, width, heads, 4 * width)
            for _ in range(run.dimensions["layers"])
        ]
        self.norm = LayerNorm(facts, width)

    def decode(self, table, tokens, dtype, training):
        """(batch, tokens) -> (batch x tokens, width), behind the last layer."""
        batch, length = tokens.shape
        x = self.group.looked_up(table, tokens) + self.position_embedding
        x = dropout(tf.cast(x, dtype), training, facts.DROPOUT)
        x = tf.reshape(x, [batch * length, x.shape[-1]])
        bias = causal_bias(length, dtype)
        for layer in self.layers:
            x = layer(x, bias, training)
        return x

    def __call__(self, tokens, dtype, training=True, last=False):
        """(batch x tokens, vocabulary / ranks), or (batch, vocabulary / ranks)."""
        # as a tensor: once rows were gathered from a variable, each read of it is a copy
        table = tf.convert_to_tensor(self.word_embedding)
        x = self.decode(table, tokens, dtype, training)
        if last:
            x = tf.reshape(x, [*tokens.shape, x.shape[-1]])[:, -1]
        x = self.group.enter(self.norm(x))
        scores = tf.matmul(x, tf.cast(table, dtype), transpose_b=True)
        return tf.cast(scores, framework.dtype())  # the loss is not for half precision


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return GPT(run)


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    single = ("word_embedding", "position_embedding")
    return framework.Weights(run, parameters(network, single, ("norm",), {"": network.layers}))


def loss(run, network, tokens, labels):
    """The mean cross-entropy of all next tokens."""
    scores = network(tokens, framework.compute_dtype(run))
    return tf.reduce_mean(network.group.cross_entropies(scores, tf.reshape(labels, [-1])))


def optimizer(run, network):
    rate = facts.learning_rate(run.global_batch_size)
    return AdamW(facts, network.trainable_variables, rate, facts.CLIP_NORM)


def training(run):
    network = model(run)
    parity = {"attention": ATTENTION, "optimizer": ADAMW, "clip": "global norm"}
    own = (loss, optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, *own)


def inference(run):
    network = model(run)
    return transformer.infer(run, network, outputs, weights(run, network), empty, ATTENTION)


def outputs(run, network, tokens, labels):
    """Scores of the token that follows each sequence."""
    return network(tokens, framework.compute_dtype(run), training=False, last=True)
