"""BERT-Base pre-training in MXNet's Gluon.

As fast as it gets: the encoder of frameworks/mxnet/transformer.py; network and loss are one hybrid
block with `static_alloc` and `static_shape`; the decoder sees predicted positions only; a fused
operator updates each weight, with the clip as a factor of it.
"""

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from dlperf.data.text import Batch
from dlperf.frameworks.mxnet import inference as answers
from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet import transformer
from dlperf.frameworks.mxnet.norms import norm
from dlperf.frameworks.mxnet.transformer import (
    Embedded,
    LayerNorm,
    attention,
    dense,
    gelu,
    layers,
)
from dlperf.workloads.bert import facts


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, run):
        super().__init__(run, facts)
        self.layers = layers(run, facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = LayerNorm(run, facts, facts.WIDTH)
        self.mlm_bias = self.params.get("mlm_bias", shape=(facts.VOCABULARY,), init="zeros")
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, F, tokens, segments, mask, own):
        """(tokens x batch, width)"""
        x = self.embed(F, tokens.transpose(), segments.transpose(), own)
        bias = self.attention_bias(F, mask, facts.HEADS)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, F, x, rows, own):
        """What the language model's softmax takes of these rows: (rows, vocabulary)."""
        word, bias = own["word_embedding"], own["mlm_bias"]
        hidden = self.mlm_norm(gelu(F, self.mlm(F.take(x, rows.reshape((-1,)))), self.run))
        return self.decode(F, hidden, word, bias)

    def hybrid_forward(self, F, *inputs, **own):
        tokens, segments, mask, rows, labels, predicted, follows = inputs
        x, batch = self.encode(F, tokens, segments, mask, own), self.run.batch_size
        hits = F.pick(F.log_softmax(self.words(F, x, rows, own)), labels.reshape((-1,)))
        language = F.sum(hits * predicted.reshape((-1,))) / F.sum(predicted)
        pairs = self.nsp(F.tanh(self.pooler(F.slice_axis(x, axis=0, begin=0, end=batch))))
        return -(language + F.mean(F.pick(F.log_softmax(pairs), follows)))

    def decode(self, F, hidden, word, bias):
        """What the language model's softmax takes; behind the vocabulary there may be padding."""
        padding = facts.padding(self.run.dimensions)
        if padding:
            zeros = F.zeros_like(F.slice_axis(word, axis=0, begin=0, end=padding))
            scores = F.zeros_like(F.slice_axis(bias, axis=0, begin=0, end=padding))
            word = F.concat(word, zeros, dim=0)
            bias = F.concat(bias, scores + facts.PADDING_SCORE, dim=0)
        return F.FullyConnected(hidden, word, bias, num_hidden=facts.VOCABULARY + padding)


class Encoder(Bert):
    """The encoder's output, (batch, tokens, width)."""

    def hybrid_forward(self, F, tokens, segments, mask, **own):
        x = self.encode(F, tokens, segments, mask, own)
        return x.reshape((-1, self.run.batch_size, facts.WIDTH)).transpose((1, 0, 2))


class Tested(nn.HybridBlock):
    """Of a training to a quality: what the masked words' softmax takes, in a graph of its own."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        for table in ("word_embedding", "position_embedding", "segment_embedding", "mlm_bias"):
            setattr(self, table, getattr(network, table))

    def hybrid_forward(self, F, tokens, segments, mask, rows, **own):
        x = self.network.encode(F, tokens, segments, mask, own)
        words = self.network.words(F, x, rows, own)
        return words.reshape((self.network.run.batch_size, -1, facts.VOCABULARY))


def model(run, kind=Bert):
    return transformer.initialized(run, kind(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    own = framework.named(network)
    named = {name.replace("layers.", "layer"): parameter for name, parameter in own}
    return transformer.Weights(named, lambda name: facts.HEADS)


def loss(run, network):
    return network


class AdamW(mx.optimizer.Optimizer):
    """Clip and update of all tensors in one call; MXNet has the operator, but no optimiser to it.

    The operator corrects no bias and adds its epsilon to the root of the uncorrected moment: both
    corrections go into its rate and its epsilon. They are of the betas as it has them, in the type
    of the weights: in float32, 1 - 0.999 is off by 1e-5.
    """

    def __init__(self, clip_norm, many, **settings):
        super().__init__(**settings)
        self.betas, self.epsilon = (facts.BETA1, facts.BETA2), facts.EPSILON
        self.clip_norm = clip_norm
        self.many = many  # tensors an operator updates
        self.aggregate_num = len(facts.parameters({}))  # in one call: the norm is of all

    def create_state(self, index, weight):
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update_multi_precision(self, indices, weights, gradients, states):
        self._update_count(indices)
        steps = self._index_update_count[indices[0]]
        beta1, beta2 = (float(weights[0].dtype(beta)) for beta in self.betas)
        root = (1 - beta2**steps) ** 0.5
        rate = root / (1 - beta1**steps)
        scale = mx.nd.full(1, self.rescale_grad, weights[0].context, weights[0].dtype)
        if self.clip_norm:
            # stays on the device: nothing waits for it, and no gradient is written again
            scale = mx.nd.minimum(self.clip_norm / norm(gradients), scale)
        epsilon = self.epsilon * root
        etas, decays = self._get_lrs(indices), self._get_wds(indices)
        if weights[0].dtype == np.float64:  # the operator's own numbers are float32 all the same
            for w, g, (m, v), eta, decay in zip(weights, gradients, states, etas, decays):
                g = mx.nd.broadcast_mul(g, scale.reshape((1,) * g.ndim))
                m[:] = beta1 * m + (1 - beta1) * g
                v[:] = beta2 * v + (1 - beta2) * mx.nd.square(g)
                w -= eta * (rate * m / (mx.nd.sqrt(v) + epsilon) + decay * w)
            return
        shared = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        means, variances = zip(*states)
        for first in range(0, len(weights), self.many):
            part = slice(first, first + self.many)
            tensors = weights[part], gradients[part], means[part], variances[part]
            settings = dict(shared, lrs=[rate] * len(tensors[0]), etas=etas[part], wds=decays[part])
            mx.nd.contrib.multi_adamw_update(*tensors, scale, out=tensors[0], **settings)


def optimizer(run, network):
    adam = AdamW(
        clip_norm=facts.CLIP_NORM if run.dimensions["clip"] else None,
        many=45 if run.cuda else 1,  # on a CPU one by one takes 10 % less time
        learning_rate=facts.learning_rate(run.global_batch_size),
        wd=facts.WEIGHT_DECAY,
    )
    return framework.trainer(run, network, adam)


def put(run, *batch):
    return transformer.put(run, Batch(*batch))


def training(run):
    network = model(run)
    trainer = optimizer(run, network)
    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=len(Batch._fields),
        parity={
            "attention": attention(run),
            "optimizer": "AdamW, fused, %d tensors an operator" % trainer.optimizer.many,
            "clip": "global norm" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
        schedule=facts.schedule(run),
        outputs=tested,
        tested=4,
    )


def inference(run):
    network = model(run, Encoder)
    return answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        put,
        inputs=3,
        parity={"attention": attention(run)},
    )


def outputs(run, network):
    return network


def tested(run, network):
    return Tested(network)
