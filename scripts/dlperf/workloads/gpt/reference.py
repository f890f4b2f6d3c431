"""GPT pre-training as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other; the parts of its layers are those of encoders/reference.py. Nothing here is fast, shared
with an implementation, or chosen by a framework's default.
"""

import math

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.encoders.reference import attention, dense, layer_norm
from dlperf.workloads.formulas import dropout
from dlperf.workloads.gpt import facts


def gelu(x):
    """The form by tanh, GPT-2's."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def decode(weights, tokens, heads):
    """(batch, tokens) -> (batch, tokens, width), behind the last norm; attention is causal."""
    count = tokens.shape[1]
    later = torch.ones(count, count, dtype=torch.bool).triu(1)
    x = weights["word_embedding"][tokens] + weights["position_embedding"][:count]
    x, layer = dropout(x, facts.DROPOUT), 0
    while "layer%d.qkv.weight" % layer in weights:
        name = "layer%d." % layer
        normed = layer_norm(facts, weights, name + "norm1", x)
        x = x + dropout(attention(facts, weights, name, normed, heads, later), facts.DROPOUT)
        normed = layer_norm(facts, weights, name + "norm2", x)
        inner = dense(weights, name + "ffn2", gelu(dense(weights, name + "ffn1", normed)))
        x = x + dropout(inner, facts.DROPOUT)
        layer += 1
    return layer_norm(facts, weights, "norm", x)


def loss(weights, batch, dimensions):
    """The mean cross-entropy of all next tokens."""
    tokens, labels = batch
    scores = decode(weights, tokens, dimensions["heads"]) @ weights["word_embedding"].T
    hits = torch.log_softmax(scores, -1).gather(2, labels[:, :, None])
    return -hits.mean()


def outputs(weights, statistics, batch, dimensions):
    """What an inference gives: scores of the token that follows each sequence, (batch, V)."""
    last = decode(weights, batch[0], dimensions["heads"])[:, -1]
    return last @ weights["word_embedding"].T


def tensors(tokens, labels, dtype=torch.float64):
    """A NumPy batch (workloads/gpt/input.py) -> tensors."""
    return torch.from_numpy(tokens).long(), torch.from_numpy(labels).long()


REFERENCE = Reference(tensors=tensors, loss=loss, outputs=outputs)
