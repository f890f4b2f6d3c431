"""ELECTRA-Base fine-tuned on SQuAD in PyTorch.

As fast as it gets: the encoder of frameworks/pytorch/transformer.py, a start's half of the end's
head once for all tokens, a fused AdamW.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch import transformer
from dlperf.frameworks.pytorch.transformer import (
    CLIP,
    Embedded,
    attention_bias,
    dense,
    encoded,
    layers,
    loss,
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
        self.end_norm = nn.LayerNorm(facts.WIDTH, eps=facts.LAYER_NORM_EPSILON, bias=False)
        self.end_output = without_bias(facts.WIDTH, 1)
        self.answer = dense(2 * facts.WIDTH, facts.WIDTH)
        self.answer_output = dense(facts.WIDTH, 1)

    def encode(self, tokens, segments, mask):
        x = self.embed(tokens, segments)
        return encoded(self.layers, x, attention_bias(mask, x.dtype))

    def starts(self, x, allowed):
        return self.start(x)[:, :, 0] - facts.BLOCKED * (1 - allowed)

    def ends(self, x, places, allowed):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        chosen = x.gather(1, places[:, :, None].expand(-1, -1, facts.WIDTH))
        hidden = self.end_token(x)[:, None] + self.end_start(chosen)[:, :, None]
        scores = self.end_output(self.end_norm(torch.tanh(hidden)))[:, :, :, 0]
        return scores - facts.BLOCKED * (1 - allowed[:, None])

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        expected = (starts.softmax(-1)[:, None] @ x)[:, 0]
        hidden = torch.tanh(self.answer(torch.cat([expected, x[:, 0]], -1)))
        return self.answer_output(hidden)[:, 0]

    def forward(self, tokens, segments, mask, allowed, first, last, impossible, _):
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        ends = self.ends(x, first[:, None], allowed)[:, 0]
        pieces = (F.cross_entropy(starts, first) + F.cross_entropy(ends, last)) / 2
        answer = F.binary_cross_entropy_with_logits(self.impossible(x, starts), impossible)
        return pieces + facts.ANSWERABLE_WEIGHT * answer

    def read(self, tokens, segments, mask, allowed):
        """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them."""
        x = self.encode(tokens, segments, mask)
        starts = self.starts(x, allowed)
        logarithms = starts.log_softmax(-1)
        places = logarithms.topk(facts.BEAM, -1).indices.sort(-1).values
        ends = self.ends(x, places, allowed).log_softmax(-1) * allowed[:, None]
        scores = torch.cat([(logarithms * allowed)[:, None], ends], 1)
        heads = torch.cat([self.impossible(x, starts)[:, None], places], 1)
        return torch.cat([heads[:, :, None].to(scores.dtype), scores], 2)


def without_bias(inputs, outputs):
    return nn.utils.skip_init(nn.Linear, inputs, outputs, bias=False)


def model(run):
    return Reader().to(run.device).train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    rate, groups = facts.learning_rate(run.global_batch_size), {}
    for name, parameter in weights(run, network).named.items():
        share, decay = facts.rate_share(name), facts.WEIGHT_DECAY * (parameter.ndim > 1)
        group = {"params": [], "lr": rate * share, "share": share, "weight_decay": decay}
        groups.setdefault((share, decay), group)["params"].append(parameter)
    betas = (facts.BETA1, facts.BETA2)
    adam = torch.optim.AdamW(list(groups.values()), betas=betas, eps=facts.EPSILON, fused=True)

    def clip(*_):
        nn.utils.clip_grad_norm_(network.parameters(), facts.CLIP_NORM, foreach=True)

    adam.register_step_pre_hook(clip)
    return adam


def training(run):
    network = model(run)
    parity = {"optimizer": "AdamW, fused", "clip": CLIP}
    own = (optimizer(run, network), weights(run, network), parity)
    more = {"schedule": facts.schedule(run), "outputs": outputs}
    return transformer.train(run, network, loss, *own, **more)


def inference(run):
    network = model(run).eval()
    return transformer.infer(run, network, outputs, weights(run, network))


def outputs(run, network, tokens, segments, mask, allowed, *_):
    return network.read(tokens, segments, mask, allowed)
