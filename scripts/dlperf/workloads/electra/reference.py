"""ELECTRA-Base pre-training as plain formulas: what every implementation is held against.

Float64, PyTorch's functional operators on canonical weights (facts.parameters), one rank after
the other; the layers are those of encoders/reference.py, and the noise of the samples comes with
the batch. Nothing here is fast, shared with an implementation, or chosen by a framework's default.
"""

import torch

from dlperf.contract.reference import Reference
from dlperf.workloads.electra import facts
from dlperf.workloads.encoders.reference import dense, embed, encode, gelu, layer_norm

#: The least difference of a sample's score and the next one's that is not left to rounding.
MARGIN = 1e-3


def generate(weights, tokens, segments, mask, positions):
    """Scores of all words at the chosen positions: (batch, places, vocabulary)."""
    x = dense(weights, "generator_input", embed(facts, weights, tokens, segments))
    x = encode(facts, weights, x, mask, facts.GENERATOR_HEADS, "generator.")
    rows = torch.arange(len(tokens))[:, None]
    hidden = gelu(dense(weights, "generator_head", x[rows, positions]))
    hidden = layer_norm(facts, weights, "generator_norm", hidden)
    return hidden @ weights["word_embedding"].T + weights["generator_bias"]


def discriminate(weights, tokens, segments, mask):
    """(batch, tokens): above 0 where a token was replaced."""
    x = embed(facts, weights, tokens, segments)
    x = encode(facts, weights, x, mask, facts.HEADS, "discriminator.")
    hidden = gelu(dense(weights, "discriminator_head", x))
    return dense(weights, "discriminator_output", hidden)[:, :, 0]


def loss(weights, batch, dimensions):
    """The generator's cross-entropy, the mean over chosen places, and 50 times the discriminator's,
    the mean over tokens that are no padding. A sample that is the true token counts as original.
    """
    tokens, segments, mask, positions, labels, chosen, *noise = batch
    scores = generate(weights, tokens, segments, mask, positions)
    hits = torch.log_softmax(scores, -1).gather(2, labels[:, :, None])[:, :, 0]
    generator = -(chosen * hits).sum() / chosen.sum()

    samples = sample(scores.detach(), chosen, noise)
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


def evaluated(weights, statistics, batch, dimensions):
    """What an evaluation gives: (batch, values), as facts.tally takes them.

    The discriminator is given the words that are drawn, in all chosen places: no label is needed.
    """
    tokens, segments, mask, positions, _, chosen, *noise = batch
    scores = generate(weights, tokens, segments, mask, positions)
    samples = sample(scores, chosen, noise)
    replaced = tokens.clone()
    for row in range(len(tokens)):
        for place in range(positions.shape[1]):
            if chosen[row, place]:
                replaced[row, positions[row, place]] = samples[row, place]
            else:  # it stands for the first token
                samples[row, place] = tokens[row, 0]
    found = discriminate(weights, replaced, segments, mask)
    return torch.cat([scores.flatten(1), samples / facts.DRAWN_UNIT, found], 1)


def sample(scores, chosen, noise):
    """A word for each place, drawn by the noise that is given, or by Gumbel's.

    Raises ValueError where two samples' scores are as close as rounding: another seed is needed.
    """
    noisy = scores + (noise[0] if noise else gumbel(scores))
    first, second = noisy.topk(2, -1).values.unbind(-1)
    exact = noise and scores.dtype == torch.float64
    if exact and ((first - second)[chosen > 0] < MARGIN).any():
        raise ValueError("a sample of the generator is decided by less than %g" % MARGIN)
    return noisy.argmax(-1)


def gumbel(scores):
    """Noise by which the largest sum is a sample of their softmax (Gumbel 1954)."""
    return -torch.log(torch.empty_like(scores).exponential_())


def tensors(tokens, segments, mask, positions, labels, chosen, *noise, dtype=torch.float64):
    """A NumPy batch (workloads/electra/input.py) -> tensors."""
    integers = (tokens, segments, mask, positions, labels)
    return (
        *(torch.from_numpy(each).long() for each in integers),
        torch.from_numpy(chosen).to(dtype),
        *(torch.from_numpy(each).to(dtype) for each in noise),
    )


REFERENCE = Reference(
    tensors=tensors,
    loss=loss,
    evaluated=evaluated,
)
