"""BERT-Base pre-training as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other; the layers are those of encoders/reference.py. Nothing here is fast, shared with an
implementation, or chosen by a framework's default.
"""

import math

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.bert import facts
from dlperf.workloads.encoders import reference as encoders
from dlperf.workloads.encoders.reference import dense, gelu, layer_norm


def encode(weights, tokens, segments, mask):
    """(batch, tokens) -> (batch, tokens, width)"""
    x = encoders.embed(facts, weights, tokens, segments)
    return encoders.encode(facts, weights, x, mask, facts.HEADS)


def outputs(weights, statistics, batch, dimensions):
    """What an inference gives: the encoder's output, (batch, tokens, width)."""
    return encode(weights, *batch[:3])


def words(weights, x, positions):
    """What the language model's softmax takes at these positions of the encoder's output."""
    rows = torch.arange(len(x))
    hidden = gelu(dense(weights, "mlm", x[rows[:, None], positions]))
    hidden = layer_norm(facts, weights, "mlm_norm", hidden)
    return hidden @ weights["word_embedding"].T + weights["mlm_bias"]


def evaluated(weights, statistics, batch, dimensions):
    """What an evaluation gives while it is trained: (batch, predictions, VOCABULARY)."""
    return words(weights, encode(weights, *batch[:3]), batch[3])


def loss(weights, batch, dimensions):
    """The mean over predicted positions plus the mean over sentence pairs, cross-entropies."""
    tokens, segments, mask, positions, labels, predicted, follows = batch
    x = encode(weights, tokens, segments, mask)
    shares = torch.log_softmax(words(weights, x, positions), -1)
    hits = shares.gather(2, labels[:, :, None])[:, :, 0]
    language = -(predicted * hits).sum() / predicted.sum()
    pairs = torch.log_softmax(
        dense(weights, "nsp", torch.tanh(dense(weights, "pooler", x[:, 0]))), -1
    )
    return language - pairs[torch.arange(len(tokens)), follows].mean()


class FastOptimizer(encoders.FastAdamW):
    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM if dimensions["clip"] else math.inf)


def tensors(tokens, segments, mask, positions, labels, predicted, follows, dtype=torch.float64):
    """A NumPy batch (workloads/bert/input.py) -> tensors."""
    integers = [torch.from_numpy(each).long() for each in (tokens, segments, mask)]
    integers += [torch.from_numpy(each).long() for each in (positions, labels)]
    return (*integers, torch.from_numpy(predicted).to(dtype), torch.from_numpy(follows).long())


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    outputs=outputs,
    evaluated=evaluated,
    fast_optimizer=FastOptimizer,
)
