"""Fine-tuning on SQuAD as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other. Dropout leaves all, or nothing, as certificates ask for. Nothing here is fast, shared
with an implementation, or chosen by a framework's default.
"""

import math

import torch

from dlperf.contract.proof import UpdateRule
from dlperf.contract.reference import Reference
from dlperf.workloads.electra_squad import facts

#: The least difference of the last start that is tried and the next one that is not left to
#: rounding.
MARGIN = 0.02


def dense(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def normalized(x):
    """By the mean and the biased variance of the last axis; epsilon inside the root."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + facts.LAYER_NORM_EPSILON)


def layer_norm(weights, name, x):
    return normalized(x) * weights[name + ".weight"] + weights[name + ".bias"]


def gelu(x):
    """The exact form, by the error function."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def dropout(x, rate):
    return x if rate == 0 else 0.0 * x


def attention(weights, name, x, mask):
    """x (batch, tokens, width), mask (batch, tokens) of 0 and 1 -> (batch, tokens, width)."""
    batch, tokens, _ = x.shape
    qkv = dense(weights, name + "qkv", x).view(batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head width)
    scores = query @ key.transpose(-1, -2) / math.sqrt(facts.HEAD_WIDTH)
    scores = scores.masked_fill(mask[:, None, None, :] == 0, -math.inf)
    mixed = dropout(torch.softmax(scores, -1), facts.ATTENTION_DROPOUT) @ value
    mixed = mixed.transpose(1, 2).reshape(batch, tokens, facts.WIDTH)
    return dense(weights, name + "projection", mixed)


def encode(weights, tokens, segments, mask):
    """(batch, tokens) -> (batch, tokens, width). Each layer normalises after its sums."""
    x = weights["word_embedding"][tokens]
    x = x + weights["position_embedding"][: tokens.shape[1]]
    x = x + weights["segment_embedding"][segments]
    x = dropout(layer_norm(weights, "embedding_norm", x), facts.DROPOUT)
    for layer in range(facts.LAYERS):
        name = "layer%d." % layer
        mixed = attention(weights, name, x, mask)
        x = layer_norm(weights, name + "norm1", x + dropout(mixed, facts.DROPOUT))
        inner = dense(weights, name + "ffn2", gelu(dense(weights, name + "ffn1", x)))
        x = layer_norm(weights, name + "norm2", x + dropout(inner, facts.DROPOUT))
    return x


def start_scores(weights, x, allowed):
    """(batch, tokens)"""
    return x @ weights["start.weight"][0] - facts.BLOCKED * (1 - allowed)


def end_scores(weights, x, place, allowed):
    """Scores of the ends that go with one start a sample: place (batch,) -> (batch, tokens).

    One dense layer takes a token and the start; its two halves stand apart in the weights.
    """
    start = x[torch.arange(len(x)), place][:, None].expand_as(x)
    weight = torch.cat([weights["end_token.weight"], weights["end_start.weight"]], 1)
    hidden = torch.cat([x, start], -1) @ weight.T + weights["end_token.bias"]
    hidden = normalized(torch.tanh(hidden)) * weights["end_norm.weight"]
    return hidden @ weights["end_output.weight"][0] - facts.BLOCKED * (1 - allowed)


def impossible_score(weights, x, starts):
    """(batch,): above 0 where there is probably no answer."""
    shares = torch.softmax(starts, -1)
    expected = (shares[:, :, None] * x).sum(1)
    hidden = torch.tanh(dense(weights, "answer", torch.cat([expected, x[:, 0]], -1)))
    return dense(weights, "answer_output", hidden)[:, 0]


def loss(weights, batch, dimensions):
    """The mean over windows: half of the cross-entropies of start and end, and a part of whether
    there is an answer. The end is scored behind the true start.
    """
    tokens, segments, mask, allowed, first, last, impossible, _ = batch
    x = encode(weights, tokens, segments, mask)
    rows = torch.arange(len(tokens))
    starts = start_scores(weights, x, allowed)
    start = -torch.log_softmax(starts, -1)[rows, first]
    end = -torch.log_softmax(end_scores(weights, x, first, allowed), -1)[rows, last]
    score = impossible_score(weights, x, starts)
    log, log_not = torch.log(torch.sigmoid(score)), torch.log(torch.sigmoid(-score))
    answer = -(impossible * log + (1 - impossible) * log_not)
    return ((start + end) / 2 + facts.ANSWERABLE_WEIGHT * answer).mean()


def outputs(weights, statistics, batch, dimensions):
    """(batch, 1 + starts, 1 + tokens), as answers.candidates takes them.

    Logarithms of probabilities, 0 where no answer may stand; the starts that are tried in the order
    of their places. Raises ValueError where rounding could choose others: another seed is needed.
    """
    tokens, segments, mask, allowed = batch[:4]
    x = encode(weights, tokens, segments, mask)
    starts = start_scores(weights, x, allowed)
    logarithms = torch.log_softmax(starts, -1)
    best = logarithms.sort(-1, descending=True)
    margin = (best.values[:, facts.BEAM - 1] - best.values[:, facts.BEAM]).min()
    if starts.dtype == torch.float64 and margin < MARGIN:
        raise ValueError("a start that is tried is decided by %g, less than %g" % (margin, MARGIN))
    places = best.indices[:, : facts.BEAM].sort(-1).values
    score = impossible_score(weights, x, starts)
    rows = [torch.cat([score[:, None], logarithms * allowed], -1)]
    for place in places.unbind(-1):
        ends = torch.log_softmax(end_scores(weights, x, place, allowed), -1) * allowed
        rows.append(torch.cat([place[:, None].to(ends.dtype), ends], -1))
    return torch.stack(rows, 1)


class FastOptimizer(UpdateRule):
    """proof.Optimizer by PyTorch's fused AdamW, for the many float32 steps of long runs."""

    def __init__(self, weights, dimensions):
        groups = [
            {
                "params": [weight],
                "share": facts.rate_share(name),
                "weight_decay": (weight.dim() > 1) * facts.WEIGHT_DECAY,
            }
            for name, weight in weights.items()
        ]
        betas = (facts.BETA1, facts.BETA2)
        self.adam = torch.optim.AdamW(groups, betas=betas, eps=facts.EPSILON, fused=True)

    def update(self, weights, gradients, learning_rate):
        """The same weights, changed in place."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate * group["share"]
        for name, weight in weights.items():
            weight.grad = gradients[name]
        torch.nn.utils.clip_grad_norm_(weights.values(), facts.CLIP_NORM)
        self.adam.step()
        return weights


def tensors(
    tokens, segments, mask, allowed, starts, ends, impossible, windows, dtype=torch.float64
):
    """A NumPy batch (workloads/electra_squad/input.py) -> tensors."""
    words = [torch.from_numpy(each).long() for each in (tokens, segments, mask)]
    places = [torch.from_numpy(each).long() for each in (starts, ends)]
    allowed, impossible = (torch.from_numpy(each).to(dtype) for each in (allowed, impossible))
    return (*words, allowed, *places, impossible, torch.from_numpy(windows).long())


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    outputs=outputs,
    fast_optimizer=FastOptimizer,
)
