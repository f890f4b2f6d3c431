"""ELECTRA-Base fine-tuned on SQuAD in MXNet's Gluon.

As fast as it gets: the encoder of frameworks/mxnet/transformer.py; network and loss are one hybrid
block with `static_alloc` and `static_shape`; a start's half of the end's head once for all tokens;
a fused operator updates each weight, with the clip as a factor of it.
"""

from mxnet.gluon import nn

from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet import transformer
from dlperf.frameworks.mxnet.transformer import (
    Embedded,
    LayerNorm,
    dense,
    layers,
    loss,
    name_of,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import Batch
from dlperf.workloads.encoders.layers import canonical


class Reader(Embedded):
    """The loss of a batch, or the starts and ends of its answers where no true ones are given."""

    def __init__(self, run):
        super().__init__(run, facts)
        self.layers = layers(run, facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.start = dense(facts.WIDTH, 1, bias=False)
        self.end_token = dense(facts.WIDTH, facts.WIDTH)
        self.end_start = dense(facts.WIDTH, facts.WIDTH, bias=False)
        self.end_norm = LayerNorm(run, facts, facts.WIDTH, center=False)
        self.end_output = dense(facts.WIDTH, 1, bias=False)
        self.answer = dense(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = dense(facts.WIDTH, 1)

    def encode(self, F, tokens, segments, mask, own):
        """(batch x tokens, width)"""
        x = self.embed(F, tokens.transpose(), segments.transpose(), own)
        bias = self.attention_bias(F, mask, facts.HEADS)
        for layer in self.layers:
            x = layer(x, bias)
        x = x.reshape((-1, self.run.batch_size, facts.WIDTH)).transpose((1, 0, 2))
        return x.reshape((-3, 0))

    def wide(self, F, x):
        """Scores are not for half precision: softmax takes them."""
        return F.amp_cast(x, dtype="float32") if self.run.amp else x

    def starts(self, F, x, allowed):
        scores = self.wide(F, self.start(x)).reshape((self.run.batch_size, -1))
        return scores - facts.BLOCKED * (1 - allowed)

    def ends(self, F, x, places, allowed, count):
        """Scores of the ends that go with `count` starts: (batch x starts, tokens)."""
        batch, length = self.run.batch_size, self.run.dimensions["sequence_length"]
        whole = x.reshape((batch, length, facts.WIDTH))
        # rows by a product: AMP breaks the `arange` of a graph
        rows = F.one_hot(places, depth=length, dtype="float64" if self.run.float64 else "float32")
        chosen = F.batch_dot(rows, self.wide(F, whole)).reshape((-3, 0))
        token = F.repeat(self.end_token(x).reshape((batch, length, facts.WIDTH)), count, axis=0)
        hidden = F.broadcast_add(token, self.end_start(chosen).expand_dims(1)).reshape((-3, 0))
        scores = self.end_output(self.end_norm(F.tanh(hidden))).reshape((-1, length))
        blocked = facts.BLOCKED * (1 - F.repeat(allowed, count, axis=0))
        return self.wide(F, scores) - blocked

    def impossible(self, F, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        whole = self.wide(F, x).reshape((self.run.batch_size, -1, facts.WIDTH))
        expected = F.batch_dot(F.softmax(starts).expand_dims(1), whole).reshape((-3, 0))
        first = F.slice_axis(whole, axis=1, begin=0, end=1).reshape((-3, 0))
        hidden = F.tanh(self.answer(F.concat(expected, first, dim=1)))
        return self.wide(F, self.answer_output(hidden)).reshape((-1,))

    def loss(self, F, x, allowed, first, last, impossible):
        starts = self.starts(F, x, allowed)
        ends = self.ends(F, x, first.expand_dims(1), allowed, 1)
        hits = F.pick(F.log_softmax(starts), first) + F.pick(F.log_softmax(ends), last)
        score = self.impossible(F, x, starts)
        # log(1 + exp(x)) - x where there is none
        answer = F.Activation(score, act_type="softrelu") - score * impossible
        return F.mean(facts.ANSWERABLE_WEIGHT * answer - hits / 2)

    def answers(self, F, x, allowed):
        """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
        starts = self.starts(F, x, allowed)
        logarithms = F.log_softmax(starts)
        wide = "float64" if self.run.float64 else "float32"
        places = F.topk(logarithms, k=facts.BEAM, ret_typ="indices", dtype=wide)
        # without gradients: that of a sort cannot be built
        places = F.BlockGrad(F.sort(F.BlockGrad(places), axis=1))
        ends = F.log_softmax(self.ends(F, x, places, allowed, facts.BEAM))
        ends = ends.reshape((self.run.batch_size, facts.BEAM, -1))
        scores = F.concat(logarithms.expand_dims(1), ends, dim=1)
        scores = F.broadcast_mul(scores, allowed.expand_dims(1))
        heads = F.concat(self.impossible(F, x, starts).expand_dims(1), places, dim=1)
        return F.concat(heads.expand_dims(2), scores, dim=2)

    def hybrid_forward(self, F, tokens, segments, mask, allowed, *true, **own):
        x = self.encode(F, tokens, segments, mask, own)
        return self.loss(F, x, allowed, *true[:3]) if true else self.answers(F, x, allowed)


class Answers(nn.HybridBlock):
    """The answers of a reader, as a graph of its own."""

    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def hybrid_forward(self, F, tokens, segments, mask, allowed):
        return self.reader(tokens, segments, mask, allowed)


def model(run):
    network = transformer.initialized(run, Reader(run))
    for name, parameter in weights(run, network).named.items():
        parameter.lr_mult = facts.rate_share(name)
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in framework.named(network)}
    return transformer.Weights(run, named, lambda name: facts.HEADS)


def optimizer(run, network):
    return transformer.adamw(run, network, facts, facts.CLIP_NORM)


def put(run, *batch):
    """A squad.Batch -> arrays: int32, and what is multiplied in the model's type."""
    dtype = "float64" if run.float64 else "float32"
    given = Batch(*batch)._asdict().items()
    wide = ("mask", "allowed", "impossible")
    return [framework.put(run, each, dtype if name in wide else "int32") for name, each in given]


def training(run):
    network, inputs = model(run), len(Batch._fields)
    trainer = optimizer(run, network)
    parity = {"optimizer": name_of(trainer), "clip": "global norm"}
    own = (trainer, weights(run, network), put, inputs, parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs, "tested": 4}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run)
    return transformer.infer(run, network, outputs, weights(run, network), put, inputs=4)


def outputs(run, network):
    return Answers(network)
