"""Inference is certified by its outputs: right ones pass, the smallest wrong setting does not."""

from pathlib import Path

import pytest
from conftest import SCRIPTS, one_of_all
from test_mutations import assert_fails, certificate_of, first, made_reference
from wrong import TIMED, Mutation, resnet50, wide_deep


@pytest.fixture(scope="module")
def reference_outputs(environments, sample_data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    return made_reference(SCRIPTS, "resnet50", "infer", environments, sample_data, folder)


@pytest.fixture(scope="module")
def folded_outputs(environments, sample_data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("folded")
    return made_reference(SCRIPTS, "resnet50", "fold1-infer", environments, sample_data, folder)


@pytest.fixture(scope="module")
def clicks(environments, criteo, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clicks")
    return made_reference(SCRIPTS, "wide_deep", "infer", environments, criteo, folder)


@pytest.mark.parametrize("mutation", first(2, wide_deep.INFER))
def test_a_wrong_setting_of_wide_deep_does_not_pass(mutation, clicks, criteo, tmp_path):
    found = certificate_of(mutation, SCRIPTS, clicks, criteo, tmp_path)
    assert found["variant"] == "infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_of_wide_deep_are_the_references(framework, clicks, criteo, tmp_path):
    as_it_is = Mutation("wide_deep", framework, "as it is", None, variant="infer", **TIMED)
    found = certificate_of(as_it_is, SCRIPTS, clicks, criteo, tmp_path)
    assert found["passed"], found["tiers"]


@pytest.mark.full
@pytest.mark.parametrize("mutation", first(2, resnet50.FOLDED))
def test_a_wrong_folding_does_not_pass(mutation, folded_outputs, sample_data, tmp_path):
    found = certificate_of(mutation, SCRIPTS, folded_outputs, sample_data, tmp_path)
    assert found["variant"] == "fold1-infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_of_what_is_folded_are_the_references(
    framework, folded_outputs, sample_data, tmp_path
):
    as_it_is = Mutation("resnet50", framework, "as it is", None, variant="fold1-infer", **TIMED)
    found = certificate_of(as_it_is, SCRIPTS, folded_outputs, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert "folded" in found["parity"]["batch_norm"]


@pytest.mark.parametrize("mutation", first(2, resnet50.INFER))
def test_a_wrong_setting_does_not_pass(mutation, reference_outputs, sample_data, tmp_path):
    found = certificate_of(mutation, SCRIPTS, reference_outputs, sample_data, tmp_path)
    assert found["variant"] == "infer"
    assert_fails(found, mutation.tier)


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_outputs_are_the_references(framework, reference_outputs, sample_data, tmp_path):
    as_it_is = Mutation("resnet50", framework, "as it is", None, variant="infer", **TIMED)
    found = certificate_of(as_it_is, SCRIPTS, reference_outputs, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert {"timed-outputs", "timed-largest", "timed-permuted", "timed-alone"} <= {
        tier["name"] for tier in found["tiers"]
    }
