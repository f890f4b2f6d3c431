"""Fine-tuning on SQuAD as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other; the layers are those of encoders/reference.py. Nothing here is fast, shared with an
implementation, or chosen by a framework's default.
"""

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.encoders import reference as encoders
from dlperf.workloads.encoders.reference import dense, normalized

#: The least difference of the last start that is tried and the next one that is not left to
#: rounding.
MARGIN = 0.02


def encode(weights, tokens, segments, mask):
    """(batch, tokens) -> (batch, tokens, width)"""
    x = encoders.embed(facts, weights, tokens, segments)
    return encoders.encode(facts, weights, x, mask, facts.HEADS)


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
    hidden = normalized(facts, torch.tanh(hidden)) * weights["end_norm.weight"]
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


class FastOptimizer(encoders.FastAdamW):
    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM, facts.rate_share)


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
