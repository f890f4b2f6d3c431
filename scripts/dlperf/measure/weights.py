"""What a rank trained: the weights that it ended with, beside those that it was given.

Read after the window and after the peak memory, tensor by tensor, large tables by rows: neither
model is held whole.
"""

import dataclasses
import hashlib
import math

from dlperf import workloads
from dlperf.contract import ownership
from dlperf.contract.mesh import Mesh
from dlperf.contract.ownership import as_part, part_of
from dlperf.contract.work import Table, parts

#: Values that are compared at a time: a core's cache holds as many.
PART = 1 << 15


def trained(run, initial, weights):
    """A rank's entry of the record's `weights`. `initial`: canonical name -> array at the start.

    sha256: over a line a tensor, in canonical order: name, shape, sha256 of its float32 bytes; of a
    tensor that is divided, those of the rank's part. change: |w - w0| / |w0| over all that the rank
    has. unchanged: how many kernels and matrices are exactly what they were (a vector may be: an
    update that is small beside 1 is rounded away). parts: what the rank has, for `misplaced`.
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
        unchanged += gone == 0 and len(initial.shape(part.name)) > 1
        owned.append(part)
    missing = [each.name for each in workloads.parts_of(run) if each.name not in lines]
    if missing:
        raise ValueError("tensors were not trained: %s" % ", ".join(missing))
    if not math.isfinite(moved):
        raise ValueError("the trained weights are not finite")
    ordered = "".join(lines[name] for name in initial if name in lines)
    return {
        "rank": run.rank,
        "sha256": hashlib.sha256(ordered.encode()).hexdigest(),
        "change": math.sqrt(moved / length),
        "unchanged": int(unchanged),
        "parts": [dataclasses.astuple(each) for each in owned],
    }


def misplaced(case, ranks):
    """Why the ranks' parts do not make one model, or "". Takes `parts` out of their entries.

    case: the Case; ranks: the entries of all ranks, in order, as `trained` made them.
    """
    layout = case.layout
    data = layout.data_parallel(case.devices)
    grid = Mesh(data, layout.tensor_parallel, layout.pipeline_parallel)
    owned = [[part_of(fields) for fields in each.pop("parts")] for each in ranks]
    if not grid.is_split and not layout.zero_stage:
        return ""  # each rank has all of it, as `trained` saw; one may drive several devices
    tensors = workloads.of(case.workload).parameters(case.dimensions)
    there = workloads.stages(case.workload, case.dimensions, grid.pipeline)
    return next(ownership.problems(grid, tensors, there, owned, layout.zero_stage), "")


def compared(array, begin):
    """(sha256 of an array or a Table, |array - begin|^2, |begin|^2)"""
    import numpy as np  # not for the plan

    digest, moved, length = hashlib.sha256(), 0.0, 0.0
    there = parts(array)
    for first, last, before in parts(begin):
        part = next(there)[2] if isinstance(array, Table) else array[first:last]
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
