"""A rank of a split GPT must exchange and keep what its layout says: other logs are refused."""

import pytest
import torch_checks
import torch_layouts
from gpu_steps import Step
from torch_log import Log
from torch_steps import Driven

#: Values of GPT's weights with two layers and 128 positions.
PARAMETERS = 53597184
ACTIVATIONS = 8 * 128 * 768 * 4  # bytes, in float32
TABLE = 51200 * 768 * 4
TENSORS = {"tensor_parallel": 2}
STAGES = {"pipeline_parallel": 2, "accumulation": 4}
LAYOUTS = [
    (2, TENSORS, 0),
    (2, STAGES, 0),
    (2, STAGES, 1),
    (4, {**TENSORS, **STAGES}, 0),
    (4, {**TENSORS, **STAGES}, 3),
    (2, {"zero_stage": 2}, 0),
    (2, {"zero_stage": 3}, 0),
]


def gpt(devices=2, layout=None, rank=0, precision="amp") -> Step:
    dimensions = {"layers": 2, "sequence_length": 128}
    fields = {"batch_size": 8, "dimensions": dimensions, "compiler": "none", "rank": rank}
    return Step("gpt", precision, devices, layout or {}, **fields)


def driven(step, exchanges, resident=0, parameters=PARAMETERS) -> Driven:
    """A step with these exchanges, a product behind all of them."""
    lines = [f"\texchange\t3\t{' '.join(map(str, each))}" for each in exchanges]
    product = "\tproduct\t0\tgemm bf16 bf16 bf16 - - 1"
    text = "\n".join([*lines, product, "\tmark\t\tstep\n"])
    return Driven(step, Log(text), {"parameters": parameters, "resident_bytes": resident})


def kinds(step, exchanges, **facts) -> set[str]:
    return {kind for kind, _ in torch_checks.exchanges(driven(step, exchanges, **facts))}


def asked(step) -> list[tuple[str, str, int]]:
    return list(torch_layouts.expected(step, "bf16", PARAMETERS).elements())


def test_a_tensor_group_sums_activations_four_times_a_layer():
    assert torch_layouts.expected(gpt(layout=TENSORS), "bf16", PARAMETERS) == {
        ("all-reduce", "bf16", ACTIVATIONS // 2): 2 * 2,  # forward, of two layers
        ("all-reduce", "f32", ACTIVATIONS): 2 * 2 + 2,  # backward; the table and the head
        ("all-reduce", "f32", 8 * 128 * 4): 3,  # the cross-entropy
        ("all-reduce", "f32", 4): 1,  # the norm
    }


def test_layers_that_are_computed_again_sum_their_activations_again():
    layout = {**TENSORS, "activation_checkpointing": True}
    once, twice = (
        torch_layouts.expected(gpt(layout=each), "bf16", PARAMETERS) for each in (TENSORS, layout)
    )
    assert twice - once == {("all-reduce", "bf16", ACTIVATIONS // 2): 2 * 2}
    assert not once - twice


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stage_sends_and_receives_each_micro_batch(rank):
    assert torch_layouts.expected(gpt(layout=STAGES, rank=rank), "bf16", PARAMETERS) == {
        ("send", "f32", ACTIVATIONS): 4,
        ("receive", "f32", ACTIVATIONS): 4,
        ("all-reduce", "f32", TABLE): 1,
        ("all-reduce", "f32", 4): 1,
    }


def test_a_stage_in_the_middle_has_two_neighbours_and_no_table():
    layout = {"pipeline_parallel": 4, "accumulation": 4}
    assert torch_layouts.expected(gpt(4, layout, rank=2), "bf16", PARAMETERS) == {
        ("send", "f32", ACTIVATIONS): 8,
        ("receive", "f32", ACTIVATIONS): 8,
        ("all-reduce", "f32", 4): 1,
    }


@pytest.mark.parametrize(("stage", "gathers"), [(2, 1), (3, 2)])
def test_sharded_weights_are_gathered_whole_and_their_gradients_summed_once(stage, gathers):
    found = torch_layouts.expected(gpt(layout={"zero_stage": stage}), "bf16", PARAMETERS)
    sizes = dict.fromkeys(("all-gather", "reduce-scatter"), 0)
    for (kind, _, size), count in found.items():
        if kind in sizes:
            sizes[kind] += size * count
    whole = 4 * PARAMETERS
    assert sizes == {"all-gather": gathers * whole, "reduce-scatter": whole}
    assert sum(found.values()) == gathers * 3 + 3 + 1  # two layers, the rest; the norm


@pytest.mark.parametrize(("devices", "layout", "rank"), LAYOUTS)
def test_one_exchange_too_few_or_too_many_is_refused(devices, layout, rank):
    step = gpt(devices, layout, rank)
    there = asked(step)
    assert kinds(step, there) == set()
    for each in set(there):
        fewer = list(there)
        fewer.remove(each)
        assert kinds(step, fewer) == {"split"}
        assert kinds(step, [*there, each]) == {"split"}
        kind, given, size = each
        narrow = [(kind, "f16", size // 2) if one == each else one for one in there]
        assert kinds(step, narrow) == {"split"}


def test_replicas_of_a_split_model_average_all_gradients_in_buckets():
    step, own = gpt(4, TENSORS), PARAMETERS // 2
    buckets = 4 * [("all-reduce", "f32", own)]

    def kinds_of(averages):
        return kinds(step, [*asked(step), *averages], parameters=own)

    assert kinds_of(buckets) == set()
    assert kinds_of(buckets[1:]) == {"gradients"}
    assert kinds_of([*buckets[1:], ("all-reduce", "bf16", own)]) == {"gradients"}
    assert kinds_of(64 * [("all-reduce", "f32", own // 16)]) == {"exchanges"}
    assert kinds_of([*buckets, ("all-gather", "f32", own)]) == {"split"}


def test_replicas_that_share_the_update_send_what_they_updated():
    step = gpt(layout={"zero_stage": 1})
    gradients = 4 * [("all-reduce", "f32", PARAMETERS)]
    weights = 4 * [("broadcast", "f32", PARAMETERS)]
    assert kinds(step, gradients + weights) == set()
    assert kinds(step, gradients) == {"split"}
    assert kinds(step, gradients + weights[1:]) == {"split"}
    assert kinds(step, weights) == {"gradients"}
    assert kinds(step, gradients + 32 * [("broadcast", "f32", PARAMETERS // 8)]) == {"exchanges"}


@pytest.mark.parametrize(
    ("layout", "values"),
    [(TENSORS, 4), ({"zero_stage": 1}, 3), ({"zero_stage": 2}, 2), ({"zero_stage": 3}, 2)],
)
def test_a_rank_keeps_its_share_of_the_state(layout, values):
    """Weights, gradients and two moments, of which two replicas share what the stage says."""

    def is_refused(share: float) -> bool:
        made = driven(gpt(layout=layout), [], resident=share * 4 * PARAMETERS)
        return bool(dict(torch_checks.state(made)))

    assert not is_refused(values)
    assert is_refused(values + 1.5)


def test_what_a_replica_keeps_alone_is_not_held_to_shares():
    assert not dict(torch_checks.state(driven(gpt(), [], resident=10**12)))
