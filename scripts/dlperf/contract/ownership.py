"""Which part of which tensor a rank has, and whether all ranks together have each tensor once.

A copy of a tensor is what the ranks have together that differ along the axes by which it is
divided: of a tensor that tensor parallelism divides, the tensor group of a stage and a replica; of
a table that replicas divide, all of them. The parts of each copy must tile the tensor: every value
of it stands in one part and in no other.
"""

import dataclasses
from typing import Optional, Tuple

from dlperf.contract import mesh
from dlperf.contract.work import Table

#: A tensor's values in canonical order, as one axis: what ZeRO's stage 3 divides.
FLAT = -1


@dataclasses.dataclass(frozen=True)
class Part:
    """What a rank has of the tensor `name`: all of it, or `ranges` along `axis`.

    ranges: (first, last) pairs, one behind the other in the rank's own array; last is behind the
    end. axis: of the canonical array, FLAT: of its values in order; None: the whole tensor.
    """

    name: str
    axis: Optional[int] = None
    ranges: Tuple[Tuple[int, int], ...] = ()

    @property
    def is_whole(self):
        return self.axis is None

    def shape(self, shape):
        """The shape of the part's own array, of a tensor of this shape."""
        if self.is_whole:
            return tuple(shape)
        length = sum(last - first for first, last in self.ranges)
        if self.axis == FLAT:
            return (length,)
        return (*shape[: self.axis], length, *shape[self.axis + 1 :])

    def of(self, array):
        """The part of a canonical array; of a Table a Table, of which only a block is there."""
        import numpy as np  # not for the plan

        if self.is_whole:
            return array
        if isinstance(array, Table):
            return Table(self.shape(array.shape), lambda: self._of_rows(array))
        if self.axis == FLAT:
            array = np.ravel(array)
        axis = max(self.axis, 0)
        pieces = [_slice(array, axis, first, last) for first, last in self.ranges]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis)

    def _of_rows(self, whole):
        """(first row, last row, those of them) of the part of a Table; of FLAT, values for rows."""
        if self.axis > 0:
            for first, last, rows in whole.parts():
                yield first, last, self.of(rows)
            return
        if list(self.ranges) != sorted(self.ranges):
            raise ValueError("%s: a Table is read in order, not by %s" % (self.name, self.ranges))
        length, start = 1, 0
        for side in whole.shape[1:] if self.axis == FLAT else ():
            length *= side
        for first, last, rows in whole.parts():
            if first * length >= max(last for _, last in self.ranges):
                return  # what comes behind is others', and need not be drawn
            rows = rows.reshape(-1) if self.axis == FLAT else rows
            for own_first, own_last in self.ranges:
                begin, end = max(own_first, first * length), min(own_last, last * length)
                if begin < end:
                    own = rows[begin - first * length : end - first * length]
                    yield start, start + len(own), own
                    start += len(own)

    def put(self, array, own):
        """Write a rank's own array into the canonical one."""
        if self.is_whole:
            array[...] = own
            return
        target = array.reshape(-1) if self.axis == FLAT else array
        axis, start = max(self.axis, 0), 0
        for first, last in self.ranges:
            length = last - first
            _slice(target, axis, first, last)[...] = _slice(own, axis, start, start + length)
            start += length

    def problem(self, shape):
        """Why it is no part of a tensor of this shape, or ""."""
        if self.is_whole:
            return ""
        length = 1
        for side in shape if self.axis == FLAT else shape[self.axis : self.axis + 1]:
            length *= side
        for first, last in self.ranges:
            if not 0 <= first <= last <= length:
                return "%s has no values %d to %d of %d" % (self.name, first, last, length)
        return ""


def _slice(array, axis, first, last):
    return array[(slice(None),) * axis + (slice(first, last),)]


def as_part(key):
    """The Part that `read()` of a rank's weights names: itself, or of a name the whole tensor."""
    return key if isinstance(key, Part) else Part(key)


def part_of(fields):
    """The Part of its fields as JSON has them."""
    name, axis, ranges = fields
    return Part(name, axis, tuple(map(tuple, ranges)))


def divided(name, tensor, index, count):
    """The Part of rank `index` of `count` that a Tensor is divided over; the whole one where
    it has no axis. The last replicas may have less than the others, or nothing. Raises ValueError
    where a tensor group does not divide it.
    """
    if count == 1 or tensor.axis is None:
        return Part(name)
    block = tensor.shape[tensor.axis] // tensor.blocks
    if block % count and tensor.over != mesh.DATA:
        raise ValueError("%s: %d ranks do not divide %d" % (name, count, block))
    own = -(-block // count)
    first, last = (min(block, own * each) for each in (index, index + 1))
    starts = [number * block for number in range(tensor.blocks)]
    return Part(name, tensor.axis, tuple((start + first, start + last) for start in starts))


def is_divided(grid, tensor):
    """Whether a rank of this Mesh has a part of a Tensor alone."""
    return tensor.axis is not None and getattr(grid, tensor.over) > 1


def copies(grid, tensor, stages, zero_stage=0):
    """The groups of ranks each of which together has one copy of a tensor.

    grid: the Mesh. stages: the pipeline stages that have it.
    """
    axes = {tensor.over} if tensor.axis is not None else set()
    if zero_stage == 3:
        axes.add(mesh.DATA)
    found = []
    for group in grid.groups(*sorted(axes)):
        if grid.coordinates(group[0]).pipeline in stages:
            found.append(group)
    return found


def problems(grid, tensors, stages, parts, zero_stage=0):
    """What is wrong with who has what, a line each: none where each copy is tiled once.

    tensors: name -> Tensor. stages: name -> pipeline stages that have it. parts: the Parts of each
    rank, in the order of ranks.
    """
    for rank, own in enumerate(parts):
        there = grid.coordinates(rank).pipeline
        names = [each.name for each in own]
        for name in sorted(set(names)):
            if name not in tensors:
                yield "rank %d: %s is no tensor of the model" % (rank, name)
            elif there not in stages[name]:
                yield "rank %d: %s is not of stage %d" % (rank, name, there)
    for name, tensor in tensors.items():
        for group in copies(grid, tensor, stages[name], zero_stage):
            own = [each for rank in group for each in parts[rank] if each.name == name]
            wrong = next(filter(None, (each.problem(tensor.shape) for each in own)), "")
            wrong = wrong or _untiled(name, tensor.shape, own)
            if wrong:
                yield "ranks %s: %s" % (", ".join(map(str, group)), wrong)


def _untiled(name, shape, own):
    """Why these parts do not tile a tensor of this shape, or ""."""
    if not own:
        return "nobody has %s" % name
    axes = {each.axis for each in own}
    if len(axes) > 1:
        return "%s is divided in more than one way" % name
    if axes == {None}:
        return "" if len(own) == 1 else "%s is there %d times" % (name, len(own))
    axis = axes.pop()
    length = 1
    for side in shape if axis == FLAT else shape[axis : axis + 1]:
        length *= side
    end = 0
    for first, last in sorted(each for part in own for each in part.ranges if each[0] < each[1]):
        if first > end:
            return "nobody has values %d to %d of %s" % (end, first, name)
        if first < end:
            return "values %d to %d of %s are there twice" % (first, min(end, last), name)
        end = last
    return "" if end == length else "nobody has values %d to %d of %s" % (end, length, name)
