"""The least that a training step must compute and move, and how long a device needs for it.

In: a workload with its dimensions, batch size and precision; what a device reaches. Out: FLOPs and
bytes of a step, and seconds for each of them. After Williams, Waterman and Patterson 2009,
"Roofline": no step is faster than its arithmetic at the speed of products, nor than its traffic at
the speed of memory. Caches are left out: what a kernel writes, the next one reads from memory.

Traffic is counted three times, by how kernels are cut:

    least   only what products (convolutions, dense layers, attention) give is kept: written once
            and read once by the forward pass; read once by the backward pass, and its gradient
            written once and read once. All between two products is done on the way.
    fused   each product is a kernel for its result, one for the gradient of its input and one for
            that of its weights; norm, activation, dropout and sum behind it are one kernel each way
    eager   each of those is a kernel of its own

Weights and optimiser are the same in all three: weights are read by both passes, gradients written
and read, weights and the optimiser's state, in fp32, read and written; where the passes have narrow
copies of the weights, these are written; and a clip reads the gradients once more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dlperf import workloads
from dlperf.contract.case import Case

COUNTS = ("least", "fused", "eager")
FP32 = 4
#: Passes over a tensor of each kind of kernel: reads and writes, forward + backward.
NORM = 2 + 3  # x, y; x and the gradient of y, that of x
BATCH_NORM = (
    3 + 5
)  # x for its statistics, x, y; x and the gradient for sums, both again, the result
ACTIVATION = 2 + 3
DROPOUT = 2 + 2  # masks, a bit or a byte an element, are left out
SUM = 3  # two summands, the result; its gradient is that of both
FORK = 3  # the gradients of two ways are added


class Kernels(NamedTuple):
    """A product, or what stands between two: FLOPs, and what is moved, by each of COUNTS.

    Of one sample and in elements while it is counted, of a whole step and in bytes in a Step.
    """

    least: float
    fused: float
    eager: float
    flops: float = 0.0

    def times(self, samples: int, width: int) -> "Kernels":
        least, fused, eager = (samples * width * each for each in self[:3])
        return Kernels(least, fused, eager, samples * self.flops)


@dataclass(frozen=True)
class Step:
    """What one device has to do in a training step."""

    kernels: tuple[Kernels, ...]

    @property
    def flops(self) -> float:
        return sum(each.flops for each in self.kernels)

    def bytes(self, count: str) -> float:
        return float(sum(getattr(each, count) for each in self.kernels))

    def seconds(self, tflops: float, gigabytes: float) -> dict[str, float]:
        """Seconds that a device of these speeds needs.

        arithmetic: of all products. least: of the least traffic. No step takes less than either.
        fused, eager: kernels one after the other, each at the slower of its arithmetic and its
        traffic. A step that is faster than `eager` has kernels that are fused.
        """
        found = {
            "arithmetic": self.flops / tflops / 1e12,
            "least": self.bytes("least") / gigabytes / 1e9,
        }
        for count in ("fused", "eager"):
            found[count] = sum(
                max(each.flops / tflops / 1e12, getattr(each, count) / gigabytes / 1e9)
                for each in self.kernels
            )
        return found


def of_case(case: Case) -> Step | None:
    """A training case's step; None where it is not counted, a model is split over devices, or its
    activations are computed twice."""
    layout = case.layout
    if (
        case.scenario != "train"
        or layout.devices_per_replica > 1
        or layout.activation_checkpointing
    ):
        return None
    count = layout.accumulation
    return step(case.workload, case.dimensions, case.batch_size * count, case.precision, count)


def step(
    workload: str,
    dimensions: Mapping[str, Any],
    samples: int,
    precision: str,
    micro_steps: int = 1,
) -> Step | None:
    """The step of one device that takes in `samples`; None of a workload that is not counted.

    In each micro-step both passes read the weights, and the gradients are written; they are read by
    the next one, which adds its own, and in the end by the optimiser.
    """
    if workload not in _COUNTED:
        return None
    kernels, states = _COUNTED[workload]
    width = 2 if precision.startswith("amp") else FP32
    weights = workloads.parameter_count(workload, dimensions)
    passes = micro_steps * (2 + 2) + int(bool(dimensions.get("clip"))) + int(width != FP32)
    fixed = weights * (width * passes + FP32 * 2 * (1 + states))
    moved = (each.times(samples, width) for each in kernels(dimensions))
    return Step((Kernels(fixed, fixed, fixed), *moved))


def _product(
    inputs: float, outputs: float, multiply_adds: float, *, first: bool = False
) -> Kernels:
    """A convolution or dense layer; of the first one nobody asks for the gradient of the input.

    The FLOPs of that gradient count all the same, as in `flops_per_sample`.
    """
    own = 2 * (inputs + outputs) if first else 3 * (inputs + outputs)
    return Kernels(5 * outputs + (2 * inputs if first else 0), own, own, 6 * multiply_adds)


def _between(fused: float, eager: float) -> Kernels:
    """What stands between products; the least count has it done on the way."""
    return Kernels(0, fused, eager)


def _resnet50(dimensions: Mapping[str, Any]) -> Iterable[Kernels]:
    facts = workloads.facts("resnet50")
    shapes = facts.parameters(dimensions)
    counts = facts.multiply_adds(dimensions["image_size"])
    # what a convolution gives: its multiply-adds, each of which goes into one of its elements
    outputs = {name: count / _size(shapes[f"{name}.weight"][1:]) for name, count in counts.items()}

    def product(name: str, inputs: float, *, first: bool = False) -> Kernels:
        return _product(inputs, outputs[name], counts[name], first=first)

    stem = outputs["conv1"]
    yield product("conv1", 3 * dimensions["image_size"] ** 2, first=True)
    yield _between(BATCH_NORM * stem, (BATCH_NORM + ACTIVATION) * stem)
    inputs = stem / 4  # max-pooling halves both sides
    yield _between(2 * (stem + inputs), 2 * (stem + inputs))
    block = 0
    while (name := f"block{block}") + ".conv1" in outputs:
        one, two, three = (outputs[f"{name}.conv{number}"] for number in (1, 2, 3))
        yield product(f"{name}.conv1", inputs)
        yield product(f"{name}.conv2", one)
        yield product(f"{name}.conv3", two)
        normed = one + two + three
        if shortcut := outputs.get(f"{name}.conv4"):
            yield product(f"{name}.conv4", inputs)
            normed += shortcut
        both = BATCH_NORM * normed + FORK * inputs
        # within the last norm's kernels: the shortcut is read, and its gradient written
        yield _between(both + 2 * three, both + ACTIVATION * (one + two + three) + SUM * three)
        inputs, block = three, block + 1
    yield _between(2 * inputs, 2 * inputs)  # average pooling
    yield product("fc", shapes["fc.weight"][1])


def _bert(dimensions: Mapping[str, Any]) -> Iterable[Kernels]:
    facts = workloads.facts("bert")
    tokens = dimensions["sequence_length"]
    masked, wide = facts.masked_positions(tokens), tokens * facts.WIDTH

    def dense(rows: int, inputs: int, outputs: int) -> Kernels:
        return _product(rows * inputs, rows * outputs, rows * inputs * outputs)

    # dropout, sum and norm behind a dense layer; fused: both summands, the sum, the result; the
    # gradient and the sum, and the gradients of both summands
    behind = _between((4 + 4 + FORK) * wide, (DROPOUT + SUM + NORM + FORK) * wide)
    # three lookups, summed, norm, dropout; the gradients' way into the tables
    tables = 3
    lookups = (2 * tables + 2 * SUM + NORM + DROPOUT + tables) * wide
    yield _between((tables + 2 + 3 + tables) * wide, lookups)
    for _ in range(facts.LAYERS):
        yield dense(tokens, facts.WIDTH, 3 * facts.WIDTH)
        # one kernel each way: query, key, value and the result; these and its gradient, theirs
        attention = (4 + 8) * wide
        yield Kernels(5 * wide, attention, attention, 3 * 4.0 * tokens * wide)
        yield dense(tokens, facts.WIDTH, facts.WIDTH)
        yield behind
        yield dense(tokens, facts.WIDTH, facts.INNER_WIDTH)
        inner = ACTIVATION * tokens * facts.INNER_WIDTH
        yield _between(inner, inner)
        yield dense(tokens, facts.INNER_WIDTH, facts.WIDTH)
        yield behind
    yield dense(masked, facts.WIDTH, facts.WIDTH)
    predicted = masked * facts.WIDTH
    yield _between((ACTIVATION + NORM) * predicted, (ACTIVATION + NORM) * predicted)
    yield dense(masked, facts.WIDTH, facts.VOCABULARY)
    scores = masked * facts.VOCABULARY
    yield _between(2 * scores, 4 * scores)  # softmax and loss: one kernel each way, or two
    yield dense(1, facts.WIDTH, facts.WIDTH)
    yield dense(1, facts.WIDTH, 2)


def _size(shape: Iterable[int]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


#: Workload -> its kernels, and the values of the optimiser's state for each weight.
_COUNTED: Mapping[str, tuple[Callable[[Mapping[str, Any]], Iterable[Kernels]], int]] = {
    "resnet50": (_resnet50, 1),  # momentum
    "bert": (_bert, 2),  # AdamW's moments
}
