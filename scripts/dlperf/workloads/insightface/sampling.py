"""Which centres a step of Partial FC samples, where all frameworks take the same ones.

NumPy alone: certificates give these to an implementation, whose timed runs have its framework's own
sampler. An et al. 2021; as arcface_torch's partial_fc_v2.py, in which the sample grows where a rank
has more of the batch's identities than it would take.
"""

import numpy as np

from dlperf.contract.ownership import divided
from dlperf.workloads.insightface import facts

KEYS = 31  # with facts.GIVEN_SAMPLE added, the first number after the seed


def rows_of(dimensions, rank, ranks):
    """(the first of a rank's centres, behind its last one)"""
    part = divided("centres", facts.parameters(dimensions)["centres"], rank, ranks)
    return part.ranges[0] if part.ranges else (0, dimensions["num_classes"])


def sample(dimensions, seed, step, rank, ranks, labels):
    """The centres that a rank of so many samples in a step: canonical numbers, sorted, int64; by
    `facts.GIVEN_SAMPLE` others.

    labels: of the global batch. All of the rank's identities in it are taken, and others by random
    keys until there are `facts.sample_size`.
    """
    first, last = rows_of(dimensions, rank, ranks)
    random = np.random.RandomState([seed, KEYS + facts.GIVEN_SAMPLE, step, rank])
    keys = random.random_sample(last - first)
    positives = np.unique(labels[(labels >= first) & (labels < last)]) - first
    keys[positives] = 2  # above all others
    count = max(facts.sample_size(dimensions, last - first), len(positives))
    chosen = np.argsort(-keys, kind="stable")[:count]
    return first + np.sort(chosen)


def labels(dimensions):
    """The labels of some global batches: one that comes again, of which samples have to differ, and
    one of more identities than a rank samples."""
    random, classes = np.random.RandomState(KEYS), dimensions["num_classes"]
    first = random.randint(0, classes, 16)
    return [first, first, random.randint(0, classes, classes // 2), first]


def problems(dimensions, rank, ranks, labels, samples):
    """What is wrong with the samples of a rank's own sampler, a line each.

    labels: of the global batches of some steps; samples: the canonical numbers that each took.
    """
    first, last = rows_of(dimensions, rank, ranks)
    before = None
    for step, (given, chosen) in enumerate(zip(labels, samples), 1):
        own = given[(given >= first) & (given < last)]
        wanted = max(facts.sample_size(dimensions, last - first), len(np.unique(own)))
        different = np.unique(chosen)
        if len(chosen) != wanted or len(different) != wanted:
            counts = (step, len(chosen), len(different), wanted)
            yield "step %d: %d centres, %d of them different, and not %d" % counts
        if not ((first <= chosen) & (chosen < last)).all():
            yield "step %d: centres of other ranks" % step
        if not np.isin(own, chosen).all():
            yield "step %d: an identity of the batch is missing" % step
        if wanted < last - first and before is not None and np.array_equal(before, different):
            yield "step %d: the centres of the step before" % step
        before = different
