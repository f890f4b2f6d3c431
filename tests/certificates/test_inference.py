"""Inference is certified by its outputs: right ones pass, the smallest wrong setting does not."""

from pathlib import Path

import pytest
from conftest import SCRIPTS, one_of_all
from mutations import Mutation
from test_mutations import assert_fails, certificate_of, run

from dlperf import frameworks

SWAPPED = """

def swapped(running):
    one, other = "block0.bn1.mean", "block0.bn2.mean"
    running[one], running[other] = running[other], running[one]
    return running
"""
KEPT = """

KEPT = []


def first(batch):
    KEPT.append(batch)
    return KEPT[0]
"""
WRONG = [
    Mutation("training mode", "pytorch", "none", "model(run).eval()", "model(run)"),
    Mutation("epsilon 1e-6", "pytorch", "none", "eps=facts.BATCH_NORM_EPSILON", "eps=1e-6"),
    Mutation(
        "another layer's statistics",
        "pytorch",
        "none",
        "named(running))",
        "swapped(named(running)))",
        more=SWAPPED,
    ),
    Mutation(
        "one input repeated",
        "pytorch",
        "none",
        "forward(*put(run, *batch))",
        "forward(*first(put(run, *batch)))",
        more=KEPT,
        float64_only=False,
        tier="timed-permuted",
    ),
]
WRONG_FOLDED = [
    Mutation(
        "no epsilon",
        "pytorch",
        "none",
        "np.sqrt(variance + facts.BATCH_NORM_EPSILON)",
        "variance**0.5",
    ),
    Mutation(
        "no mean", "pytorch", "none", '".bias") - mean * scale', '".bias")', tier="float64-outputs"
    ),
    Mutation("not folded", "pytorch", "none", "nn.Identity) if", "batch_norm) if", tier="shapes"),
]
WRONG_CLICKS = [
    Mutation("dropout", "pytorch", "none", "model(run).eval()", "model(run)"),
    Mutation("no crosses", "pytorch", "none", " + crosses.sum((1, 2))", ""),
    Mutation(
        "numbers first",
        "pytorch",
        "none",
        "[fields.flatten(1), numbers]",
        "[numbers, fields.flatten(1)]",
    ),
]


def outputs_of(variant, environments, data, folder, workload="resnet50") -> Path:
    """A workload's outputs by plain float64 formulas."""
    run(
        SCRIPTS,
        "dlperf.certify.reference",
        f"--workload={workload}",
        f"--variant={variant}",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={data}",
        f"--out={folder}",
    )
    return folder


@pytest.fixture(scope="module")
def reference_outputs(environments, sample_data, tmp_path_factory) -> Path:
    return outputs_of("infer", environments, sample_data, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def folded_outputs(environments, sample_data, tmp_path_factory) -> Path:
    return outputs_of("fold1-infer", environments, sample_data, tmp_path_factory.mktemp("folded"))


@pytest.fixture(scope="module")
def clicks(environments, criteo, tmp_path_factory) -> Path:
    return outputs_of("infer", environments, criteo, tmp_path_factory.mktemp("clicks"), "wide_deep")


@pytest.mark.parametrize("mutation", WRONG_CLICKS, ids=lambda each: each.name)
def test_a_wrong_setting_of_wide_deep_does_not_pass(mutation, clicks, criteo, tmp_path):
    found = certificate_of(mutation, "wide_deep", SCRIPTS, clicks, criteo, tmp_path)
    assert found["variant"] == "infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_of_wide_deep_are_the_references(framework, clicks, criteo, tmp_path):
    compiler = frameworks.load(framework).DEFAULT_COMPILER["cpu"]
    as_it_is = Mutation("as it is", framework, compiler, "", "", float64_only=False)
    found = certificate_of(as_it_is, "wide_deep", SCRIPTS, clicks, criteo, tmp_path)
    assert found["passed"], found["tiers"]


@pytest.mark.parametrize("mutation", WRONG_FOLDED, ids=lambda each: each.name)
def test_a_wrong_folding_does_not_pass(mutation, folded_outputs, sample_data, tmp_path):
    found = certificate_of(mutation, "resnet50", SCRIPTS, folded_outputs, sample_data, tmp_path)
    assert found["variant"] == "fold1-infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_of_what_is_folded_are_the_references(
    framework, folded_outputs, sample_data, tmp_path
):
    compiler = frameworks.load(framework).DEFAULT_COMPILER["cpu"]
    as_it_is = Mutation("as it is", framework, compiler, "", "", float64_only=False)
    found = certificate_of(as_it_is, "resnet50", SCRIPTS, folded_outputs, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert "folded" in found["parity"]["batch_norm"]


@pytest.mark.parametrize("mutation", WRONG, ids=lambda each: each.name)
def test_a_wrong_setting_does_not_pass(mutation, reference_outputs, sample_data, tmp_path):
    found = certificate_of(mutation, "resnet50", SCRIPTS, reference_outputs, sample_data, tmp_path)
    assert found["variant"] == "infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_are_the_references(framework, reference_outputs, sample_data, tmp_path):
    compiler = frameworks.load(framework).DEFAULT_COMPILER["cpu"]
    as_it_is = Mutation("as it is", framework, compiler, "", "", float64_only=False)
    found = certificate_of(as_it_is, "resnet50", SCRIPTS, reference_outputs, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert {"timed-outputs", "timed-largest", "timed-permuted", "timed-alone"} <= {
        tier["name"] for tier in found["tiers"]
    }
