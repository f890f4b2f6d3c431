"""Neutral weights from a seed, and the first training steps from them by plain float64 formulas.

    PYTHONPATH=scripts <a Python with PyTorch> -m dlperf.certify.reference --workload resnet50 \\
        --data-dir results/data/sample --out results/certificates/resnet50/reference

Out: manifest.json; weights.npy; optimizer.npy: what given gradients add to the weights; for each
number of parts that a global batch is made of <parts>-gradient.npy and <parts>-first.npy: what a
step takes from the weights, divided by the rate, and <parts>-last.npy: what all steps add. A part
is a micro-step of a model replica: parts of two replicas, or of two micro-steps, are the same.
<parts>-statistics-first.npy and -last.npy: what the first step, and all, add to batch-norm's
running statistics, by each of their conventions and each part. timed.npy and <parts>-timed.npy:
other weights and their gradient, where the step that is timed has its own. Of the variants `infer`
and `…-infer` only weights.npy, statistics.npy (batch-norm's running ones) and outputs.npy, in
float64: those of the first batches.
Arrays are float32, flat, in the order of the facts' `parameters` (or `statistics`), rounded once,
after all arithmetic.

    … -m dlperf.certify.reference --workload resnet50 --data-dir results/data/sample --long-runs

Prints the mean losses of float32 runs on other batches, which stand in the proof's `long_runs`.
"""

import argparse
import hashlib
import itertools
import json
import os
import sys

import numpy as np

from dlperf import workloads
from dlperf.certify import DRAWS, KEPT_MEMORY, LONG_STEPS, SCATTERED, SHARES, STEPS
from dlperf.contract import files
from dlperf.contract.run import Input
from dlperf.contract.tensor import VARIANCE, shapes
from dlperf.contract.work import Rows, as_array
from dlperf.measure import code
from dlperf.workloads import inputs as loaders

SCHEMA = "dlperf.reference/2"
SEED = 1  # of weights and given gradients; that of batches is the proof's
BATCHES = 3  # on which each place of dropout is shown
OUTPUTS = 2  # batches whose outputs are kept
GIVEN_LEARNING_RATE = 1.0  # of the optimiser alone: the rounding of float32 weights does not count
LONG_SEEDS = (1, 2, 3, 4, 5)
#: A rate of dropout: nothing is left but one element in ten million. Not 1, which some refuse.
ALL_DROPPED = 1 - 2.0**-24


def neutral(workload, dimensions, kind="neutral", of="parameters"):
    """Canonical name -> float32 array, from SEED; the same bytes with every NumPy.

    kind: the function of the Proof that draws them. of: that of the facts that names them.
    """
    draw = getattr(workloads.proof(workload), kind)  # a field of the Proof
    random = np.random.RandomState(SEED)
    return {
        name: np.asarray(draw(name, tensor, random), np.float32)
        for name, tensor in getattr(workloads.of(workload), of)(dimensions).items()
    }


def neutral_statistics(workload, dimensions):
    """Batch-norm's running statistics that an inference starts from; {} where there are none."""
    if not workloads.of(workload).statistics:
        return {}
    return neutral(workload, dimensions, "neutral_statistics", "statistics")


def given_gradients(workload, dimensions):
    """Gradients for the optimiser alone: {name: float32 array, or Rows}, a step each, from SEED.

    Of tensors that the facts name as `sparse`, half as many rows as there are, some repeatedly.
    """
    own, module = workloads.of(workload), workloads.proof(workload)
    sparse = own.sparse(dimensions)
    noise = np.random.RandomState(SEED).standard_normal(1 << 16).astype(np.float32)
    for step, scale in enumerate(module.given_scales):
        given = {}
        for index, (name, shape) in enumerate(shapes(own.parameters(dimensions)).items()):
            values = np.float32(scale) * np.roll(noise, 17 * step + index)
            if name in sparse:
                random = np.random.RandomState([SEED, step, index])
                ids = random.randint(0, shape[0], shape[0] // 2).astype(np.int64)
                given[name] = Rows(ids, np.resize(values, (len(ids), *shape[1:])))
            else:
                given[name] = np.resize(values, shape)
        yield given


def whole(given, shape):
    """A given gradient as an array of this shape."""
    if not isinstance(given, Rows):
        return given
    found = np.zeros(shape)
    np.add.at(found, given.ids, given.values)
    return found


def split(tensors, flat):
    """A flat array -> canonical name -> view, of the shapes of these Tensors by name."""
    views, start = {}, 0
    for name, tensor in tensors.items():
        stop = start + tensor.size
        views[name] = flat[start:stop].reshape(tensor.shape)
        start = stop
    return views


class Hashed:
    """A stream that takes the sha256 of what is written to it."""

    def __init__(self, stream):
        self._stream, self.sha256 = stream, hashlib.sha256()

    def write(self, data):
        self.sha256.update(data)
        self._stream.write(data)


def save(path, size, arrays):
    """Write arrays of so many values, one behind the other, as one flat of float32; its sha256.

    One by one: in whole, BERT-Base's would be copied three times on the way.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (size,)}
    with open(path, "wb") as stream:
        hashed = Hashed(stream)
        np.lib.format.write_array_header_1_0(hashed, header)
        for each in arrays:
            hashed.write(np.ascontiguousarray(each, "<f4"))
    return hashed.sha256.hexdigest()


def save_whole(path, array):
    """Write an array as it is; its sha256."""
    with open(path, "wb") as stream:
        hashed = Hashed(stream)
        np.save(hashed, array)
    return hashed.sha256.hexdigest()


class Plain:
    """The workload's own formulas on global batches of one or more parts.

    start: canonical name -> array of the weights. input: of part 0 of `parts` (contract.run.Input).
    accumulation: batches of each part a step.
    """

    def __init__(self, input, start, precision="fp64", accumulation=1):
        import torch

        self.torch, self.accumulation = torch, accumulation
        self.type = torch.float64 if precision == "fp64" else torch.float32
        self.reference, self.dimensions = workloads.reference(input.workload), input.dimensions
        self.weights = {
            name: torch.from_numpy(as_array(each)).to(self.type, copy=True)
            for name, each in start.items()
        }
        loader = loaders.loader(input.workload, input.data)
        self.sources = [
            loader.open_batches(input._replace(part=part), "NCHW") for part in range(input.parts)
        ]
        # of batch-norm, where the model has it: a part's, as each convention has them
        kinds = self.reference.statistics
        self.statistics = [[kind(self.dimensions) for kind in kinds] for _ in self.sources]

    @classmethod
    def of(
        cls, asked, start, parts=1, seed=None, steps=LONG_STEPS, precision="fp64", data="sample"
    ):
        """On the batches that certificates take."""
        proof = workloads.proof(asked.workload)
        input = Input(
            workload=asked.workload,
            data=data,
            data_dir=asked.data_dir,
            batch_size=proof.batch_size,
            dimensions=asked.dimensions,
            seed=proof.seed if seed is None else seed,
            parts=parts,
            batches=steps,
            float64=precision == "fp64",
            held_out=asked.scenario == "quality",
        )
        return cls(input, start, precision)

    def gradients(self):
        """(loss, {name: gradient}) on the next batches: each by itself, then the mean."""
        weights = {name: each.detach().requires_grad_() for name, each in self.weights.items()}
        total, found = 0.0, None
        for source, statistics in zip(self.sources, self.statistics):
            for _ in range(self.accumulation):
                value = self._loss(weights, source.next(), statistics)
                value = value / (len(self.sources) * self.accumulation)
                own = self.torch.autograd.grad(value, list(weights.values()))
                found = own if found is None else [a.add_(b) for a, b in zip(found, own)]
                total += value.item()
        return total, dict(zip(self.weights, found))

    def loss(self):
        """That of the next batch alone."""
        with self.torch.no_grad():
            return self._loss(self.weights, self.sources[0].next(), []).item()

    def _loss(self, weights, batch, statistics):
        batch = self.reference.tensors(*batch, dtype=self.type)
        seen = [statistics] if self.reference.statistics else []
        return self.reference.loss(weights, batch, *seen, self.dimensions)

    def outputs(self, statistics):
        """Those of the next batch by given running statistics, where the model has some."""
        return self.outputs_of(self.sources[0].next(), statistics)

    def outputs_of(self, batch, statistics):
        """Those of this batch, as the loader gives it."""
        return self._outputs(self.reference.outputs, batch, statistics)

    def tested(self, statistics):
        """The same, of a test of the quality scenario."""
        return self._outputs(self._evaluated, self.sources[0].next(), statistics)

    def tests(self):
        """A test of each part's next batch by its running statistics: (conventions, parts, …).

        One convention of a model without running statistics.
        """
        running = [[each.running for each in kinds] or [{}] for kinds in self.statistics]
        batches = [source.next() for source in self.sources]
        return np.stack(
            [
                [self._outputs(self._evaluated, batch, each) for each, batch in zip(kind, batches)]
                for kind in zip(*running)
            ]
        )

    @property
    def _evaluated(self):
        return self.reference.evaluated or self.reference.outputs

    def _outputs(self, outputs, batch, statistics):
        with self.torch.no_grad():
            batch = self.reference.tensors(*batch, dtype=self.type)
            return outputs(self.weights, statistics, batch, self.dimensions).numpy()

    def changes_of_statistics(self):
        """What was added to the running statistics: by convention, part and tensor."""
        for kind in zip(*self.statistics):
            for part in kind:
                yield from (each.numpy() for each in part.changes())

    def close(self):
        for source in self.sources:
            source.close()


def first_steps(asked, start, parts, keep):
    """The first steps in float64: what the manifest says of them.

    Differences are given to `keep`, with the names of their files. gradient: what a step under
    `gradient_settings` takes from the weights, divided by its rate; first: the same of the first
    step as it is; last: what all steps add; statistics: of batch-norm.
    """
    module = workloads.proof(asked.workload)
    plain = Plain.of(asked, start, parts)
    running = sum(each.size for each in statistics_of(asked).values())
    running *= parts * len(plain.statistics[0])

    def keep_statistics(name):
        if running:
            keep("%d-statistics-%s" % (parts, name), plain.changes_of_statistics(), running)

    first = plain.weights
    losses, optimizer = [], None
    for step in range(STEPS[parts]):
        loss, gradients = plain.gradients()
        losses.append(loss)
        if step == 0:
            keep("%d-gradient" % parts, linear_step(asked, first, gradients))
            keep_statistics("first")
            optimizer = module.optimizer(first, asked.dimensions)
        rate = module.learning_rate
        share = SHARES[step] if asked.scenario == "quality" else 1.0
        plain.weights = optimizer.update(plain.weights, gradients, rate * share)
        if step == 0:
            keep("%d-first" % parts, differences(plain.weights, first, -rate))
    keep("%d-last" % parts, differences(plain.weights, first))
    keep_statistics("last")
    again = again_from(asked, plain, first, parts, keep) if asked.scenario == "quality" else None
    digests = [each.first_batch_sha256 for each in plain.sources]
    plain.close()
    own = {"gradient_norm": optimizer.norms, "data_digest": digests}
    return {"loss": losses, "again_loss": again, **own}


def again_from(asked, plain, first, parts, keep):
    """In the quality scenario, behind its steps: a test of the model, and a new start.

    Keeps <parts>-outputs.npy, a test of each part's next batch, and <parts>-again.npy: what the
    first step of a new start takes from the weights, divided by the rate. Returns its loss.
    """
    module = workloads.proof(asked.workload)
    keep("%d-outputs" % parts, plain.tests())
    plain.weights = first
    loss, gradients = plain.gradients()
    rate = module.learning_rate
    new = module.optimizer(first, asked.dimensions).update(first, gradients, rate)
    keep("%d-again" % parts, differences(new, first, -rate))
    return loss


def linear_step(asked, weights, gradients):
    """What a step under `gradient_settings` takes from the weights, divided by its rate."""
    module = workloads.proof(asked.workload)
    with workloads.settings(asked.workload, module.gradient_settings):
        linear = module.optimizer(weights, asked.dimensions)
    rate = module.gradient_learning_rate
    return differences(linear.update(weights, gradients, rate), weights, -rate)


def timed_step(asked, start, parts, keep):
    """The loss of the weights that the timed step starts from; their gradient is kept."""
    plain = Plain.of(asked, start, parts)
    loss, gradients = plain.gradients()
    keep("%d-timed" % parts, linear_step(asked, plain.weights, gradients))
    if any(plain.statistics):
        size = sum(each.size for each in statistics_of(asked).values())
        size *= parts * len(plain.statistics[0])
        keep("%d-statistics-timed" % parts, plain.changes_of_statistics(), size)
    plain.close()
    return loss


def dropped(asked, start):
    """{place of dropout: losses of the first batches where it drops all}"""
    found = {}
    for place in workloads.proof(asked.workload).places(asked.dimensions):
        plain = Plain.of(asked, start)
        with workloads.settings(asked.workload, {place: ALL_DROPPED}):
            found[place] = [plain.loss() for _ in range(BATCHES)]
        plain.close()
    return found


def scattered(asked, start, rates):
    """What chance makes of the loss where dropout has its own rates, on the same few batches.

    Synthetic ones, as those come again. batch: its number, of each of SCATTERED steps. mean,
    deviation: of that batch's losses, by `draws` of the formulas' own, some DRAWS of each batch;
    kurtosis: of all of these, each by its batch's.
    """
    import torch

    if not rates:
        return None
    plain = Plain.of(asked, start, precision="fp32", data="synthetic")
    (source,) = plain.sources
    losses = {number: [] for number in range(source.distinct)}
    torch.manual_seed(SEED)
    with workloads.settings(asked.workload, rates):
        for number in itertools.islice(itertools.cycle(source.order), DRAWS * len(losses)):
            losses[number].append(plain.loss())
    plain.close()
    by_chance = {number: (np.mean(each), np.std(each, ddof=1)) for number, each in losses.items()}
    far = [
        (each - mean) / deviation
        for number, (mean, deviation) in by_chance.items()
        for each in losses[number]
    ]
    steps = [source.order[step % len(source.order)] for step in range(SCATTERED)]
    return {
        "batch": steps,
        "mean": [float(by_chance[number][0]) for number in steps],
        "deviation": [float(by_chance[number][1]) for number in steps],
        "draws": len(far),
        "kurtosis": float(np.mean(np.power(far, 4))),
    }


def statistics_of(asked):
    """Canonical name -> Tensor of batch-norm's running statistics, where the model has some."""
    statistics = workloads.of(asked.workload).statistics
    return statistics(asked.dimensions) if statistics else {}


def optimizer_alone(asked, start):
    """What the given gradients add to the weights, in float64."""
    tensors = workloads.of(asked.workload).parameters(asked.dimensions)
    new = {name: each.astype(np.float64) for name, each in start.items()}
    formula = workloads.proof(asked.workload).optimizer(new, asked.dimensions)
    for given in given_gradients(asked.workload, asked.dimensions):
        given = {name: whole(each, tensors[name].shape) for name, each in given.items()}
        new = formula.update(new, given, GIVEN_LEARNING_RATE)
    return (new[name] - start[name] for name in start)


def long_run(asked, start, seed):
    """The mean loss over LONG_STEPS steps in float32, on the batches of `seed`."""
    plain = Plain.of(asked, start, seed=seed, precision="fp32")
    proof = workloads.proof(asked.workload)
    optimizer = plain.reference.fast_optimizer or proof.optimizer
    optimizer, losses = optimizer(plain.weights, asked.dimensions), []
    for _ in range(LONG_STEPS):
        loss, gradients = plain.gradients()
        losses.append(loss)
        plain.weights = optimizer.update(plain.weights, gradients, proof.learning_rate)
    plain.close()
    return sum(losses) / len(losses)


def differences(weights, start, share=1.0):
    return (((weights[name] - start[name]) / share).numpy() for name in start)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m dlperf.certify.reference")
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--variant", default="", help="such as clip0 or fold1-infer")
    parser.add_argument("--data-dir", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", help="the folder to write")
    what.add_argument("--long-runs", action="store_true", help="print the means of long runs")
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    parser.add_argument("--lock-sha256", default="", help="of the lock that PyTorch comes from")
    asked = parser.parse_args(arguments)
    if asked.environment:
        run_in(asked)
    proof = workloads.proof(asked.workload)
    asked.scenario = workloads.scenario_of(asked.variant)
    asked.dimensions = workloads.certified(asked.workload, asked.variant)
    asked.rates = workloads.dropout_rates(asked.workload, asked.dimensions)
    with workloads.settings(asked.workload, proof.in_certificates):
        if asked.long_runs:
            print_long_runs(asked)
        else:
            os.makedirs(asked.out, exist_ok=True)
            made = make_outputs if asked.scenario == "infer" else make
            write_manifest(asked.out, made(asked, proof))


def make(asked, proof):
    """Write the arrays; return what the manifest says."""
    start, sha256, parts = neutral(asked.workload, asked.dimensions), {}, {}
    size = sum(each.size for each in start.values())

    def keep(name, arrays, size=size):
        if isinstance(arrays, np.ndarray):
            sha256[name] = save_whole(path_of(asked.out, name), arrays)
        else:
            sha256[name] = save(path_of(asked.out, name), size, arrays)

    keep("weights", start.values())
    keep("optimizer", optimizer_alone(asked, start))
    accumulated = "accumulation" in workloads.of(asked.workload).ways
    counts = [count for count in STEPS if count <= 2 or accumulated]
    for count in counts:
        parts[str(count)] = first_steps(asked, start, count, keep)
    if proof.timed:
        timed = neutral(asked.workload, asked.dimensions, "timed")
        keep("timed", timed.values())
        for count in [*counts, proof.timed_ranks]:
            parts.setdefault(str(count), {})["timed_loss"] = timed_step(asked, timed, count, keep)
    if asked.scenario == "quality":  # a test of the second batch, of a model that was not trained
        plain = Plain.of(asked, start)
        plain.sources[0].next()
        ones = plain.torch.ones
        statistics = {
            name: ones(each.shape, dtype=plain.type) * (each.kind == VARIANCE)
            for name, each in statistics_of(asked).items()
        }
        keep("tested", plain.tested(statistics))
        plain.close()
    own = {
        "parts": parts,
        "dropped": dropped(asked, start),
        "scattered": scattered(asked, start, asked.rates),
        "sha256": sha256,
    }
    return {**about(asked, proof), **own}


def make_outputs(asked, proof):
    """The same of an inference: outputs of the first batches, from neutral weights."""
    import torch

    start = neutral(asked.workload, asked.dimensions)
    running = neutral_statistics(asked.workload, asked.dimensions)
    sha256 = {}
    for name, arrays in (("weights", start), ("statistics", running)):
        size = sum(each.size for each in arrays.values())
        sha256[name] = save(path_of(asked.out, name), size, arrays.values())
    plain = Plain.of(asked, start, steps=OUTPUTS)
    statistics = {name: torch.from_numpy(each).double() for name, each in running.items()}
    found = []
    for _ in range(OUTPUTS):
        found.append(plain.outputs(statistics))
    plain.close()
    sha256["outputs"] = save_whole(path_of(asked.out, "outputs"), np.stack(found))
    digest = plain.sources[0].first_batch_sha256
    return {**about(asked, proof), "data_digest": [digest], "sha256": sha256}


def about(asked, proof):
    """What every manifest says first."""
    return {
        "status": "ok",
        "workload": asked.workload,
        "variant": asked.variant,
        "dimensions": dict(asked.dimensions),
        "batch_size": proof.batch_size,
        "seed": proof.seed,
        "provenance": provenance(asked.workload, asked.lock_sha256),
    }


def provenance(workload, lock_sha256):
    """The hashes of what a reference is made with: other code or packages may make another."""
    own = code.sha256(code.of_reference(workload))
    return {"code_sha256": own, "lock_sha256": lock_sha256}


def print_long_runs(asked):
    start = neutral(asked.workload, asked.dimensions)
    for seed in LONG_SEEDS:
        print("%.4f," % long_run(asked, start, seed), flush=True)


def write_manifest(folder, content):
    text = json.dumps(dict({"schema": SCHEMA}, **content), indent=1) + "\n"
    files.write(os.path.join(folder, "manifest.json"), text)


def run_in(asked):
    """Become the same command under the environment's interpreter."""
    with open(asked.environment) as stream:
        environment = json.load(stream)
    if environment["status"] != "ok":  # the round goes on; its certificates say why they fail
        reason = "no reference without PyTorch's environment: %s" % environment["reason"]
        if asked.long_runs:
            sys.exit(reason)
        write_manifest(asked.out, {"status": "failed", "reason": reason, "provenance": {}})
        sys.exit()
    command = [environment["interpreter"], "-m", "dlperf.certify.reference"]
    command.append("--lock-sha256=" + code.applied_lock(environment))
    for key in ("workload", "variant", "data_dir"):
        command.append("--%s=%s" % (key.replace("_", "-"), getattr(asked, key)))
    command.append("--long-runs" if asked.long_runs else "--out=" + asked.out)
    os.execve(command[0], command, dict(os.environ, **KEPT_MEMORY, **environment["environ"]))


def path_of(folder, name):
    return os.path.join(folder, name + ".npy")


if __name__ == "__main__":
    main()
