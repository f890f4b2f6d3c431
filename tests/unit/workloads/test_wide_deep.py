"""Wide & Deep's facts and formulas: sizes as published, and Adam of touched rows by hand."""

import math

import numpy as np
import pytest

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
