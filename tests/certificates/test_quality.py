"""The quality scenario is certified by its rates, tests and new starts: wrong ones fail."""

from pathlib import Path

import pytest
from conftest import SCRIPTS
from test_mutations import assert_fails, certificate_of, made_reference
from wrong import Mutation, resnet50, resnet50_mixup, wide_deep

SHOWN = resnet50.QUALITY[1:3]  # `make test` takes these
FULL = [
    pytest.param(each, marks=pytest.mark.full, id=each.name)
    for each in resnet50.QUALITY
    if each not in SHOWN
]


@pytest.fixture(scope="module")
def reference_quality(environments, sample_data, tmp_path_factory) -> Path:
    """ResNet-50's steps at changing rates, a test and a new start, by plain float64 formulas."""
    folder = tmp_path_factory.mktemp("reference")
    return made_reference(SCRIPTS, "resnet50", "quality", environments, sample_data, folder)


@pytest.mark.parametrize("mutation", SHOWN + FULL, ids=lambda each: getattr(each, "name", None))
def test_a_wrong_setting_does_not_pass(mutation, reference_quality, sample_data, tmp_path):
    found = certificate_of(mutation, SCRIPTS, reference_quality, sample_data, tmp_path)
    assert found["variant"] == "quality"
    assert_fails(found, mutation.tier)


@pytest.fixture(scope="module")
def reference_mixup(environments, sample_data, tmp_path_factory) -> Path:
    """The same on mixed images."""
    folder = tmp_path_factory.mktemp("mixup")
    return made_reference(SCRIPTS, "resnet50", "mixup1-quality", environments, sample_data, folder)


@pytest.mark.full
@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(each, marks=[pytest.mark.full] * (place > 0), id=each.name)
        for place, each in enumerate(resnet50_mixup.MIXUP)
    ],
)
def test_images_that_are_mixed_in_another_way_do_not_pass(
    mutation, reference_mixup, sample_data, tmp_path
):
    found = certificate_of(mutation, SCRIPTS, reference_mixup, sample_data, tmp_path)
    assert found["variant"] == "mixup1-quality"
    assert_fails(found, mutation.tier)


@pytest.mark.full
@pytest.mark.parametrize("layout", ["1", "dp2"])
def test_mixed_images_pass_also_where_each_rank_mixes_its_own(
    layout, reference_mixup, sample_data, tmp_path
):
    as_it_is = Mutation("resnet50", "pytorch", "as it is", None, layout, variant="mixup1-quality")
    found = certificate_of(as_it_is, SCRIPTS, reference_mixup, sample_data, tmp_path)
    assert found["passed"], found["tiers"]


@pytest.fixture(scope="module")
def wide_deep_quality(environments, criteo, tmp_path_factory) -> Path:
    """The same of Wide & Deep."""
    folder = tmp_path_factory.mktemp("wide_deep")
    return made_reference(SCRIPTS, "wide_deep", "quality", environments, criteo, folder)


@pytest.mark.full
@pytest.mark.parametrize("mutation", wide_deep.QUALITY, ids=lambda each: each.name)
def test_a_wrong_setting_of_tables_does_not_pass(mutation, wide_deep_quality, criteo, tmp_path):
    found = certificate_of(mutation, SCRIPTS, wide_deep_quality, criteo, tmp_path)
    assert found["variant"] == "quality"
    assert_fails(found, mutation.tier)


@pytest.mark.full
def test_over_two_ranks_each_tests_by_itself_and_the_loss_of_a_new_start_is_their_mean(
    reference_quality, sample_data, tmp_path
):
    two = Mutation("resnet50", "pytorch", "as it is", None, layout="dp2", variant="quality")
    found = certificate_of(two, SCRIPTS, reference_quality, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert "float64-again-loss" in {tier["name"] for tier in found["tiers"]}
