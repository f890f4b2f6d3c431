"""One rank of a certificate: the implementation's own training, from given weights, compared.

    python -m dlperf.certify.rank TASK SPEC

SPEC is the Run as JSON, TASK what to do with it (certify/__main__.py writes it). In: the
reference's folder. Out, at `Run.result`: losses, and for each tensor how far its updates are from
the reference's. No judgement: that is the judge's.
"""

import importlib
import json
import os
import resource
import sys
import traceback

import numpy as np

from dlperf import files, frameworks, workloads
from dlperf.certify.reference import path_of, split
from dlperf.measure.meeting import Guest
from dlperf.measure.rank import failure
from dlperf.measure.run import Run


def main(task, spec):
    run = Run.load(spec)
    try:
        with open(task) as stream:
            result = certify(run, json.load(stream))
    except BaseException as error:  # as in measure/rank.py
        traceback.print_exc()
        result = failure(error)
    files.write(run.result, json.dumps(result))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if result["status"] == "ok" else 1)


def certify(run, task):
    """The rank's raw facts. Where the model is another one, `shapes` says so and nothing runs."""
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    facts = workloads.facts(run.workload)
    # the rate is the certificate's; all else is what a measured run has
    facts.learning_rate = lambda global_batch_size: task["learning_rate"]
    framework = frameworks.load(run.framework)
    framework.start(run)
    guest.phase("build")
    implementation = workloads.load(run.workload, run.framework)
    work = implementation.training(run)
    found = {"status": "ok", "parameters": work.parameters, "loss": [], "compared": {}}

    start = work.weights.read()
    found["shapes"] = wrong_shapes(facts.parameters(), start)
    if found["shapes"]:
        return found
    start = load(run, task, "weights")
    work.weights.write(start)

    guest.phase("steps")
    for step in range(1, task["steps"] + 1):
        handle = work.step()
        work.wait()
        found["loss"].append(work.loss(handle))
        if step == 1 and task["compare"]:
            gradient = difference(work.weights.read(), start, -task["learning_rate"])
            found["compared"]["first"] = compare(gradient, load(run, task, "first"))
    if task["steps"] > 1 and task["compare"]:
        update = difference(work.weights.read(), start)
        found["compared"]["last"] = compare(update, load(run, task, "last"))
    found["data_digest"] = work.batches.first_batch_sha256
    found["parity"] = dict(framework.parity(run), **work.parity)
    guest.wait("compared")
    work.batches.close()
    if task["optimizer_steps"]:
        guest.phase("optimizer")
        found["compared"]["optimizer"] = optimizer_alone(run, task, framework, implementation)
    found["host_peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    framework.stop(run)
    return found


def wrong_shapes(expected, found):
    """Tensors that are missing, too many or of another shape: [name, expected, found]."""
    names = list(expected) + [name for name in found if name not in expected]
    there = {name: tuple(found[name].shape) for name in found}
    return [
        [name, expected.get(name), there.get(name)]
        for name in names
        if expected.get(name) != there.get(name)
    ]


def load(run, task, name):
    name = name if name == "weights" else "%dr-%s" % (run.ranks, name)
    return split(run.workload, np.load(path_of(task["reference"], name), mmap_mode="r"))


def difference(weights, start, share=1.0):
    return {name: (weights[name] - start[name].astype(np.float64)) / share for name in start}


def compare(found, expected):
    """Name -> [norm of the difference, norm of what is expected]."""
    return {
        name: [
            float(np.linalg.norm(found[name].astype(np.float64) - expected[name])),
            float(np.linalg.norm(expected[name].astype(np.float64))),
        ]
        for name in expected
    }


def optimizer_alone(run, task, framework, implementation):
    """Given gradients on given weights, no network: compared with the formula in float64."""
    reference = importlib.import_module("dlperf.workloads.%s.formulas" % run.workload)
    start = load(run, task, "weights")
    noise = np.random.RandomState(run.seed).standard_normal(1 << 16).astype(np.float32)

    def gradients(step):
        return {
            name: np.resize(np.roll(noise, 17 * step + index), each.shape)
            for index, (name, each) in enumerate(start.items())
        }

    given = [gradients(step) for step in range(task["optimizer_steps"])]
    new = framework.optimize(run, implementation, start, given)
    expected = {name: each.astype(np.float64) for name, each in start.items()}
    formula = reference.Optimizer(expected)
    for each in given:
        expected = formula.update(expected, each, task["learning_rate"])
    return compare(difference(new, start), difference(expected, start))


if __name__ == "__main__":
    main(*sys.argv[1:])
