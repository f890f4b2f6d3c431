"""The answers of a trained model, computed again by the workload's plain formulas.

    PYTHONPATH=scripts python -m dlperf.certify.evaluated \\
        --environment results/environments/pytorch.cpu/env.json \\
        --weights results/.weights/results/<round>/runs/<workload>/<framework>/<case>/rep1.json \\
        --out results/<round>/checks/<workload>/<framework>/<case>.rep1.json \\
        results/<round>/runs/<workload>/<framework>/<case>/rep1.json

In: a record of the quality scenario, which names one batch of the last test, and one of the test
that first met the target, as of scenarios/evaluated.py; the weights behind these tests; and the
data, of which the batches are read anew. Out: of each test the sha256 of these weights, and what
each rank's outputs are in float64. The weights are removed then. No judgement: that is the
analysis's.
"""

import argparse
import hashlib
import json
import math
import os
import random
import shutil
import time

import numpy as np

from dlperf import workloads
from dlperf.certify.formulas import Unavailable, run_in
from dlperf.certify.reference import provenance
from dlperf.contract import files, strict_json
from dlperf.contract.run import Input
from dlperf.contract.tensor import shapes
from dlperf.loaders import DataError
from dlperf.loaders.photos import Photos
from dlperf.measure import bounds
from dlperf.scenarios import evaluated
from dlperf.workloads import drawn, inputs
from dlperf.workloads.cases import case_of

SCHEMA = "dlperf.evaluated/1"
MODULE = "dlperf.certify.evaluated"
#: So many samples are answered once more, by other random numbers. In float64 they are the same,
#: whatever their batch, where the model draws none.
AGAIN, SAME = 16, 1e-9


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m " + MODULE)
    parser.add_argument("record", help="a record of the quality scenario")
    parser.add_argument("--weights", required=True, help="the folder that its ranks wrote")
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    parser.add_argument("--lock-sha256", default="", help="of the lock that PyTorch comes from")
    parser.add_argument("--out", required=True)
    parser.add_argument(
        "--seconds", type=float, help="replay as many samples as take no longer, about; else all"
    )
    asked = parser.parse_args(arguments)
    if asked.environment:
        run_in(asked, arguments, MODULE, SCHEMA)
    document = replay(asked)
    files.write(asked.out, json.dumps(document) + "\n")
    shutil.rmtree(asked.weights, ignore_errors=True)
    reason = document["reason"] and ": " + document["reason"]
    print("%s: %s%s" % (asked.out, document["status"], reason))


def replay(asked):
    """The document of a record."""
    started = time.time()
    with open(asked.record, "rb") as stream:
        content = stream.read()
    record = strict_json.parse(content)
    workload = record["identity"]["workload"]
    document = {"schema": SCHEMA, "status": "ok", "reason": "", "answers": []}
    document["record_sha256"] = hashlib.sha256(content).hexdigest()
    document["provenance"] = provenance(workload, asked.lock_sha256)
    try:
        document.update(replayed(record, asked.weights, asked.seconds))
    except (Unavailable, DataError, OSError) as reason:  # such as data that are gone
        document.update(status="unavailable", reason=str(reason))
    document["provenance"]["seconds"] = round(time.time() - started, 1)
    return document


def replayed(record, folder, seconds=None):
    """`answers`, by rank, and `weights_sha256` of the last test; of each rank as many samples as
    `seconds` allow, whose places are `replayed`. `at_target`: the same of the test that first met
    the target, where the record names one of its batches; both have the time then."""
    if record["status"] != "ok":
        raise Unavailable("the repetition did not end well")
    if not record.get("evaluated"):
        raise Unavailable("the record names no batch of its last test")
    if not record.get("at_target"):
        return replay_of_test(record, record["evaluated"], folder, seconds)
    seconds = seconds and seconds / 2
    found = replay_of_test(record, record["evaluated"], folder, seconds)
    folder = os.path.join(folder, evaluated.TARGET)
    found["at_target"] = replay_of_test(record, record["at_target"], folder, seconds)
    return found


def replay_of_test(record, shown, folder, seconds):
    """`answers` and `weights_sha256` of one test, of which the record has `shown`."""
    case = case_of(record["identity"])
    weights, statistics = kept(case, folder, len(shown))
    sha256 = sha256_of(case, weights)
    weights, found = in_float64(weights), []
    for asked, running in zip(shown, statistics):
        if "batch" not in asked:  # another rank tests everything
            found.append(None)
            continue
        batch, own = test_of(case, record["settings"]["data_dir"], asked["rank"], asked["batch"])
        if evaluated.sha256_of(batch) != asked["sha256"]:
            raise Unavailable("batch %(batch)d of rank %(rank)d is another one here" % asked)
        count = own if seconds is None else min(own, bounds.samples(case, seconds))
        rows = drawn_rows(asked, own, count)
        batch = [each[rows] for each in batch]
        chance = {}
        if "drawn" in asked:
            answers, chance = outputs_as_drawn(case, weights, running, batch, asked["drawn"], rows)
        else:
            answers = outputs_of(case, weights, running, batch)
        outputs = np.zeros((own, *answers[0].shape[1:]))
        outputs[rows], decided = answers
        summary = {**evaluated.summary_of(outputs, asked["signs"]), **chance}
        together = len(summary["samples"]) < own
        summary["replayed"] = [0] if together else rows[decided].tolist()
        found.append(summary)
    return {"answers": found, "weights_sha256": sha256}


def drawn_rows(asked, own, count):
    """So many places of a batch's samples, in order; all where they are judged together.

    They come of the seed that was drawn behind the window.
    """
    if len(asked["samples"]) < own:
        return np.arange(own)
    dice = random.Random("%(signs)d samples" % asked)
    return np.array(sorted(dice.sample(range(own), count)))


def kept(case, folder, ranks):
    """(name -> array of the weights, of each rank those of its running statistics)."""
    weights, statistics = {}, []
    for rank in range(ranks):
        try:
            own = dict(evaluated.read(evaluated.path_of(folder, rank)))
        except (OSError, ValueError):
            raise Unavailable("the weights behind a test were not kept") from None
        statistics.append(
            {name: each for (kind, name), each in own.items() if kind == evaluated.STATISTIC}
        )
        if rank == 0:
            weights = {name: each for (kind, name), each in own.items() if kind == evaluated.WEIGHT}
    wanted = shapes(workloads.of(case.workload).parameters(case.dimensions))
    if {name: each.shape for name, each in weights.items()} != wanted:
        raise Unavailable("what was kept are not the weights of a whole model")
    return weights, statistics


def in_float64(arrays):
    """The same as tensors. Each array is dropped then: nothing large is there twice for long."""
    import torch

    return {name: torch.from_numpy(arrays.pop(name)).double() for name in list(arrays)}


def sha256_of(case, weights):
    """That of the record's `weights`, as measure/weights.py takes it."""
    lines = []
    for name in workloads.of(case.workload).parameters(case.dimensions):
        array = np.ascontiguousarray(weights[name])
        lines.append("%s %s %s\n" % (name, array.shape, hashlib.sha256(array).hexdigest()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_of(case, data_dir, rank, number):
    """(arrays, how many samples count) of a batch of a rank's tests, read from the data.

    A rank is a replica: a model that is split has no whole weights.
    """
    kind = workloads.data(case.workload)[case.data]
    input = Input(
        workload=case.workload,
        data=case.data,
        data_dir=data_dir,
        batch_size=case.batch_size,
        dimensions=case.dimensions,
        seed=0,  # tests are the same for every seed
        part=rank,
        parts=case.layout.data_parallel(case.devices),
        held_out=True,
        kind=kind,
    )
    loader = inputs.loader(case.workload, case.data)
    if kind.loader == "readers":  # all frameworks' are tested with these
        tests = Photos(input, "NCHW")
    else:
        batches = loader.open_batches(input, "NCHW")
        tests = batches.tests()
    for place, (batch, own) in enumerate(tests):
        if place == number:
            return batch, own
    raise Unavailable("rank %d has no batch %d to test" % (rank, number))


def outputs_of(case, weights, statistics, batch):
    """(outputs in float64, of which samples rounding decides nothing).

    Raises Unavailable where the formulas draw random numbers: those of the model are not known.
    """
    undrawn = workloads.proof(case.workload).undrawn
    answer = answering(case, weights, statistics)
    with workloads.settings(case.workload, undrawn):
        try:
            outputs, decided = answer(batch), np.ones(len(batch[0]), bool)
        except ValueError:  # as the formulas say of a batch in which rounding decides a sample
            outputs, decided = one_by_one(answer, batch)
        rows = np.flatnonzero(decided)[:AGAIN]
        again = answer([each[rows] for each in batch], seed=1) if undrawn else outputs[rows]
        if far(again, outputs[rows]) > SAME:
            raise Unavailable("the model draws random numbers of its own while it is tested")
    return outputs, decided


def answering(case, weights, statistics):
    """answer(batch, seed=0): the formulas' outputs in float64, a NumPy array."""
    import torch

    reference = workloads.reference(case.workload)
    evaluate, running = reference.evaluated or reference.outputs, in_float64(statistics)

    def answer(batch, seed=0):
        torch.manual_seed(seed)
        tensors = reference.tensors(*batch, dtype=torch.float64)
        with torch.no_grad():
            return evaluate(weights, running, tensors, case.dimensions).numpy()

    return answer


def outputs_as_drawn(case, weights, statistics, batch, told, rows):
    """(the same as of `outputs_of`, {how many deviations the draws are from chance}).

    told: what the model drew for each of the batch's samples, of which `rows` are these. The
    deviations are None where it does not say what it drew.
    """
    model, answer = drawn.of(case.workload), answering(case, weights, statistics)
    words = np.array([told[row] for row in rows])
    all_said, words = bool((words >= 0).all()), words.clip(0)
    with workloads.settings(case.workload, workloads.proof(case.workload).undrawn):
        # one by one: the noise of a whole batch may be gigabytes
        alone = ([each[row : row + 1] for each in batch] for row in range(len(words)))
        outputs = np.concatenate(
            [answer(model.given(own, words[row : row + 1])) for row, own in enumerate(alone)]
        )
    off = model.deviations(outputs, batch, words)
    off = off if all_said and math.isfinite(off) else None
    return (outputs, np.ones(len(outputs), bool)), {"drawn_deviations": off}


def far(found, wanted):
    """The relative distance of two arrays of outputs."""
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def one_by_one(answer, batch):
    """(outputs, of which samples rounding decides nothing), a sample at a time.

    Raises Unavailable where it decides all of them.
    """
    found = []
    for row in range(len(batch[0])):
        try:
            found.append(answer([each[row : row + 1] for each in batch])[0])
        except ValueError:
            found.append(None)
    decided = np.array([each is not None for each in found])
    if not decided.any():
        raise Unavailable("rounding decides something of every sample")
    nothing = np.zeros_like(next(each for each in found if each is not None))
    return np.stack([nothing if each is None else each for each in found]), decided


if __name__ == "__main__":
    main()
