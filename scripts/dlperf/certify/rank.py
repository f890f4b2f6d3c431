"""One rank of a certificate: the implementation's own training, from given weights, compared.

    python -m dlperf.certify.rank TASK SPEC

SPEC is the Run as JSON, TASK what to do with it (certify/__main__.py writes it). In: the
reference's folder. Out, at `Run.result`: losses, and for each tensor how far its updates are from
the reference's. No judgement: that is the judge's.
"""

import dataclasses
import gc
import json
import os
import resource
import sys
import traceback

import numpy as np

from dlperf import frameworks, workloads
from dlperf.certify import SCATTERED, SHARES
from dlperf.certify.reference import (
    ALL_DROPPED,
    BATCHES,
    GIVEN_LEARNING_RATE,
    given_gradients,
    path_of,
    split,
)
from dlperf.contract import files
from dlperf.contract.ownership import as_part
from dlperf.contract.run import Run
from dlperf.contract.tensor import shapes as tensor_shapes
from dlperf.measure.meeting import Guest
from dlperf.measure.rank import failure

# Values that are compared at a time: they fit a core's cache, and BLAS starts no threads for so few
# (those would wait for cores on which other certificates run).
PART = 1 << 13


class OtherModel(Exception):
    """Weights of other names or shapes than the facts': `shapes`, as `wrong_shapes` gives them."""

    def __init__(self, shapes):
        super().__init__("other names or shapes than the facts': %s" % shapes)
        self.shapes = shapes

    def found(self):
        """What a rank leaves of it."""
        return {"status": "ok", "shapes": self.shapes, "loss": [], "compared": {}}


def main(task, spec):
    # at another scale the gradient of the only step overflows float16, and the step is left out
    run = dataclasses.replace(Run.load(spec), loss_scale=1.0)
    try:
        with open(task, encoding="utf-8") as stream:
            result = certify(run, json.load(stream))
    except BaseException as error:  # as in measure/rank.py
        traceback.print_exc()
        result = failure(error)
    files.write(run.result, json.dumps(result))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if result["status"] == "ok" else 1)


def certify(run, task):
    """The rank's raw facts. Where the model is another one, `shapes` says so and no more runs."""
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    framework = frameworks.load(run.framework)
    framework.start(run)
    guest.phase("build")
    implementation = workloads.load(run.workload, run.framework)
    proof = workloads.proof(run.workload)
    rates = workloads.dropout_rates(run.workload, run.dimensions)
    if task["kind"] == "outputs":
        try:
            found = infer(run, task, guest, framework, implementation)
        except OtherModel as error:
            found = error.found()
        framework.stop(run)
        return found
    changes = dict(proof.in_certificates)
    changes["learning_rate"] = lambda global_batch_size: proof.learning_rate
    if run.scenario == "quality":
        facts = workloads.facts(run.workload)
        changes["schedule"] = lambda run: [
            share * facts.learning_rate(run.global_batch_size) for share in SHARES
        ]
    with workloads.settings(run.workload, changes):
        try:
            found = compared(run, dict(task, rates=rates), guest, framework, implementation)
        except OtherModel as error:
            found = error.found()
    found["host_peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    framework.stop(run)
    return found


def compared(run, task, guest, framework, implementation):
    """The training of `task`, and what else it asks for: `neutral`, `dropout`, `sampler`,
    `optimizer`."""
    proof, linear = workloads.proof(run.workload), {}
    own = task["kind"] == "gradient" and bool(proof.timed)  # weights of the timed step
    if task["kind"] == "gradient":
        linear.update(proof.gradient_settings)
        linear["learning_rate"] = lambda global_batch_size: proof.gradient_learning_rate
    with workloads.settings(run.workload, linear):
        found = train(run, dict(task, own=own), guest, framework, implementation)
        if own and task["neutral"]:
            gc.collect()
            neutral = train(run, dict(task, own=False), guest, framework, implementation)
            found["neutral_loss"] = neutral["loss"]
            found["compared"]["neutral"] = neutral["compared"]["gradient"]
    if task["dropout"]:
        found["dropped"] = {
            place: dropped(run, task, guest, implementation, place)
            for place in proof.places(run.dimensions)
        }
        if task["rates"]:
            found["scattered"] = scattered(run, task, guest, implementation)
    if task["sampler"]:
        labels = list(proof.sampled_labels(run.dimensions))
        sample = implementation.sampler(run)
        taken = [sample(each) for each in labels]
        found["sampler"] = list(
            proof.sample_problems(run.dimensions, run.rank, run.ranks, labels, taken)
        )
    if task["optimizer"]:
        guest.phase("optimizer")
        gc.collect()  # the model that was trained: its memory serves for the next one
        with workloads.settings(run.workload, {"learning_rate": lambda size: GIVEN_LEARNING_RATE}):
            alone = optimizer_alone(run, task, implementation)
        found["compared"]["optimizer"] = alone
    return found


def train(run, task, guest, framework, implementation):
    """Its own training from the reference's weights, compared with what the reference has."""
    rate = workloads.facts(run.workload).learning_rate(run.global_batch_size)
    work = implementation.training(run)
    found = {"status": "ok", "shapes": [], "loss": [], "compared": {}}
    start = load(run, task, "timed" if task["own"] else "weights")
    write(work, start, shapes_of(run))

    guest.phase("steps")
    found["loss"] += queued(run, work, 1)
    first = {"gradient": "gradient", "steps": "first"}.get(task["kind"])
    if first:
        name = "timed" if task["own"] else first
        found["compared"][first] = compare(work.weights.read(), start, run, task, name, -rate)
        if task["kind"] == "gradient":
            compare_statistics(run, task, work, found, "timed" if task["own"] else "first")
    found["loss"] += queued(run, work, task["steps"] - 1)
    if task["kind"] == "steps":
        found["compared"]["last"] = compare(work.weights.read(), start, run, task, "last")
        compare_statistics(run, task, work, found, "last")
    if run.scenario == "quality":
        test_and_restart(run, task, work, found, load(run, task, "weights"))
    found["loss"] = found["loss"] or None
    found["data_digest"] = work.batches.first_batch_sha256
    found["parity"] = dict(framework.parity(run), **work.parity)
    guest.wait("compared")
    work.batches.close()
    return found


def test_and_restart(run, task, work, found, start):
    """A test of the model behind its steps, and the first step of a new start.

    Behind the step that is timed, in place of both: a test of the model after a new start.
    """
    parts = run.data_parallel * run.accumulation
    if task["kind"] == "gradient":
        # of one part: the reference has the test of its batch alone
        if parts == 1 and (task["own"] or not workloads.proof(run.workload).timed):
            expected = np.load(path_of(task["reference"], "tested"))
            work.restart(start)
            outputs = work.evaluate(*next_asked(run, work))
            found["tested"] = distance(outputs, expected)
        return
    expected = np.load(path_of(task["reference"], "%d-outputs" % parts))[:, run.replica]
    outputs = work.evaluate(*next_asked(run, work))
    found["tested"] = min(distance(outputs, each) for each in expected)
    for _ in range(run.accumulation - 1):  # the batches of the other micro-steps, as the reference
        work.batches.next()
    work.restart(start)
    handle = work.step()
    work.wait()
    found["again_loss"] = work.loss(handle)
    rate = workloads.facts(run.workload).learning_rate(run.global_batch_size)
    found["compared"]["again"] = compare(work.weights.read(), start, run, task, "again", -rate)


def next_asked(run, work):
    """The next batch as the quality scenario asks a model: without its answers."""
    return workloads.asked(run.workload, work.batches.next(), apart=True)


def infer(run, task, guest, framework, implementation):
    """How far outputs are from the reference's: queued, answered one by one, in another order."""
    own, size = workloads.of(run.workload), run.batch_size
    work, built = implementation.inference(run), workloads.built(run.workload, run.dimensions)
    write(work, load(run, task, "weights"), tensor_shapes(built))
    if own.statistics:
        shapes = own.statistics(run.dimensions)
        flat = np.load(path_of(task["reference"], "statistics"))
        work.weights.write_statistics(split(shapes, flat))
    if own.built:  # outputs do not show what is folded: the network's tensors do
        wrong = wrong_shapes(
            tensor_shapes(built), {name: each.shape for name, each in work.weights.read()}
        )
        if wrong:
            raise OtherModel(wrong)
    guest.phase("outputs")
    expected = np.load(path_of(task["reference"], "outputs"))
    handle = work.step()
    work.wait()
    queued = work.outputs(handle)
    batch = work.batches.next()  # the second one
    answered = work.answer(*batch)
    order = np.arange(size)[::-1]
    permuted = work.answer(*(np.ascontiguousarray(each[order]) for each in batch))
    alone = work.answer(*(np.ascontiguousarray(np.repeat(each[:1], size, 0)) for each in batch))
    work.batches.close()
    pairs = [(queued, expected[0]), (answered, expected[1])]
    return {
        "status": "ok",
        "shapes": shape_problems(pairs),
        "data_digest": work.batches.first_batch_sha256,
        "distance": max(distance(*pair) for pair in pairs),
        "permuted": distance(permuted, expected[1][order]),
        "alone": distance(alone, np.repeat(expected[1][:1], size, 0)),
        "flipped": [margin for pair in pairs for margin in flipped(*pair)],
        "parity": dict(framework.parity(run), **work.parity),
        "loss": [],
        "compared": {},
    }


def shape_problems(pairs):
    return [
        ["outputs", list(wanted.shape), list(found.shape)]
        for found, wanted in pairs
        if found.shape != wanted.shape
    ]


def flipped(found, wanted):
    """The margins of samples whose largest output is another one than expected.

    A margin is what lies between the two largest outputs of the reference, over their norm.
    """
    if found.shape != wanted.shape or wanted.ndim != 2:
        return
    for own, other in zip(found, wanted):
        if own.argmax() != other.argmax():
            second, first = np.sort(other)[-2:]
            yield float((first - second) / np.linalg.norm(other))


def distance(found, wanted):
    """The largest relative distance of a sample's outputs; infinite where shapes differ.

    Where a sample has a single one, that of all together: a logit may be next to 0.
    """
    if found.shape != wanted.shape:
        return float("inf")
    flat = (len(wanted) if wanted.ndim > 1 else 1, -1)
    gone = (found.astype(np.float64) - wanted).reshape(flat)
    return float(
        (np.linalg.norm(gone, axis=1) / np.linalg.norm(wanted.reshape(flat), axis=1)).max()
    )


def dropped(run, task, guest, implementation, place):
    """The losses of the first batches where one place of dropout drops all, the others nothing.

    Wherever the model has such a place, it shows: what would come through is missing.
    """
    guest.phase("dropout")
    return unmoved(run, task, implementation, {place: ALL_DROPPED}, BATCHES)


def scattered(run, task, guest, implementation):
    """The losses of the same few synthetic batches over and over, where dropout has its own rates.

    Nothing but its random numbers tells them apart: what these are like, shows.
    """
    guest.phase("scattered")
    run = dataclasses.replace(run, data="synthetic")
    return unmoved(run, task, implementation, task["rates"], SCATTERED)


def queued(run, work, steps):
    """The losses of steps that are queued as in a timed window, and waited for once.

    [] of a rank that has none: of a model split by layers, the last stage alone has them.
    """
    if frameworks.of(run.framework).counted:  # it keeps the last loss alone
        return [each for _ in range(steps) for each in taken(work, 1)]
    return taken(work, steps)


def taken(work, steps):
    handles = [work.step() for _ in range(steps)]
    work.wait()
    values = [work.loss(each) for each in handles] if work.loss else []
    return [each for each in values if each is not None]


def unmoved(run, task, implementation, changes, steps):
    """The losses of steps that move no weight, with these constants in the facts."""
    gc.collect()
    changes = {**changes, "learning_rate": lambda global_batch_size: 0.0}
    with workloads.settings(run.workload, changes):
        work = implementation.training(run)
        write(work, load(run, task, "weights"), shapes_of(run))
        losses = queued(run, work, steps)
    work.batches.close()
    return losses


def compare_statistics(run, task, work, found, name):
    """How far batch-norm's running statistics have gone, beside the reference's.

    Some keep the variance with a factor of n / (n - 1): the nearer one of both counts.
    """
    shapes = workloads.of(run.workload).statistics
    if shapes is None:
        return
    shapes, parts = shapes(run.dimensions), run.data_parallel * run.accumulation
    path = path_of(task["reference"], "%d-statistics-%s" % (parts, name))
    kept = np.load(path).astype(np.float64)
    conventions = [split(shapes, each[run.replica]) for each in kept.reshape(2, parts, -1)]
    there, compared, starts = dict(work.weights.statistics()), {}, workloads.running_at_start(run)
    wrong = wrong_shapes(
        tensor_shapes(shapes), {tensor: each.shape for tensor, each in there.items()}
    )
    if wrong:
        raise OtherModel(wrong)
    for tensor in shapes:
        gone = there[tensor].astype(np.float64) - starts[tensor]
        pairs = []
        for each in conventions:
            wanted = each[tensor]
            pairs.append([np.linalg.norm(gone - wanted), np.linalg.norm(wanted)])
        compared[tensor] = min(pairs)
    found["compared"]["statistics"] = compared


def write(work, start, expected):
    """Write the weights; raises OtherModel where that fails for their shapes."""
    try:
        work.weights.write(start)
    except Exception as error:
        try:
            there = {as_part(key).name: each.shape for key, each in work.weights.read()}
        except Exception:  # some have none to read yet
            raise error from None
        wrong = wrong_shapes(expected, there)
        if wrong:
            raise OtherModel(wrong) from None
        raise


def wrong_shapes(expected, found):
    """Tensors that are missing, too many or of another shape: [name, expected, found]."""
    names = list(expected) + [name for name in found if name not in expected]
    return [
        [name, expected.get(name), found.get(name)]
        for name in names
        if expected.get(name) != found.get(name)
    ]


def tensors_of(run):
    return workloads.of(run.workload).parameters(run.dimensions)


def shapes_of(run):
    """Name -> shape of the rank's own part of each tensor that it should have."""
    tensors = tensors_of(run)
    return {each.name: each.shape(tensors[each.name].shape) for each in workloads.parts_of(run)}


def load(run, task, name):
    return split(tensors_of(run), np.load(path_of(task["reference"], name), mmap_mode="r"))


def compare(weights, start, run, task, name, share=1.0):
    """How far (weights - start) / share is from the reference's, tensor by tensor.

    weights: pairs of name or Part, and array. Returns {name: [norm of the difference, norm of what
    is expected, axis, ranges]} of the rank's parts, in the reference's order; axis and ranges are
    those of the Part. Raises OtherModel where names or shapes are not the facts'.
    """
    parts = run.data_parallel * run.accumulation
    kept = name if name == "optimizer" else "%d-%s" % (parts, name)
    expected, shapes, found = load(run, task, kept), {}, {}
    for key, ours in weights:
        part = as_part(key)
        tensor = part.name
        shapes[tensor] = ours.shape
        theirs = expected.get(tensor)
        if theirs is None or part.problem(theirs.shape) or part.shape(theirs.shape) != ours.shape:
            continue
        pairs = [np.ravel(each) for each in (ours, part.of(start[tensor]), part.of(theirs))]
        squares = np.zeros(2)
        for begin in range(0, ours.size, PART):
            mine, before, wanted = (each[begin : begin + PART].astype(np.float64) for each in pairs)
            mine -= before
            mine /= share
            mine -= wanted
            squares += mine @ mine, wanted @ wanted
        found[tensor] = [*np.sqrt(squares).tolist(), part.axis, part.ranges]
    wanted = shapes if run.layout.zero_stage == 3 else shapes_of(run)  # __main__.py sees the tiling
    wrong = wrong_shapes(wanted, shapes)
    if wrong:
        raise OtherModel(wrong)
    return {tensor: found[tensor] for tensor in expected if tensor in found}


def optimizer_alone(run, task, implementation):
    """Given gradients on given weights, no network."""
    start = load(run, task, "weights")
    given = given_gradients(run.workload, run.dimensions)
    optimize = frameworks.load_training(run.framework).optimize
    new = optimize(run, implementation, start, given)
    return compare(new, start, run, task, "optimizer")


if __name__ == "__main__":
    main(*sys.argv[1:])
