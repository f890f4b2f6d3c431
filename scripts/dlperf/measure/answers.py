"""Answers of an inference, in a few numbers that can be compared with the reference's.

In: a window's outputs, and a number that is drawn behind it. Out: of one answer that this number
names, for each sample the norm of its outputs and their projections (contract/projection.py), by
signs that come of that number. Nobody knows before which answer that will be.
"""

import math
import random

from dlperf.contract.ownership import Part
from dlperf.contract.projection import projected


def shown(signs, kept):
    """What a rank tells of a window. kept: by how they were asked for, pairs of a batch's number
    and its outputs."""
    answers = {}
    for name, pairs in kept.items():
        number, outputs = pairs[place(signs, name, len(pairs))]
        answers[name] = dict(summary(outputs, signs), number=number)
    return {"signs": signs, "answers": answers}


def place(signs, name, count):
    """Which of so many answers of a kind is shown."""
    return random.Random("%d %s" % (signs, name)).randrange(count)


def summary(outputs, signs):
    """{shape, samples: [[norm, projections] of each sample's outputs]}.

    Where a sample has a single one, of all together: a logit may be next to 0.
    """
    import numpy as np  # not for the plan

    rows = outputs.reshape(len(outputs) if outputs.ndim > 1 else 1, -1)
    nothing, samples = np.zeros(rows.shape[1]), []
    for number, row in enumerate(rows):
        part = Part("sample %d" % number)
        squares, sums = projected(part, row.shape, row, nothing, signs)
        samples.append([math.sqrt(squares), sums])
    return {"shape": list(outputs.shape), "samples": samples}
