"""One folder a workload: facts.py free of frameworks, and one module a framework.

Every implementation has `training(run) -> Work` (contract/run.py), built from functions that stand
in the same order everywhere: model, weights, loss, optimizer, training. What they are held against
is in formulas.py (neutral weights, the optimiser) and reference.py (the model and its loss).
"""

import collections.abc
import functools
import importlib
import os

from dlperf.data.formats import OF_FRAMEWORK

NAMES = ("resnet50", "bert")


def facts(workload):
    """Return the facts module of `workload`."""
    return importlib.import_module("dlperf.workloads.%s.facts" % workload)


def data_set(workload, data, framework, dimensions):
    """The folder under results/data of a kind of data; '' where that is synthetic."""
    folder = facts(workload).DATA_SETS.get(data, "")
    return folder.format(format=OF_FRAMEWORK.get(framework, ""), **dimensions)


def reads(workload, data, framework):
    """Whether `framework` reads a kind of data: of what is in its own format, it needs a reader."""
    own_format = "{format}" in facts(workload).DATA_SETS.get(data, "")
    return framework in OF_FRAMEWORK or not own_format


class Initial(collections.abc.Mapping):
    """What every framework's training starts with: canonical name -> float32 array, from a seed.

    A tensor is drawn when it is asked for: all of them at once would count in the peak memory.
    """

    def __init__(self, workload, seed):
        self._facts, self._seed = facts(workload), seed
        self._shapes = self._facts.parameters()

    def __getitem__(self, name):
        import numpy as np  # not for the plan

        random = np.random.default_rng([self._seed, list(self._shapes).index(name)])
        shape = self._shapes[name]
        value = self._facts.initial(name, shape, functools.partial(normal, random))
        return value if np.ndim(value) else np.full(shape, value, "float32")

    def __iter__(self):
        return iter(self._shapes)

    def __len__(self):
        return len(self._shapes)


def normal(random, shape, deviation):
    """A float32 array of normal numbers, by a NumPy Generator.

    Each is one of 65,536 that are drawn first, half of them the others' negatives. To draw each
    anew takes three times as long: a second of every repetition that starts with 110 million.
    """
    import numpy as np

    # in float64: rounded to float32, the last digits in which NumPy's versions differ are gone
    half = deviation * random.standard_normal(1 << 15)
    numbers = np.concatenate([half, -half]).astype("float32")
    array = np.empty(shape, "float32")
    flat = array.reshape(-1)
    for start in range(0, flat.size, 1 << 15):  # a core's cache holds as many
        part = flat[start : start + (1 << 15)]
        numbers.take(random.integers(0, 1 << 16, part.size, "uint16"), out=part, mode="wrap")
    return array


def spelled(workload, dimensions, left_out=()):
    """['seq512', 'clip0']: the values of a case's own dimensions that are not the standard ones."""
    return [
        "%s%d" % (dimension.key, dimensions[name])
        for name, dimension in facts(workload).DIMENSIONS.items()
        if name not in left_out and dimensions[name] != dimension.standard
    ]


def variant(workload, dimensions):
    """'' or 'clip0': what a certificate of equal work is of, beside the workload's standard form.

    Sizes are reduced in every certificate (CERTIFICATE_DIMENSIONS), so they make no variant.
    """
    return "-".join(spelled(workload, dimensions, facts(workload).CERTIFICATE_DIMENSIONS))


def implements(workload, framework):
    """Whether `framework` has an implementation of `workload`."""
    folder = os.path.join(os.path.dirname(__file__), workload)
    return os.path.exists(os.path.join(folder, framework + ".py"))


def load(workload, framework):
    """Return the implementation of `workload` in `framework`."""
    return importlib.import_module("dlperf.workloads.%s.%s" % (workload, framework))
