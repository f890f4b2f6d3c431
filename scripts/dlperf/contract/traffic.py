"""What kernels of a training step compute and move, by how they are cut.

A workload's facts count its kernels by these (`kernels(dimensions)`), and the roofline adds them
up. Caches are left out: what a kernel writes, the next one reads from memory. Traffic is counted
three times:

    least   only what products (convolutions, dense layers, attention) give is kept: written once
            and read once by the forward pass; read once by the backward pass, and its gradient
            written once and read once. All between two products is done on the way.
    fused   each product is a kernel for its result, one for the gradient of its input and one for
            that of its weights; norm, activation, dropout and sum behind it are one kernel each way
    eager   each of those is a kernel of its own
"""

from typing import NamedTuple

COUNTS = ("least", "fused", "eager")
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

    Of one sample and in elements where facts count it, of a whole step and in bytes in the
    roofline.
    """

    least: float
    fused: float
    eager: float
    flops: float = 0.0

    def times(self, samples: int, width: int) -> "Kernels":
        least, fused, eager = (samples * width * each for each in self[:3])
        return Kernels(least, fused, eager, samples * self.flops)


def product(inputs: float, outputs: float, multiply_adds: float, first: bool = False) -> Kernels:
    """A convolution or dense layer; of the first one nobody asks for the gradient of the input.

    The FLOPs of that gradient count all the same, as in `flops_per_sample`.
    """
    own = 2 * (inputs + outputs) if first else 3 * (inputs + outputs)
    return Kernels(5 * outputs + (2 * inputs if first else 0), own, own, 6 * multiply_adds)


def between(fused: float, eager: float) -> Kernels:
    """What stands between products; the least count has it done on the way."""
    return Kernels(0, fused, eager)
