"""ELECTRA-Base fine-tuned on SQuAD in MindSpore.

As fast as it gets: the encoder of frameworks/mindspore/transformer.py; a start's half of the end's
head once for all tokens; the whole step, clip, update and reduction included, in one graph.
"""

import mindspore as ms
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import initializer

from dlperf.frameworks.mindspore import training as framework
from dlperf.frameworks.mindspore import transformer
from dlperf.frameworks.mindspore.adamw import AdamW
from dlperf.frameworks.mindspore.transformer import (
    ADAMW,
    Embedded,
    attention_bias,
    chosen,
    dense,
    layers,
    loss,
    prepared,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.encoders.layers import canonical


class Reader(Embedded):
    """The loss of a batch, or the starts and ends of its answers."""

    def __init__(self):
        super().__init__(facts)
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.start = without_bias(facts.WIDTH, 1)
        self.end_token = dense(facts.WIDTH, facts.WIDTH)
        self.end_start = without_bias(facts.WIDTH, facts.WIDTH)
        self.end_norm = Scaled()
        self.end_output = without_bias(facts.WIDTH, 1)
        self.answer = dense(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = dense(facts.WIDTH, 1)

    def encode(self, tokens, segments, mask):
        """(batch x tokens, width)"""
        x = self.embed(tokens, segments)
        bias = attention_bias(mask, x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    # scores are not for half precision: softmax takes them

    def starts(self, x, allowed):
        scores = self.start(x).reshape(allowed.shape).astype(ms.float32)
        return scores - facts.BLOCKED * (1 - allowed)

    def ends(self, x, places, allowed):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        (batch, count), length = places.shape, allowed.shape[1]
        own = self.end_token(x).reshape((batch, 1, length, facts.WIDTH))
        start = self.end_start(chosen(x, allowed, places))
        hidden = own + start.reshape((batch, count, 1, facts.WIDTH))
        hidden = self.end_norm(ops.tanh(hidden.reshape((-1, facts.WIDTH))))
        scores = self.end_output(hidden).reshape((batch, count, length)).astype(ms.float32)
        return scores - facts.BLOCKED * (1 - allowed.expand_dims(1))

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        x = x.reshape((*starts.shape, facts.WIDTH))
        shares = ops.softmax(starts).astype(x.dtype)
        expected = ops.bmm(shares.expand_dims(1), x).squeeze(1)
        hidden = ops.tanh(self.answer(ops.concat((expected, x[:, 0]), -1)))
        return self.answer_output(hidden).squeeze(-1).astype(ms.float32)

    def construct(self, tokens, segments, mask, allowed, first, last, impossible, _):
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        ends = self.ends(x, first.expand_dims(1), allowed).squeeze(1)
        pieces = (ops.cross_entropy(starts, first) + ops.cross_entropy(ends, last)) / 2
        score, one = self.impossible(x, starts), ops.ones_like(impossible)
        answer = ops.binary_cross_entropy_with_logits(score, impossible, one, one)
        return pieces + facts.ANSWERABLE_WEIGHT * answer

    def read(self, tokens, segments, mask, allowed):
        """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        logarithms = ops.log_softmax(starts)
        _, places = ops.topk(logarithms, facts.BEAM)
        places, _ = ops.sort(places)
        ends = ops.log_softmax(self.ends(x, places, allowed))
        scores = ops.concat((logarithms.expand_dims(1), ends), 1) * allowed.expand_dims(1)
        score = self.impossible(x, starts).expand_dims(1)
        heads = ops.concat((score, places.astype(score.dtype)), 1)
        return ops.concat((heads.expand_dims(2), scores), 2)


class Scaled(nn.Cell):
    """A layer norm without a bias: that of nn.LayerNorm is always trained."""

    def __init__(self):
        super().__init__()
        self.gamma = Parameter(initializer("ones", (facts.WIDTH,)))
        self.norm = ops.LayerNorm(-1, -1, facts.LAYER_NORM_EPSILON)

    def construct(self, x):
        return self.norm(x, self.gamma, ops.zeros_like(self.gamma))[0]


def without_bias(inputs, outputs):
    return nn.Dense(inputs, outputs, weight_init="zeros", has_bias=False)


def model(run):
    return prepared(run, Reader())


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.parameters_and_names()
    return framework.Weights({canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    named = weights(run, network).named
    rate = facts.learning_rate(run.global_batch_size)
    shares = [facts.rate_share(name) for name in named]
    return AdamW(facts, list(named.values()), rate, facts.CLIP_NORM, shares)


def training(run):
    network = model(run)
    parity = {"optimizer": ADAMW, "clip": "global norm"}
    own = (optimizer(run, network), weights(run, network), parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run).set_train(False)
    return transformer.infer(run, network, outputs, weights(run, network))


def outputs(network, tokens, segments, mask, allowed, *_):
    return network.read(tokens, segments, mask, allowed)
