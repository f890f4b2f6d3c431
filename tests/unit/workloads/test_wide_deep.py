"""Wide & Deep's facts and formulas: sizes as published, and Adam of touched rows by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dlperf import workloads
from dlperf.contract.dimension import Dimensions
from dlperf.workloads.cases import base_case, parse_case
from dlperf.workloads.wide_deep import facts, proof


def sized(**changes):
    return Dimensions(facts.DIMENSIONS, changes)


@pytest.mark.parametrize(
    "layers, width, count",
    [(7, 16, 6_738_945), (7, 32, 7_164_929), (2, 16, 1_490_945), (2, 32, 1_916_929)],
)
def test_dense_parameters_are_as_many_as_published_ones(layers, width, count):
    asked = sized(layers=layers, width=width, vocabulary=1000)
    assert workloads.parameter_count("wide_deep", asked) == count + 1000 * (width + 1)


@pytest.mark.parametrize(
    "layers, width, flops", [(7, 16, 40.4e6), (7, 32, 42.9e6), (2, 16, 8.93e6)]
)
def test_flops_a_sample_are_six_times_the_multiply_adds(layers, width, flops):
    asked = sized(layers=layers, width=width)
    assert facts.flops_per_sample(asked, "train") == pytest.approx(flops, rel=2e-3)
    assert facts.flops_per_sample(asked, "train") == 3 * facts.flops_per_sample(asked, "infer")


def test_a_name_has_what_is_not_standard():
    asked = sized(vocabulary=260_000, layers=2, adam="dense")
    assert asked.spelled() == ["voc260000", "l2", "adamdense"]
    assert asked.variant() == "adamdense"
    assert Dimensions.parse(facts.DIMENSIONS, asked.spelled()) == (asked, "")


def test_sharded_tables_have_a_name_and_certificates_of_their_own():
    asked = sized(tables="sharded")
    assert asked.spelled() == ["sharded"] and asked.variant() == "sharded"
    assert Dimensions.parse(facts.DIMENSIONS, ["sharded"]) == (asked, "")
    assert "sharded" in workloads.variants()


@pytest.mark.parametrize(
    "devices, changes, reason",
    [
        (1, {}, "one device has nothing to share out"),
        (2, {"adam": "dense"}, "ask for `adam: lazy`"),
        (2, {"width": 15}, "2 devices do not divide a width of 15"),
        (2, {}, ""),
    ],
)
def test_sharded_tables_need_devices_that_divide_their_width(devices, changes, reason):
    identity = {"workload": "wide_deep", "nodes": 1, "devices_per_node": devices}
    asked = {**identity, **sized(tables="sharded", **changes)}
    found = workloads.unsupported(asked)
    assert reason in found and bool(reason) == bool(found)
    assert not workloads.unsupported({**asked, "tables": "replicated"})


def test_the_speed_up_of_sharded_tables_is_over_one_device_with_whole_ones():
    case = parse_case("wide_deep/pytorch/train-fp32-1n2d-b512-sample-l2-sharded")
    assert base_case(case).name == "train-fp32-1n1d-b512-sample-l2"


@pytest.mark.parametrize("adam", ["lazy", "dense"])
def test_adam_by_hand(adam):
    """A table of three rows in two steps: one touched twice, one once, one never."""
    table = {"deep_embedding": np.array([[1.0], [2.0], [3.0]])}
    optimizer = proof.Optimizer(table, sized(adam=adam))
    gradients = [np.array([[1e-6], [1e-6], [0.0]]), np.array([[3e-6], [0.0], [0.0]])]
    for gradient in gradients:
        table = optimizer.update(table, {"deep_embedding": gradient}, 0.1)

    def moved(values, steps):
        change = m = v = 0.0
        for g, t in zip(values, steps, strict=True):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = 0.1 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            change += rate * m / (math.sqrt(v) + 1e-7)
        return change

    once = ([1e-6], [1]) if adam == "lazy" else ([1e-6, 0.0], [1, 2])
    wanted = [1 - moved([1e-6, 3e-6], [1, 2]), 2 - moved(*once), 3.0]
    assert table["deep_embedding"].ravel() == pytest.approx(wanted, rel=1e-12)


def test_a_certificates_tables_hold_the_samples_ids_and_have_rows_that_rest():
    assert proof.DIMENSIONS["vocabulary"] == 26 * 600 > 14_668


@pytest.mark.parametrize("values", [3, 50, 10**6])
def test_the_auc_is_scikit_learns_and_that_of_all_pairs(values):
    """Ties count half: of three different logits, most pairs are ties."""
    random = np.random.RandomState(values)
    logits = random.randint(0, values, 400).astype(np.float32) / 7
    labels = (random.random_sample(400) < 0.3 + 0.4 * (logits > np.median(logits))) * np.float32(1)
    pairs = np.sign(logits[labels == 1][:, None] - logits[labels == 0][None])
    ordered, count = facts.tally([logits[:300], logits[300:]], [labels[:300], labels[300:]])
    assert (ordered, count) == ((pairs == 1).sum() + (pairs == 0).sum() / 2, pairs.size)
    assert facts.score([ordered, count]) == pytest.approx(roc_auc_score(labels, logits), abs=1e-12)
    again = random.permutation(400)
    assert facts.tally([logits[again]], [labels[again]]) == [ordered, count]


def test_an_auc_of_rows_of_one_kind_is_that_of_a_guess():
    assert facts.score(facts.tally([np.array([1.0, 2.0])], [np.ones(2)])) == 0.5


def test_a_training_to_a_quality_has_the_constant_rate_of_a_throughput_run():
    run = SimpleNamespace(scenario="quality", global_batch_size=512)
    assert facts.schedule(run) == [facts.learning_rate(512)]
    run.scenario = "train"
    assert facts.schedule(run) is None
