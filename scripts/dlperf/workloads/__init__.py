"""One folder a workload: facts.py free of frameworks, and one module a framework.

Every implementation has `training(run) -> Work` (measure/run.py), built from functions that stand
in the same order everywhere: model, weights, loss, optimizer, training. What they are held against
is in formulas.py (neutral weights, the optimiser) and reference.py (the model and its loss).
"""

import importlib
import os

NAMES = ("resnet50", "bert")


def facts(workload):
    """Return the facts module of `workload`."""
    return importlib.import_module("dlperf.workloads.%s.facts" % workload)


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
