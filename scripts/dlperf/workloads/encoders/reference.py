"""What the references of encoders share: layers as plain formulas on canonical weights; PyTorch.

Written apart from frameworks/pytorch/transformer.py, which is proved by it. facts: those of a
workload, whose constants certificates change.
"""

import math

import torch

from dlperf.contract.proof import UpdateRule
from dlperf.workloads.formulas import dropout


def dense(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def normalized(facts, x):
    """By the mean and the biased variance of the last axis; epsilon inside the root."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + facts.LAYER_NORM_EPSILON)


def layer_norm(facts, weights, name, x):
    return normalized(facts, x) * weights[name + ".weight"] + weights[name + ".bias"]


def gelu(x):
    """The exact form, by the error function."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def attention(facts, weights, name, x, heads, hidden):
    """x (batch, tokens, width) -> the same shape; hidden: true where no share may be, of a shape
    that broadcasts to (batch, heads, tokens, tokens)."""
    batch, tokens, width = x.shape
    qkv = dense(weights, name + "qkv", x).view(batch, tokens, 3, heads, width // heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head width)
    scores = query @ key.transpose(-1, -2) / math.sqrt(width // heads)
    shares = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)
    mixed = dropout(shares, facts.ATTENTION_DROPOUT) @ value
    return dense(weights, name + "projection", mixed.transpose(1, 2).reshape(x.shape))


def embed(facts, weights, tokens, segments):
    """(batch, tokens) -> (batch, tokens, width)"""
    x = weights["word_embedding"][tokens]
    x = x + weights["position_embedding"][: tokens.shape[1]]
    x = x + weights["segment_embedding"][segments]
    return dropout(layer_norm(facts, weights, "embedding_norm", x), facts.DROPOUT)


def encode(facts, weights, x, mask, heads, prefix=""):
    """mask (batch, tokens) of 0 and 1; each layer normalises after its sums."""
    hidden = mask[:, None, None, :] == 0
    for layer in range(facts.LAYERS):
        name = "%slayer%d." % (prefix, layer)
        mixed = attention(facts, weights, name, x, heads, hidden)
        x = layer_norm(facts, weights, name + "norm1", x + dropout(mixed, facts.DROPOUT))
        inner = dense(weights, name + "ffn2", gelu(dense(weights, name + "ffn1", x)))
        x = layer_norm(facts, weights, name + "norm2", x + dropout(inner, facts.DROPOUT))
    return x


class FastAdamW(UpdateRule):
    """adamw.AdamW by PyTorch's fused one, for the many float32 steps of long runs."""

    def __init__(self, facts, weights, clip_norm, rate_share=None):
        self.clip_norm, groups = clip_norm, {}
        for name, weight in weights.items():
            share, decayed = rate_share(name) if rate_share else 1.0, weight.dim() > 1
            group = {"params": [], "share": share, "weight_decay": decayed * facts.WEIGHT_DECAY}
            groups.setdefault((share, decayed), group)["params"].append(weight)
        self.adam = torch.optim.AdamW(
            list(groups.values()), betas=(facts.BETA1, facts.BETA2), eps=facts.EPSILON, fused=True
        )

    def update(self, weights, gradients, learning_rate):
        """The same weights, changed in place."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate * group["share"]
        for name, weight in weights.items():
            weight.grad = gradients[name]
        torch.nn.utils.clip_grad_norm_(weights.values(), self.clip_norm)
        self.adam.step()
        return weights
