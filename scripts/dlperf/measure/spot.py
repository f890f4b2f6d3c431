"""What all ranks of a spot run became, put together: what its replay is held beside.

A spot run is a repetition whose numbers are not used (contract/draws.py). Its document has the
identity and settings of the case, `drawn` (the seed of batches, and each window's of weights and
steps), and for each window `loss` (a mean over ranks for each step), `signs` (the seed of the
projections, drawn behind the window) and `tensors`: name -> each copy of it that differs from the
first, as [norm of its change, its projections, its product with the starting weights]; of tables
also `rows`: name -> of each copy how many rows changed. Where a framework's own reader gave the
batches, they are there too, for each rank (given.py). Of an inference it has, for its one window,
`signs` and for each rank the `answers` that they name (answers.py).
"""

import math

from dlperf import workloads
from dlperf.contract import ownership
from dlperf.contract.tensor import EMBEDDING
from dlperf.scenarios import train

SCHEMA = "dlperf.spot/1"


def of_all_ranks(case, ranks):
    """A window's document, of what each rank's weights.shown says."""
    layout, first = case.layout, ranks[0]
    grid = layout.mesh(len(ranks))
    stages = workloads.stages(case.workload, case.dimensions, grid.pipeline)
    tensors, rows = {}, {}
    for name, tensor in workloads.of(case.workload).parameters(case.dimensions).items():
        groups = ownership.copies(grid, tensor, stages[name], layout.zero_stage)
        copies = [_together([ranks[rank]["tensors"][name] for rank in group]) for group in groups]
        tensors[name] = [each for place, each in enumerate(copies) if each not in copies[:place]]
        if tensor.kind == EMBEDDING:
            rows[name] = [
                sum(ranks[rank]["rows"].get(name, 0) for rank in group) for group in groups
            ]
    losses = train.mean_losses(ranks)
    found = {"loss": losses, "signs": first["signs"], "tensors": tensors, "rows": rows}
    return dict(found, batches=[each["batches"] for each in ranks]) if "batches" in first else found


def answers_of_all_ranks(case, ranks):
    """An inference's window, of what each rank's answers.shown says."""
    return {"signs": ranks[0]["signs"], "answers": [each["answers"] for each in ranks]}


def _together(parts):
    """[norm, projections, product with the starting weights] of a copy whose parts these are."""
    squares, along = (math.fsum(each[place] for each in parts) for place in (2, 4))
    sums = [math.fsum(each) for each in zip(*(each[3] for each in parts))]
    return [math.sqrt(squares), sums, along]
