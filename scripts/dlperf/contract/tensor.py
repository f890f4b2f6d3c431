"""What is known of a trained tensor: its shape, what it is, and how ranks may divide it."""

import dataclasses
from typing import Optional, Tuple

from dlperf.contract.mesh import AXES, TENSOR

#: Kinds. A convolution's kernel is (outputs, inputs, height, width), the weight of a dense layer
#: (outputs, inputs), an embedding (entries, width); a scale is that of a normalization, vectors are
#: biases and shifts. Running means and variances of batch-norm are followed, not trained.
KERNEL, DENSE, EMBEDDING, SCALE, VECTOR = "kernel", "dense", "embedding", "scale", "vector"
MEAN, VARIANCE = "mean", "variance"
KINDS = (KERNEL, DENSE, EMBEDDING, SCALE, VECTOR, MEAN, VARIANCE)

#: An embedding of more rows is read and written by rows, so many at a time.
LARGE_ROWS, ROWS = 1 << 17, 1 << 15


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a model, in canonical layout.

    kind: one of KINDS; decides how a framework lays it out, and whether it is read by rows.
    axis: along which ranks divide it; None: every rank of a replica's stage has all of it. blocks:
    along that axis so many blocks stand one behind the other, each of which is divided: 3 of query,
    key and value in one tensor. over: the axis of the mesh whose ranks divide it: `tensor`; `data`
    where replicas do, who then exchange what they look up, and average no gradients of it.
    """

    shape: Tuple[int, ...]
    kind: str
    axis: Optional[int] = None
    blocks: int = 1
    over: str = TENSOR

    def __post_init__(self):
        if self.over not in AXES:
            raise ValueError("over is %r, but it is one of: %s" % (self.over, ", ".join(AXES)))
        if self.kind not in KINDS:
            raise ValueError("kind is %r, but it is one of: %s" % (self.kind, ", ".join(KINDS)))
        if self.axis is not None and self.shape[self.axis] % self.blocks:
            raise ValueError(
                "%d rows are not %d equal blocks" % (self.shape[self.axis], self.blocks)
            )

    @property
    def size(self):
        """How many values it has."""
        count = 1
        for side in self.shape:
            count *= side
        return count

    @property
    def is_matrix(self):
        """Whether it is a kernel, a dense weight or an embedding, and no vector."""
        return len(self.shape) > 1

    @property
    def is_large(self):
        """Whether it is read and written by rows, and never held whole beside the framework's."""
        return is_large(self.kind, self.shape)


def is_large(kind, shape):
    """Whether a tensor of this kind and shape, or a part of one, is read and written by rows."""
    return kind == EMBEDDING and len(shape) == 2 and shape[0] > LARGE_ROWS


def dense(name, inputs, outputs, axis=None, blocks=1):
    """Names and tensors of a dense layer: `<name>.weight` and `<name>.bias`.

    axis: of the weight; by its outputs (0) the bias is divided too, by its inputs (1) it is not.
    """
    by_outputs = axis == 0
    bias = Tensor((outputs,), VECTOR, 0 if by_outputs else None, blocks if by_outputs else 1)
    return (name + ".weight", Tensor((outputs, inputs), DENSE, axis, blocks)), (
        name + ".bias",
        bias,
    )


def norm(name, width):
    """Names and tensors of a normalization: `<name>.weight` (its scale) and `<name>.bias`."""
    return ((name + ".weight", Tensor((width,), SCALE)), (name + ".bias", vector(width)))


def vector(length):
    return Tensor((length,), VECTOR)


def shapes(tensors):
    """Name -> shape of tensors by name."""
    return {name: each.shape for name, each in tensors.items()}
