"""From differences to tiers: what passes, what does not, what could not run."""

import math

import numpy as np
import pytest

from dlperf import workloads
from dlperf.certify import judge
from dlperf.certify.rank import compare, wrong_shapes
from dlperf.certify.reference import flat, neutral, split
from dlperf.workloads import layouts
from dlperf.workloads.resnet50 import facts
from dlperf.workloads.resnet50.formulas import Optimizer

REFERENCE = {"loss": [7.0, 6.9, 6.8, 6.7, 6.6], "data_digest": ["d0"]}


def left(**changes):
    """What a rank leaves that does just what the reference does."""
    exact = {"conv1.weight": [0.0, 2.0], "fc.bias": [0.0, 1.0]}
    facts = {
        "status": "ok",
        "shapes": [],
        "loss": list(REFERENCE["loss"]),
        "data_digest": "d0",
        "compared": {"first": dict(exact), "last": dict(exact), "optimizer": dict(exact)},
    }
    return {**facts, **changes}


def by_name(tiers):
    return {tier["name"]: tier for tier in tiers}


def test_equal_work_passes_every_tier():
    tiers = judge.tiers(REFERENCE, left(), left(), "fp32")
    assert all(tier["passed"] for tier in tiers)


def test_another_shape_fails_first_and_names_the_tensor():
    wrong = left(shapes=[["fc.bias", (1000,), None]])
    (tier,) = judge.tiers(REFERENCE, wrong, left(), "fp32")
    assert tier["passed"] is False
    assert tier["worst"]["tensor"] == "fc.bias"


def test_the_worst_tensor_is_named():
    float64 = left()
    float64["compared"]["first"]["fc.bias"] = [1e-3, 1.0]
    tier = by_name(judge.tiers(REFERENCE, left(), float64, "fp32"))["float64-gradient"]
    assert tier["passed"] is False
    assert tier["worst"]["tensor"] == "fc.bias"
    assert tier["measured"] == pytest.approx(1e-3)


def test_a_number_that_is_none_does_not_pass():
    timed = left()
    timed["compared"]["first"]["conv1.weight"] = [math.nan, 2.0]
    tier = by_name(judge.tiers(REFERENCE, timed, left(), "fp32"))["timed-gradient"]
    assert tier["passed"] is False
    assert tier["worst"]["tensor"] == "conv1.weight"


def test_what_is_expected_to_stay_must_stay():
    timed = left()
    timed["compared"]["first"]["fc.bias"] = [1e-9, 0.0]
    assert not by_name(judge.tiers(REFERENCE, timed, left(), "fp32"))["timed-gradient"]["passed"]


def test_other_input_is_told_apart_from_another_computation():
    tiers = by_name(judge.tiers(REFERENCE, left(), left(data_digest="d1"), "fp32"))
    assert tiers["input"]["passed"] is False


def test_a_framework_without_float64_says_so_and_can_still_pass():
    tiers = by_name(judge.tiers(REFERENCE, left(), None, "fp32"))
    assert tiers["float64-update"]["passed"] is None
    assert "no float64" in tiers["float64-update"]["reason"]
    assert tiers["optimizer"]["passed"]


def test_a_run_that_failed_does_not_pass():
    crashed = {"status": "crashed", "reason": "rank 0: ended with signal 11"}
    tiers = judge.tiers(REFERENCE, left(), crashed, "fp32")
    assert any(tier["passed"] is False and "signal 11" in tier["reason"] for tier in tiers)


def test_slow_damage_shows_in_the_long_run():
    seeds = [6.0, 6.1, 6.2, 6.05, 6.15]
    assert judge.long_run(seeds, left(loss=[6.12]))["passed"]
    assert not judge.long_run(seeds, left(loss=[6.5]))["passed"]


def test_missing_and_surplus_tensors_are_found():
    expected = {"a": (2, 3), "b": (4,)}
    found = {"a": np.zeros((3, 2)), "c": np.zeros(1)}
    assert wrong_shapes(expected, found) == [
        ["a", (2, 3), (3, 2)],
        ["b", (4,), None],
        ["c", None, (1,)],
    ]


def test_neutral_weights_hide_no_setting_and_survive_the_file():
    weights = neutral("resnet50")
    assert {name: each.shape for name, each in weights.items()} == dict(facts.parameters())
    assert sum(each.size for each in weights.values()) == facts.PARAMETERS
    assert all((each != 0).all() for each in weights.values())
    views = split("resnet50", flat(weights))
    assert all(np.array_equal(views[name], weights[name]) for name in weights)


@pytest.mark.parametrize("name", ["block0.conv2.weight", "fc.weight", "fc.bias"])
def test_layouts_come_back(name):
    array = np.random.RandomState(0).rand(*workloads.facts("resnet50").parameters()[name])
    assert np.array_equal(layouts.canonical(name, layouts.channels_last(name, array)), array)


def test_the_optimizer_decays_weights_but_no_biases():
    start = {"w": np.ones((2, 2)), "b": np.ones(2)}
    nothing = {"w": np.zeros((2, 2)), "b": np.zeros(2)}
    new = Optimizer(start).update(start, nothing, 1.0)
    assert np.allclose(new["w"], 1 - facts.WEIGHT_DECAY)
    assert np.array_equal(new["b"], start["b"])


def test_momentum_adds_up_as_in_the_formula():
    weights, formula = {"b": np.zeros(1)}, Optimizer({"b": np.zeros(1)})
    for _ in range(2):
        weights = formula.update(weights, {"b": np.ones(1)}, 1.0)
    assert weights["b"][0] == pytest.approx(-(1 + (1 + facts.MOMENTUM)))


def test_comparison_is_by_norm_of_the_whole_tensor():
    compared = compare({"a": np.array([3.0, 4.0])}, {"a": np.array([0.0, 0.0])})
    assert compared["a"] == [5.0, 0.0]
