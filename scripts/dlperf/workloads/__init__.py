"""One folder a workload: facts.py free of frameworks, and one module a framework.

Every implementation has `training(run) -> Work` (measure/run.py), built from functions that stand
in the same order everywhere: model, weights, loss, optimizer, training. What they are held against
is in formulas.py (neutral weights, the optimiser) and reference.py (the model and its loss).
"""

import importlib
import os

NAMES = ("resnet50",)


def facts(workload):
    """Return the facts module of `workload`."""
    return importlib.import_module("dlperf.workloads.%s.facts" % workload)


def implements(workload, framework):
    """Whether `framework` has an implementation of `workload`."""
    folder = os.path.join(os.path.dirname(__file__), workload)
    return os.path.exists(os.path.join(folder, framework + ".py"))


def load(workload, framework):
    """Return the implementation of `workload` in `framework`."""
    return importlib.import_module("dlperf.workloads.%s.%s" % (workload, framework))
