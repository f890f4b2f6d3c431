"""A training that begins anew from given weights takes the same steps again, in every framework."""

import json
import math

import in_framework
import pytest
from conftest import CPU_FRAMEWORKS, one_of_all, skip_without_bfloat16, some_of

from dlperf.contract.layout import Layout

#: Of weights, over how far they went; of losses and statistics, over themselves. The same program
#: takes the same steps: most are the same to the last bit.
ROUNDING = 1e-5

#: Three steps from given weights; two more; three from the same weights with the moments that there
#: are; three by restart. Prints the first losses, and of both how far losses, weights and running
#: statistics are from those of the first time, at most. Of each of WORKLOADS.
REPEATED = """
import dataclasses, os
import numpy as np
from dlperf.certify.reference import neutral
from dlperf.contract.ownership import as_part
from dlperf.contract.work import as_array

def trained(work):
    losses = []
    for _ in range(3):
        work.batches.redraw(7, 1)  # the same one each time
        handle = work.step()
        work.wait()
        losses.append(work.loss(handle))
    arrays = [(as_part(key), as_array(array)) for key, array in work.weights.read()]
    weights = {part.name: (part, np.array(array, "float64")) for part, array in arrays}
    return losses, weights, {name: np.array(each) for name, each in work.weights.statistics()}

def further(found, wanted, start):
    losses, weights, statistics = found
    gone = [one - other for one, other in zip(losses, wanted[0]) if one is not None]
    distances = {"loss": np.abs(gone).max() / np.abs(losses).max() if gone else 0.0}
    for name, (part, array) in weights.items():
        distance = np.linalg.norm(array - wanted[1][name][1])
        whole = np.linalg.norm(array - part.of(start[name]))
        distances[name] = distance and distance / whole  # a rank may have nothing of a tensor
    for name, array in statistics.items():
        distances[name] = np.linalg.norm(array - wanted[2][name]) / np.linalg.norm(array)
    name = max(distances, key=distances.get)
    return float(distances[name]), name

def repeated(run):
    start = neutral(run.workload, run.dimensions)
    work = workloads.load(run.workload, run.framework).training(run)
    work.weights.write(start)
    first = trained(work)
    for _ in range(2):
        work.step()
    work.weights.write(start)
    kept = further(trained(work), first, start)
    work.restart(start)
    again = further(trained(work), first, start)
    work.batches.close()
    return first[0], kept, again

framework = frameworks.load(run.framework)
framework.start(run)
found = {}
for workload, (dimensions, changes) in WORKLOADS.items():
    proof = workloads.proof(workload)
    changes = dict(proof.in_certificates, learning_rate=lambda size: proof.learning_rate, **changes)
    with workloads.settings(workload, changes):
        own = dataclasses.replace(run, workload=workload, dimensions=dimensions)
        found[workload] = repeated(own)
print(json.dumps(found))
sys.stdout.flush()
framework.stop(run)
os._exit(0)  # as a rank ends
"""

GPT = {"gpt": ({"width": 32, "layers": 2, "heads": 2, "sequence_length": 8}, {})}
WIDE_DEEP = {"vocabulary": 52, "width": 4, "layers": 1, "adam": "lazy", "tables": "replicated"}
LAZY = {"wide_deep": (WIDE_DEEP, {})}
DENSE = {"wide_deep": ({**WIDE_DEEP, "adam": "dense"}, {})}
SHARDED = {"wide_deep": ({**WIDE_DEEP, "tables": "sharded"}, {})}
RESNET50 = {"resnet50": ({"image_size": 32, "fold": 0, "mixup": 0}, {})}
#: LAMB.
WIDTHS = ("WIDTH", "INNER_WIDTH", "GENERATOR_WIDTH", "GENERATOR_INNER_WIDTH")
SMALL = {"LAYERS": 1, "HEADS": 1, "GENERATOR_HEADS": 1, **dict.fromkeys(WIDTHS, 64)}
ELECTRA = {"electra": ({"sequence_length": 16}, SMALL)}
#: Momentum of the centres that a step takes: all, as others would be taken at random.
FACES = {
    "backbone": "y1",
    "loss": "arcface",
    "num_classes": 101,
    "head": "partial",
    "sample_percent": 100,
    "image_size": 32,
}
PARTIAL = {"insightface": (FACES, {"GIVEN_SAMPLE": 0})}


def repeated(environments, framework, trainings, ranks=1, **changes):
    """The losses of these trainings on rank 0, whose steps are the same after a restart."""
    workload = next(iter(trainings))
    dimensions, _ = trainings[workload]
    run = in_framework.rank(framework, workload, dimensions=dimensions, **changes)
    runs = in_framework.ranks(run, ranks) if ranks > 1 else [run]
    code = f"WORKLOADS = {trainings!r}\n{REPEATED}"
    said = in_framework.printed_by_all(runs, code, environments / f"{framework}.cpu")
    found = [json.loads(each.splitlines()[-1]) for each in said]
    assert [set(each) for each in found] == [set(trainings)] * ranks
    for workload in trainings:
        for losses, kept, again in (each[workload] for each in found):
            assert all(loss is None or math.isfinite(loss) for loss in losses)
            assert again[0] <= ROUNDING, again
            # else this test would show nothing; a loss may no longer be finite
            assert not kept[0] <= 100 * ROUNDING, "the moments made no difference"
    return {workload: losses for workload, (losses, _, _) in found[0].items()}


@pytest.mark.parametrize("framework", some_of(CPU_FRAMEWORKS, "tensorflow1", "mxnet", "oneflow"))
def test_moments_and_counts_of_steps_are_as_they_began(framework, environments):
    repeated(environments, framework, {**GPT, **LAZY})


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_running_statistics_are_as_they_began(framework, environments):
    repeated(environments, framework, RESNET50, batch_size=4)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_the_steps_that_lamb_counts_are_as_they_began(framework, environments):
    repeated(environments, framework, ELECTRA)


@pytest.mark.parametrize("trainings", [DENSE, LAZY], ids=["dense", "lazy"])
def test_a_compiled_graph_keeps_no_moments(trainings, environments):
    repeated(environments, "oneflow", trainings, compiler="graph")


def test_a_compiled_graph_keeps_no_moments_of_a_ranks_rows(environments):
    repeated(environments, "oneflow", SHARDED, ranks=2, compiler="graph")


@pytest.mark.full
@pytest.mark.parametrize(
    ("framework", "compiler"),
    [("pytorch", "inductor"), ("tensorflow", "xla"), ("mxnet", "none"), ("paddlepaddle", "none")],
)
def test_other_modes_begin_anew_too(framework, compiler, environments):
    repeated(environments, framework, {**GPT, **LAZY}, compiler=compiler)


@pytest.mark.full
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet", "jax", "deepspeed"])
def test_in_mixed_precision_too(framework, environments):
    skip_without_bfloat16(framework, "amp")
    repeated(environments, framework, GPT, precision="amp")


def test_the_loss_scale_is_as_it_began(environments):
    """At 2^19 the first step overflows, and is left out; at 2^18 the second one does not."""
    changes = {"precision": "amp_fp16", "loss_scale": 2.0**19}
    losses = repeated(environments, "pytorch", GPT, **changes)["gpt"]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.full
# TensorFlow 1 has no such head; MindSpore adds a sample up in the order in which it drew it
@pytest.mark.parametrize(
    "framework", [each for each in CPU_FRAMEWORKS if each not in ("tensorflow1", "mindspore")]
)
def test_rows_of_a_head_have_no_momentum(framework, environments):
    repeated(environments, framework, PARTIAL)


@pytest.mark.full
@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_after_several_micro_steps_too(framework, environments):
    repeated(environments, framework, GPT, layout=Layout(accumulation=2))


SPLIT = [
    ("pytorch", GPT, {"tensor_parallel": 2}, "fp32"),
    ("deepspeed", GPT, {"zero_stage": 2}, "amp"),
    ("megatron", GPT, {"zero_stage": 1}, "amp"),
]
MORE_SPLIT = [
    *(("pytorch", GPT, {"zero_stage": stage}, "fp32") for stage in (1, 2, 3)),
    *(("deepspeed", GPT, {"zero_stage": stage}, "amp") for stage in (1, 3)),
    ("deepspeed", GPT, {"zero_stage": 3}, "fp32"),
    ("pytorch", GPT, {"pipeline_parallel": 2, "accumulation": 2}, "fp32"),
    ("jax", GPT, {"pipeline_parallel": 2, "accumulation": 2}, "fp32"),
    ("megatron", GPT, {"tensor_parallel": 2}, "fp32"),
    ("jax", GPT, {"tensor_parallel": 2}, "fp32"),
    ("oneflow", GPT, {"tensor_parallel": 2}, "fp32"),
    ("paddlepaddle", GPT, {"tensor_parallel": 2}, "fp32"),
    ("pytorch", SHARDED, {}, "fp32"),
    ("jax", SHARDED, {}, "fp32"),
    ("pytorch", PARTIAL, {}, "fp32"),
    ("jax", PARTIAL, {}, "fp32"),
    ("oneflow", PARTIAL, {}, "fp32"),
    ("mxnet", PARTIAL, {}, "fp32"),
    ("mxnet", SHARDED, {}, "fp32"),
]


def described(value):
    if isinstance(value, dict):
        return "-".join(f"{key}{value[key]}" for key in value if key not in GPT) or "gpt"
    return value


@pytest.mark.parametrize(
    ("framework", "training", "layout", "precision"),
    [*SPLIT, *(pytest.param(*each, marks=pytest.mark.full) for each in MORE_SPLIT)],
)
def test_what_a_rank_has_begins_anew(framework, training, layout, precision, environments):
    """Of masters in float32, of shares of moments, of parts of weights."""
    changes = {"layout": Layout(**layout), "precision": precision}
    repeated(environments, framework, training, ranks=2, **changes)
