"""ELECTRA-Base fine-tuned on SQuAD in OneFlow.

As fast as it gets: the encoder of frameworks/oneflow/transformer.py, a start's half of the end's
head once for all tokens. Training is eager: nn.Graph clips each group of parameters by itself. On
the GPU, which this has not run on, Adam's kernel is one for all tensors of a rate.
"""

import oneflow as flow
import oneflow.nn.functional as F

from dlperf.frameworks.oneflow import training as framework
from dlperf.frameworks.oneflow import transformer
from dlperf.frameworks.oneflow.adamw import AdamW
from dlperf.frameworks.oneflow.transformer import (
    Embedded,
    encoded,
    layer_norm,
    layers,
    loss,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import empty
from dlperf.workloads.encoders.layers import canonical


class Reader(Embedded):
    """The loss of a batch, or the starts and ends of its answers."""

    def __init__(self, fused):
        super().__init__(facts, fused)
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.start = without_bias(facts.WIDTH, 1)
        self.end_token = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.end_start = without_bias(facts.WIDTH, facts.WIDTH)
        self.end_norm = layer_norm(facts, facts.WIDTH, fused)
        del self.end_norm.bias  # zeros, which are not trained
        self.end_norm.register_buffer("bias", flow.zeros(facts.WIDTH))
        self.end_output = without_bias(facts.WIDTH, 1)
        self.answer = framework.Linear(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = framework.Linear(facts.WIDTH, 1)

    def encode(self, tokens, segments, mask):
        return encoded(self.layers, self.embed(tokens, segments), mask)

    def starts(self, x, allowed):
        return self.start(x).squeeze(2) - facts.BLOCKED * (1 - allowed)

    def ends(self, x, places, allowed):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        start = self.end_start(flow._C.batch_gather(x, places))
        hidden = flow.tanh(self.end_token(x).unsqueeze(1) + start.unsqueeze(2))
        scores = self.end_output(self.end_norm(hidden)).squeeze(3)
        return scores - facts.BLOCKED * (1 - allowed.unsqueeze(1))

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        expected = flow.matmul(flow.softmax(starts, -1).unsqueeze(1), x).squeeze(1)
        hidden = flow.tanh(self.answer(flow.cat([expected, x[:, 0]], -1)))
        return self.answer_output(hidden).squeeze(1)

    def forward(self, tokens, segments, mask, allowed, first, last, impossible, _):
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        ends = self.ends(x, first.unsqueeze(1), allowed).squeeze(1)
        pieces = (F.cross_entropy(starts, first) + F.cross_entropy(ends, last)) / 2
        answer = F.binary_cross_entropy_with_logits(self.impossible(x, starts), impossible)
        return pieces + facts.ANSWERABLE_WEIGHT * answer

    def read(self, tokens, segments, mask, allowed):
        """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        logarithms = flow.log_softmax(starts, -1)
        places = flow.sort(flow.topk(logarithms, facts.BEAM)[1], -1)[0]
        ends = flow.log_softmax(self.ends(x, places, allowed), -1)
        scores = flow.cat([logarithms.unsqueeze(1), ends], 1) * allowed.unsqueeze(1)
        score = self.impossible(x, starts).unsqueeze(1)
        heads = flow.cat([score, places.to(score.dtype)], 1)
        return flow.cat([heads.unsqueeze(2), scores], 2)


def without_bias(inputs, outputs):
    return framework.Linear(inputs, outputs, bias=False)


def model(run):
    return framework.place(run, Reader(fused=run.cuda))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    groups = {}
    for name, parameter in weights(run, network).named.items():
        share, decay = facts.rate_share(name), facts.WEIGHT_DECAY * (parameter.ndim > 1)
        group = {"params": [], "share": share, "weight_decay": decay}
        groups.setdefault((share, decay), group)["params"].append(parameter)
    rate = facts.learning_rate(run.global_batch_size)
    return AdamW(facts, list(groups.values()), rate, facts.CLIP_NORM, fused=run.cuda)


def training(run):
    network = model(run)
    parity = {
        "optimizer": "AdamW, fused" if run.cuda else "AdamW",
        "clip": "global norm, by tensor",
    }
    own = (optimizer(run, network), weights(run, network), empty, parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run).eval()
    return transformer.infer(run, network, outputs, weights(run, network), empty)


def outputs(run, network, tokens, segments, mask, allowed, *_):
    return network.read(tokens, segments, mask, allowed)
