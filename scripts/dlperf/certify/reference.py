"""Neutral weights from a seed, and the first training steps from them by plain float64 formulas.

    PYTHONPATH=scripts <a Python with PyTorch> -m dlperf.certify.reference --workload resnet50 \\
        --data-dir results/data/sample --out results/certificates/resnet50/reference

Out: manifest.json, weights.npy, and for each number of ranks <ranks>r-first.npy (what the first
step takes from the weights, divided by the learning rate: gradient and decay) and <ranks>r-last.npy
(what all steps together add to them). Arrays are float32, flat, in the order of the facts'
`parameters()`; they are rounded once, after all arithmetic.
"""

import argparse
import importlib
import json
import os
import sys

import numpy as np

from dlperf import files, workloads
from dlperf.certify import BATCH_SIZE, STEPS
from dlperf.data.batches import open_batches
from dlperf.measure.record import file_sha256

SCHEMA = "dlperf.reference/1"
RANKS = (1, 2)
SEED = 1
LONG_STEPS, LONG_SEEDS = 30, (1, 2, 3, 4, 5)
# A power of two: some frameworks keep the rate in float32. No smaller: at 2**-10, five steps from
# these weights amplify a rounding of 1e-10 to 1e-1 (docs/certificates.md).
LEARNING_RATE = 2.0**-7


def neutral(workload):
    """Canonical name -> float32 array, from SEED; the same bytes with every NumPy."""
    module = importlib.import_module("dlperf.workloads.%s.formulas" % workload)
    random = np.random.RandomState(SEED)
    return {
        name: np.asarray(module.initial(name, shape, random), np.float32)
        for name, shape in workloads.facts(workload).parameters().items()
    }


def identity(workload, dimensions, batch_size=BATCH_SIZE):
    """What `open_batches` asks of a case: the certificate's input."""
    return dict(dimensions, workload=workload, batch_size=batch_size, data="sample")


def split(workload, flat):
    """A flat array -> canonical name -> view in canonical shape."""
    views, start = {}, 0
    for name, shape in workloads.facts(workload).parameters().items():
        stop = start + int(np.prod(shape))
        views[name] = flat[start:stop].reshape(shape)
        start = stop
    return views


def flat(arrays):
    return np.concatenate([np.asarray(each).ravel() for each in arrays.values()])


def steps(workload, start, dimensions, data_dir, ranks):
    """Losses, first and last difference of the weights, and digests of the input."""
    import torch

    module = importlib.import_module("dlperf.workloads.%s.reference" % workload)
    formula = importlib.import_module("dlperf.workloads.%s.formulas" % workload)
    settings = {"seed": SEED, "data_dir": data_dir, "warmup_steps": 0, "measured_steps": STEPS}
    asked = dict(identity(workload, dimensions), precision="fp64")
    sources = [open_batches(asked, settings, rank, ranks, "NCHW") for rank in range(ranks)]
    first = weights = {name: torch.from_numpy(each).double() for name, each in start.items()}
    optimizer, losses, after_one = formula.Optimizer(weights), [], None
    for _ in range(STEPS):
        weights = {name: each.detach().requires_grad_() for name, each in weights.items()}
        # every rank by itself (batch-norm statistics too), then the mean over ranks
        value = sum(module.loss(weights, module.tensors(*each.next())) for each in sources) / ranks
        gradients = dict(zip(weights, torch.autograd.grad(value, list(weights.values()))))
        losses.append(value.item())
        with torch.no_grad():
            weights = optimizer.update(weights, gradients, LEARNING_RATE)
        if after_one is None:
            after_one = difference(weights, first) / -LEARNING_RATE
    digests = [each.first_batch_sha256 for each in sources]
    for each in sources:
        each.close()
    return losses, after_one, difference(weights, first), digests


def long_run(workload, start, dimensions, data_dir, seed):
    """The mean loss over LONG_STEPS steps in float32, on the batches of `seed`."""
    import torch

    module = importlib.import_module("dlperf.workloads.%s.reference" % workload)
    formula = importlib.import_module("dlperf.workloads.%s.formulas" % workload)
    settings = {"seed": seed, "data_dir": data_dir, "warmup_steps": 0, "measured_steps": LONG_STEPS}
    source = open_batches(identity(workload, dimensions), settings, layout="NCHW")
    weights = {name: torch.from_numpy(each.copy()) for name, each in start.items()}
    optimizer, losses = formula.Optimizer(weights), []
    for _ in range(LONG_STEPS):
        weights = {name: each.detach().requires_grad_() for name, each in weights.items()}
        value = module.loss(weights, module.tensors(*source.next(), dtype=torch.float32))
        gradients = dict(zip(weights, torch.autograd.grad(value, list(weights.values()))))
        losses.append(value.item())
        with torch.no_grad():
            weights = optimizer.update(weights, gradients, LEARNING_RATE)
    source.close()
    return sum(losses) / len(losses)


def difference(weights, start):
    return flat({name: (weights[name] - start[name]).detach().numpy() for name in start})


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m dlperf.certify.reference")
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    asked = parser.parse_args(arguments)
    if asked.environment:
        run_in(asked)
    os.makedirs(asked.out, exist_ok=True)
    dimensions = workloads.facts(asked.workload).CERTIFICATE_DIMENSIONS
    start = neutral(asked.workload)
    save(asked.out, "weights", flat(start))
    ranks = {}
    for count in RANKS:
        losses, first, last, digests = steps(
            asked.workload, start, dimensions, asked.data_dir, count
        )
        save(asked.out, "%dr-first" % count, first)
        save(asked.out, "%dr-last" % count, last)
        ranks[str(count)] = {"loss": losses, "data_digest": digests}
    seeds = [
        long_run(asked.workload, start, dimensions, asked.data_dir, seed) for seed in LONG_SEEDS
    ]
    names = ["weights"] + [
        "%dr-%s" % (count, when) for count in RANKS for when in ("first", "last")
    ]
    write_manifest(
        asked.out,
        {
            "status": "ok",
            "workload": asked.workload,
            "dimensions": dimensions,
            "batch_size": BATCH_SIZE,
            "steps": STEPS,
            "seed": SEED,
            "learning_rate": LEARNING_RATE,
            "ranks": ranks,
            "long": {"steps": LONG_STEPS, "seeds": LONG_SEEDS, "mean_loss": seeds},
            "sha256": {name: file_sha256(path_of(asked.out, name)) for name in names},
        },
    )


def write_manifest(folder, content):
    text = json.dumps(dict({"schema": SCHEMA}, **content), indent=1) + "\n"
    files.write(os.path.join(folder, "manifest.json"), text)


def run_in(asked):
    """Become the same command under the environment's interpreter."""
    with open(asked.environment) as stream:
        environment = json.load(stream)
    if environment["status"] != "ok":  # the round goes on; its certificates say why they fail
        reason = "no reference without PyTorch's environment: %s" % environment["reason"]
        write_manifest(asked.out, {"status": "failed", "reason": reason})
        sys.exit()
    command = [environment["interpreter"], "-m", "dlperf.certify.reference"]
    for key in ("workload", "data_dir", "out"):
        command += ["--" + key.replace("_", "-"), getattr(asked, key)]
    os.execve(command[0], command, dict(os.environ, **environment["environ"]))


def path_of(folder, name):
    return os.path.join(folder, name + ".npy")


def save(folder, name, array):
    np.save(path_of(folder, name), array.astype(np.float32))


if __name__ == "__main__":
    main()
