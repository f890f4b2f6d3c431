"""ELECTRA-Base fine-tuned on SQuAD in PaddlePaddle.

The encoder of frameworks/paddlepaddle/transformer.py; a start's half of the end's head once for all
tokens, AdamW in one kernel a tensor, the clip in place. On the CPU: to_static without oneDNN. On
the GPU, which this has not run on: level O2 (narrow weights, fp32 master weights) under AMP.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.frameworks.paddlepaddle import transformer
from dlperf.frameworks.paddlepaddle.transformer import (
    Embedded,
    chosen,
    dense,
    encoded,
    layers,
    loss,
    products,
    zeros,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import empty
from dlperf.workloads.encoders.layers import canonical


class Reader(Embedded):
    """The loss of a batch, or the starts and ends of its answers."""

    def __init__(self, fused):
        super().__init__(facts)
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.start = without_bias(facts.WIDTH, 1)
        self.end_token = dense(facts.WIDTH, facts.WIDTH)
        self.end_start = without_bias(facts.WIDTH, facts.WIDTH)
        self.end_norm = Scaled()
        self.end_output = without_bias(facts.WIDTH, 1)
        self.answer = dense(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = dense(facts.WIDTH, 1)

    def encode(self, tokens, segments, mask):
        return encoded(self.layers, self.embed(tokens, segments), mask)

    # scores are not for half precision: softmax takes them

    def starts(self, x, allowed):
        return self.start(x).squeeze(-1).astype(allowed.dtype) - facts.BLOCKED * (1 - allowed)

    def ends(self, x, places, allowed):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        batch, count = places.shape
        starts = self.end_start(chosen(x, places)).unsqueeze(1)  # (batch x starts, 1, width)
        # no dimension more: oneDNN in a predictor would mix starts and windows up
        own = self.end_token(x).repeat_interleave(count, 0)
        hidden = self.end_norm(F.tanh(own + starts))
        scores = self.end_output(hidden).reshape([batch, count, allowed.shape[1]])
        return scores.astype(allowed.dtype) - facts.BLOCKED * (1 - allowed.unsqueeze(1))

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        shares = F.softmax(starts).astype(x.dtype).unsqueeze(1)
        expected = paddle.matmul(shares, x).squeeze(1)
        hidden = F.tanh(self.answer(paddle.concat([expected, x[:, 0]], -1)))
        return self.answer_output(hidden).squeeze(-1).astype(starts.dtype)

    def forward(self, tokens, segments, mask, allowed, first, last, impossible, _):
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        ends = self.ends(x, first.unsqueeze(1), allowed).squeeze(1)
        pieces = (F.cross_entropy(starts, first) + F.cross_entropy(ends, last)) / 2
        answer = F.binary_cross_entropy_with_logits(self.impossible(x, starts), impossible)
        return pieces + facts.ANSWERABLE_WEIGHT * answer


class Scaled(nn.Layer):
    """A layer norm without a bias.

    With zeros for one: without any, oneDNN's in a predictor gives something else.
    """

    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([facts.WIDTH])

    def forward(self, x):
        bias = paddle.zeros([facts.WIDTH], self.weight.dtype)
        return F.layer_norm(x, facts.WIDTH, self.weight, bias, facts.LAYER_NORM_EPSILON)


class Answers(nn.Layer):
    """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""

    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def forward(self, tokens, segments, mask, allowed):
        reader = self.reader
        x = reader.encode(tokens, segments, mask)
        starts = reader.starts(x, allowed)
        logarithms = F.log_softmax(starts)
        places = paddle.topk(logarithms, facts.BEAM)[1].sort(-1)
        ends = F.log_softmax(reader.ends(x, places, allowed))
        scores = paddle.concat([logarithms.unsqueeze(1), ends], 1) * allowed.unsqueeze(1)
        score = reader.impossible(x, starts).unsqueeze(1)
        heads = paddle.concat([score, places.astype(score.dtype)], 1)
        return paddle.concat([heads.unsqueeze(2), scores], 2)


def without_bias(inputs, outputs):
    return nn.Linear(inputs, outputs, weight_attr=zeros(), bias_attr=False)


def model(run):
    network = Reader(fused=run.amp)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    named = weights(run, network).named
    for name, parameter in named.items():  # AdamW's own `lr_ratio` is not there on a CPU
        parameter.optimize_attr["learning_rate"] = facts.rate_share(name)
    return transformer.adamw(run, list(named.values()), facts, facts.CLIP_NORM)


def training(run):
    products(run)
    network = model(run)
    parity = {"optimizer": "AdamW", "clip": "global norm"}
    own = (optimizer(run, network), weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs, "tested": 4}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run)
    network.eval()
    spec = transformer.spec(run, empty)[:4]
    return transformer.infer(run, network, outputs, weights(run, network), spec)


def outputs(run, network):
    return Answers(network)
