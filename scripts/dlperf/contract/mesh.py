"""Which ranks work together: model replicas, and the ranks that one replica is split over.

Ranks are numbered as in Megatron-LM: those of a tensor group follow each other, so they share a
node; then come the replicas, then the pipeline's stages.
"""

import dataclasses
from typing import NamedTuple

DATA, TENSOR, PIPELINE = AXES = "data", "tensor", "pipeline"


class Coordinates(NamedTuple):
    """Where a rank is: its replica, its part of each divided tensor, its stage."""

    data: int
    tensor: int
    pipeline: int


@dataclasses.dataclass(frozen=True)
class Mesh:
    """How many replicas there are, and over how many ranks one is split, by tensors and by layers.

    Raises ValueError where a side is not positive.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1

    def __post_init__(self):
        for axis in AXES:
            if getattr(self, axis) < 1:
                raise ValueError("%s is %r: at least 1 is needed" % (axis, getattr(self, axis)))

    @property
    def size(self):
        """All ranks."""
        return self.data * self.tensor * self.pipeline

    @property
    def is_split(self):
        """Whether one rank has not the whole model."""
        return self.tensor * self.pipeline > 1

    def coordinates(self, rank):
        """The Coordinates of a rank."""
        above, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(above, self.data)
        return Coordinates(data, tensor, pipeline)

    def rank(self, data, tensor, pipeline):
        """The rank that has these coordinates."""
        return (pipeline * self.data + data) * self.tensor + tensor

    def group(self, rank, *axes):
        """The ranks that differ from `rank` along these axes alone, `rank` among them, in order."""
        places = [self.coordinates(rank)._asdict()]
        for axis in axes:
            along = range(getattr(self, axis))
            places = [dict(each, **{axis: index}) for each in places for index in along]
        return sorted(self.rank(**each) for each in places)

    def groups(self, *axes):
        """All groups along these axes, each once, in the order of their first ranks."""
        return sorted({tuple(self.group(rank, *axes)) for rank in range(self.size)})
