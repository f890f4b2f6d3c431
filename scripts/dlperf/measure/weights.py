"""What a rank trained: the weights that it ended with, beside those that it was given.

Read after the window and after the peak memory, tensor by tensor, large tables by rows: neither
model is held whole.
"""

import hashlib
import math

from dlperf import workloads
from dlperf.contract import ownership
from dlperf.contract.ownership import as_part, part_of
from dlperf.contract.projection import projected
from dlperf.contract.tensor import EMBEDDING
from dlperf.contract.work import side_by_side

#: Values that are compared at a time: a core's cache holds as many.
PART = 1 << 15


def trained(rank, initial, weights, names=None):
    """(a rank's entry of the record's `weights`, the Parts that it has).

    initial: canonical name -> array at the start. names: of the tensors that the rank has to have;
    None: of all.

    sha256: over a line a tensor, in canonical order: name, shape, sha256 of its float32 bytes; of a
    tensor that is divided, those of the rank's part. change: |w - w0| / |w0| over all that the rank
    has. unchanged: how many kernels and matrices are exactly what they were (a vector may be: an
    update that is small beside 1 is rounded away).
    Raises ValueError where tensors are not the workload's, or not finite.
    """
    lines, moved, length, unchanged, owned = {}, 0.0, 0.0, 0, []
    for key, array in weights.read():
        part = as_part(key)
        begin = part.of(initial[part.name]) if part.name in initial else None
        if begin is None or begin.shape != array.shape:
            raise ValueError("%s: %s is none of the trained tensors" % (part.name, array.shape))
        digest, gone, before = compared(array, begin)
        lines[part.name] = "%s %s %s\n" % (part.name, array.shape, digest)
        moved, length = moved + gone, length + before
        unchanged += gone == 0 and len(array.shape) > 1
        owned.append(part)
    missing = [name for name in (initial if names is None else names) if name not in lines]
    if missing:
        raise ValueError("tensors were not trained: %s" % ", ".join(missing))
    if not math.isfinite(moved):
        raise ValueError("the trained weights are not finite")
    ordered = "".join(lines[name] for name in initial if name in lines)
    entry = {
        "rank": rank,
        "sha256": hashlib.sha256(ordered.encode()).hexdigest(),
        "change": math.sqrt(moved / length),
        "unchanged": int(unchanged),
    }
    return entry, owned


def shown(run, initial, weights, signs, losses):
    """A window's losses and, for each tensor, what the rank's part became, by projection.py.

    `tensors`: name -> [axis and ranges of the Part, its sum of squares, its sums with signs, its
    product with what it was].
    `rows`: of each table, how many of the part's rows changed.
    """
    tensors, found, rows = workloads.of(run.workload).parameters(run.dimensions), {}, {}
    for key, array in weights.read():
        part = as_part(key)
        begin = part.of(initial[part.name])
        tensor = tensors[part.name]
        *told, changed = projected(part, tensor.shape, array, begin, signs)
        found[part.name] = [part.axis, part.ranges, *told]
        if tensor.kind == EMBEDDING:
            rows[part.name] = changed
    return {"loss": losses, "signs": signs, "tensors": found, "rows": rows}


def misplaced(case, parts):
    """Why the ranks' parts do not make one model, or "".

    case: the Case. parts: the fields of the Parts of all
    ranks, in order, as JSON has them.
    """
    layout = case.layout
    grid = layout.mesh(len(parts))
    tensors = workloads.of(case.workload).parameters(case.dimensions)
    there = workloads.stages(case.workload, case.dimensions, grid.pipeline)
    owned = [[part_of(fields) for fields in own] for own in parts]
    return next(ownership.problems(grid, tensors, there, owned, layout.zero_stage), "")


def compared(array, begin):
    """(sha256 of an array or a Table, |array - begin|^2, |begin|^2)"""
    import numpy as np  # not for the plan

    digest, moved, length = hashlib.sha256(), 0.0, 0.0
    for part, before in side_by_side(array, begin):
        part = np.ascontiguousarray(part, "float32")
        digest.update(part)
        gone, size = squares(part.reshape(-1), before.reshape(-1))
        moved, length = moved + gone, length + size
    return digest.hexdigest(), moved, length


def squares(array, begin):
    """|array - begin|^2 and |begin|^2. In float64: 0 only where all float32 numbers are equal."""
    moved = length = 0.0
    for first in range(0, array.size, PART):
        before = begin[first : first + PART].astype("float64")
        gone = array[first : first + PART] - before
        moved, length = moved + float(gone @ gone), length + float(before @ before)
    return moved, length
