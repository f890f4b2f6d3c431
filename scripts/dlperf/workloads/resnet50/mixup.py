"""Mixed images, of the quality scenario: each image and its label are mixed with another one's.

Zhang et al. 2018, arXiv:1710.09412, as NVIDIA DeepLearningExamples trains ResNet50 v1.5 in MXNet:
c x + (1 - c) x reversed along a rank's batch, with a c for each image from Beta(alpha, alpha), and
the same of labels. The coefficients are drawn on the host, the same for every framework, and a step
gets them on the device as it gets its learning rate: before it, without waiting.
"""

import dataclasses
import itertools

from dlperf.workloads.resnet50 import facts

STREAM = 31  # the first number after the seed: each stream has its own


def is_on(run):
    """Whether a training mixes its images."""
    return run.scenario == "quality" and bool(run.dimensions["mixup"])


def coefficients(seed, part, step, count):
    """Each image's own share in a step of a part of the global batch: float32, (count,)."""
    import numpy as np  # not for the plan

    random = np.random.RandomState([seed, STREAM, part, step])
    return random.beta(facts.MIXUP_ALPHA, facts.MIXUP_ALPHA, count).astype(np.float32)


def each_step(run, work, write):
    """The same Work, whose steps have their coefficients.

    write(array): queues that they are written where the step reads them; it must not wait for the
    device. Like batches, they go on where training begins anew.
    """
    step, coming = work.step, itertools.count()

    def mixed_step():
        write(coefficients(run.seed, run.replica, next(coming), run.batch_size))
        return step()

    work.parity["mixup"] = "Beta(%(a)s, %(a)s), for each image" % {"a": facts.MIXUP_ALPHA}
    return dataclasses.replace(work, step=mixed_step)


class Told:
    """A source of batches for the reference, which has no steps: with each step's coefficients.

    They are drawn when a step takes them: a batch that a model is evaluated with has none.
    """

    def __init__(self, batches, input):
        self._batches = batches
        self._coming = (
            coefficients(input.seed, input.part, step, input.batch_size)
            for step in itertools.count()
        )

    def next(self):
        """(images, labels, an iterator of coefficients)"""
        return (*self._batches.next(), self._coming)

    def __getattr__(self, name):
        return getattr(self._batches, name)
