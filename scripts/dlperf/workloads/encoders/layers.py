"""What the facts of encoders share: tensors of a layer, what they start with, its arithmetic."""

import re
from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data
from dlperf.contract.tensor import Tensor
from dlperf.contract.traffic import ACTIVATION, DROPOUT, FORK, NORM, SUM, Kernels, between, product

SYNTHETIC = Data(
    "",
    "input",
    "synthetic batches, on the device",
    "batches drawn anew before each window, on the device",
)


def base(case):
    """What a speed-up is over: the same work on one device."""
    return case.on(1, 1)


def tokens_per_sample(dimensions):
    """Tokens of a sequence, padding included."""
    return dimensions["sequence_length"]


def embeddings(width, vocabulary, positions, segments):
    """Names and tensors of the three tables, and of the norm behind their sum."""
    sizes = (("word", vocabulary), ("position", positions), ("segment", segments))
    tensors = OrderedDict(
        (name + "_embedding", Tensor((entries, width), tensor.EMBEDDING)) for name, entries in sizes
    )
    tensors.update(tensor.norm("embedding_norm", width))
    return tensors


def layer(name, width, inner_width, norms_first=False):
    """Names and tensors of a layer, in the order of the forward pass, as tensor parallelism divides
    them (Shoeybi et al. 2019, section 3).

    Dense weights are (outputs, inputs). qkv stacks query, key and value, each with its heads one
    after the other: a key's bias alone has no gradient but rounding, as softmax ignores it.
    norms_first: each half normalises its input, in place of its sum.
    """
    qkv = tensor.dense(name + "qkv", width, 3 * width, axis=0, blocks=3)
    attention = (*qkv, *tensor.dense(name + "projection", width, width, axis=1))
    ffn1 = tensor.dense(name + "ffn1", width, inner_width, axis=0)
    inner = (*ffn1, *tensor.dense(name + "ffn2", inner_width, width, axis=1))
    norm1, norm2 = tensor.norm(name + "norm1", width), tensor.norm(name + "norm2", width)
    if norms_first:
        return OrderedDict((*norm1, *attention, *norm2, *inner))
    return OrderedDict((*attention, *norm1, *inner, *norm2))


#: What networks call otherwise, and what facts call it.
_NAMES = (
    ("layers.layer", "layer"),
    ("embedding.weight", "embedding"),
    (".gamma", ".weight"),
    (".beta", ".bias"),
)


def canonical(own):
    """The name of a tensor, from that in a network whose stack of layers is called `layers`, or as
    what its layers' names begin with."""
    name = re.sub(r"^(\w+)\.(\d+)\.", r"\1.layer\2.", own)
    for old, new in _NAMES:
        name = name.replace(old, new)
    return name


def initial(deviation, known, draw):
    """What a tensor starts with, a float32 array or one number; `draw` draws.

    Weights and embeddings are normal with this deviation, scales 1, biases 0.
    """
    if known.is_matrix:
        return draw.normal(known.shape, deviation)
    return 1.0 if known.kind == tensor.SCALE else 0.0


def warmed_up(steps, warmup, peak):
    """The rate of each step: a line to `peak` over so many steps, then a line to 0."""
    left = steps - warmup
    rates = [peak * (step + 1) / warmup for step in range(warmup)]
    return rates + [peak * (left - step) / left for step in range(left)]


def multiply_adds(layers, tokens, width, inner_width):
    """Those of a sequence in a forward pass of so many layers, attention's products included."""
    dense = 4 * width * width + 2 * width * inner_width
    return layers * (tokens * dense + 2 * tokens * tokens * width)


def dense_kernels(rows, inputs, outputs):
    """The product of a dense layer."""
    return product(rows * inputs, rows * outputs, rows * inputs * outputs)


def embedding_kernels(tokens, width):
    """Three lookups, summed, norm, dropout; and the gradients' way into the tables."""
    wide, tables = tokens * width, 3
    lookups = (2 * tables + 2 * SUM + NORM + DROPOUT + tables) * wide
    return between((tables + 2 + 3 + tables) * wide, lookups)


def layer_kernels(tokens, width, inner_width):
    """What a training step computes and moves of one sequence in one layer, kernel by kernel."""
    wide, inner = tokens * width, ACTIVATION * tokens * inner_width
    # dropout, sum and norm behind a dense layer; fused: both summands, the sum, the result; the
    # gradient and the sum, and the gradients of both summands
    behind = between((4 + 4 + FORK) * wide, (DROPOUT + SUM + NORM + FORK) * wide)
    yield dense_kernels(tokens, width, 3 * width)
    # one kernel each way: query, key, value and the result; these and its gradient, theirs
    attention = (4 + 8) * wide
    yield Kernels(5 * wide, attention, attention, 3 * 4.0 * tokens * wide)
    yield dense_kernels(tokens, width, width)
    yield behind
    yield dense_kernels(tokens, width, inner_width)
    yield between(inner, inner)
    yield dense_kernels(tokens, inner_width, width)
    yield behind
