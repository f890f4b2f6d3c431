"""ELECTRA-Base pre-training as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other. Dropout leaves all, or nothing, as certificates ask for; the noise of the samples comes
with the batch. Nothing here is fast, shared with an implementation, or chosen by a framework's
default.
"""

import math

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.electra import facts

#: The least difference of a sample's score and the next one's that is not left to rounding.
MARGIN = 1e-3


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


def attention(weights, name, x, mask, heads):
    """x (batch, tokens, width), mask (batch, tokens) of 0 and 1 -> (batch, tokens, width)."""
    batch, tokens, width = x.shape
    qkv = dense(weights, name + "qkv", x)
    qkv = qkv.view(batch, tokens, 3, heads, width // heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head width)
    scores = query @ key.transpose(-1, -2) / math.sqrt(width // heads)
    scores = scores.masked_fill(mask[:, None, None, :] == 0, -math.inf)
    mixed = dropout(torch.softmax(scores, -1), facts.ATTENTION_DROPOUT) @ value
    mixed = mixed.transpose(1, 2).reshape(batch, tokens, width)
    return dense(weights, name + "projection", mixed)


def embed(weights, tokens, segments):
    """(batch, tokens) -> (batch, tokens, width): the block that both models share."""
    x = weights["word_embedding"][tokens]
    x = x + weights["position_embedding"][: tokens.shape[1]]
    x = x + weights["segment_embedding"][segments]
    return dropout(layer_norm(weights, "embedding_norm", x), facts.DROPOUT)


def encode(weights, model, x, mask, heads):
    """Each layer normalises after its sums."""
    for layer in range(facts.LAYERS):
        name = "%s.layer%d." % (model, layer)
        mixed = attention(weights, name, x, mask, heads)
        x = layer_norm(weights, name + "norm1", x + dropout(mixed, facts.DROPOUT))
        inner = dense(weights, name + "ffn2", gelu(dense(weights, name + "ffn1", x)))
        x = layer_norm(weights, name + "norm2", x + dropout(inner, facts.DROPOUT))
    return x


def generate(weights, tokens, segments, mask, positions):
    """Scores of all words at the chosen positions: (batch, places, vocabulary)."""
    x = dense(weights, "generator_input", embed(weights, tokens, segments))
    x = encode(weights, "generator", x, mask, facts.GENERATOR_HEADS)
    rows = torch.arange(len(tokens))[:, None]
    hidden = gelu(dense(weights, "generator_head", x[rows, positions]))
    hidden = layer_norm(weights, "generator_norm", hidden)
    return hidden @ weights["word_embedding"].T + weights["generator_bias"]


def discriminate(weights, tokens, segments, mask):
    """(batch, tokens): above 0 where a token was replaced."""
    x = encode(weights, "discriminator", embed(weights, tokens, segments), mask, facts.HEADS)
    hidden = gelu(dense(weights, "discriminator_head", x))
    return dense(weights, "discriminator_output", hidden)[:, :, 0]


def loss(weights, batch, dimensions):
    """The generator's cross-entropy, the mean over chosen places, and 50 times the discriminator's,
    the mean over tokens that are no padding. A sample that is the true token counts as original.

    Raises ValueError where two samples' scores are as close as rounding: another seed is needed.
    """
    tokens, segments, mask, positions, labels, chosen, noise = batch
    scores = generate(weights, tokens, segments, mask, positions)
    hits = torch.log_softmax(scores, -1).gather(2, labels[:, :, None])[:, :, 0]
    generator = -(chosen * hits).sum() / chosen.sum()

    noisy = scores.detach() + noise
    first, second = noisy.topk(2, -1).values.unbind(-1)
    if scores.dtype == torch.float64 and ((first - second)[chosen > 0] < MARGIN).any():
        raise ValueError("a sample of the generator is decided by less than %g" % MARGIN)
    samples = noisy.argmax(-1)
    original, replaced = tokens.clone(), tokens.clone()
    for row in range(len(tokens)):
        for place in range(positions.shape[1]):
            if chosen[row, place]:
                original[row, positions[row, place]] = labels[row, place]
                replaced[row, positions[row, place]] = samples[row, place]
    fake = (original != replaced).to(scores.dtype)
    found = discriminate(weights, replaced, segments, mask)
    log, log_not = torch.log(torch.sigmoid(found)), torch.log(torch.sigmoid(-found))
    each = -(fake * log + (1 - fake) * log_not)
    discriminator = (each * mask).sum() / mask.sum()
    return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def tensors(tokens, segments, mask, positions, labels, chosen, noise, dtype=torch.float64):
    """A NumPy batch (workloads/electra/input.py) -> tensors."""
    integers = (tokens, segments, mask, positions, labels)
    return (
        *(torch.from_numpy(each).long() for each in integers),
        torch.from_numpy(chosen).to(dtype),
        torch.from_numpy(noise).to(dtype),
    )


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
)
