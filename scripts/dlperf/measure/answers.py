"""Answers of an inference, in a few numbers that can be compared with the reference's.

In: a window's outputs, and a number that is drawn behind it. Out: of one answer that this number
names, for each sample the norm of its outputs and their projections (contract/projection.py), by
signs that come of that number. Nobody knows before which answer that will be.
"""

import random

from dlperf.contract.projection import summary


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
