"""BERT-Base pre-training as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other. Dropout leaves all, or nothing, as certificates ask for. Nothing here is fast, shared
with an implementation, or chosen by a framework's default.
"""

import math

import torch

from dlperf.contract.proof import UpdateRule
from dlperf.contract.reference import Reference
from dlperf.workloads.bert import facts


def dense(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x):
    """By the mean and the biased variance of the last axis; epsilon inside the root."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    x = (x - mean) / torch.sqrt(variance + facts.LAYER_NORM_EPSILON)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def gelu(x):
    """The exact form, by the error function."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def dropout(x, rate):
    return x if rate == 0 else 0.0 * x


def attention(weights, name, x, mask):
    """x (batch, tokens, width), mask (batch, tokens) of 0 and 1 -> (batch, tokens, width)."""
    batch, tokens, width = x.shape
    qkv = dense(weights, name + "qkv", x)
    qkv = qkv.view(batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head width)
    scores = query @ key.transpose(-1, -2) / math.sqrt(facts.HEAD_WIDTH)
    scores = scores.masked_fill(mask[:, None, None, :] == 0, -math.inf)
    mixed = dropout(torch.softmax(scores, -1), facts.ATTENTION_DROPOUT) @ value
    mixed = mixed.transpose(1, 2).reshape(batch, tokens, width)
    return dense(weights, name + "projection", mixed)


def encode(weights, tokens, segments, mask):
    """(batch, tokens) -> (batch, tokens, width); each layer normalises after its sums."""
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


def outputs(weights, statistics, batch, dimensions):
    """What an inference gives: the encoder's output, (batch, tokens, width)."""
    return encode(weights, *batch[:3])


def words(weights, x, positions):
    """What the language model's softmax takes at these positions of the encoder's output."""
    rows = torch.arange(len(x))
    hidden = layer_norm(
        weights, "mlm_norm", gelu(dense(weights, "mlm", x[rows[:, None], positions]))
    )
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


class FastOptimizer(UpdateRule):
    """proof.Optimizer by PyTorch's fused AdamW, for the many float32 steps of long runs."""

    def __init__(self, weights, dimensions):
        self.clip_norm = facts.CLIP_NORM if dimensions["clip"] else math.inf
        groups = [
            {
                "params": [w for w in weights.values() if (w.dim() > 1) == decayed],
                "weight_decay": decayed * facts.WEIGHT_DECAY,
            }
            for decayed in (True, False)
        ]
        betas = (facts.BETA1, facts.BETA2)
        self.adam = torch.optim.AdamW(groups, betas=betas, eps=facts.EPSILON, fused=True)

    def update(self, weights, gradients, learning_rate):
        """The same weights, changed in place."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate
        for name, weight in weights.items():
            weight.grad = gradients[name]
        torch.nn.utils.clip_grad_norm_(weights.values(), self.clip_norm)
        self.adam.step()
        return weights


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
