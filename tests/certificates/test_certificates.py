"""Every framework proves its work, in the modes that the laptop round times."""

import json

import pytest
from conftest import CPU_FRAMEWORKS, ROOT

from dlperf import plan


@pytest.fixture(scope="module")
def laptop(certificates):
    """The certificates of the laptop round, by framework and ranks."""
    config = plan.load(ROOT / "config/config.yaml")
    paths = {case.certificate(config.device) for case in plan.expand(config)}
    found = [json.loads((ROOT / "results" / path).read_text()) for path in paths]
    return {(each["framework"], each["ranks"]): each for each in found}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_it_passes(framework, ranks, laptop):
    certificate = laptop[framework, ranks]
    failed = [tier for tier in certificate["tiers"] if tier["passed"] is False]
    assert certificate["passed"] and not failed, failed
    names = {tier["name"] for tier in certificate["tiers"] if tier["passed"]}
    assert {"shapes", "timed-loss", "timed-gradient"} <= names
    if framework != "mindspore":  # it has no float64 convolution on a CPU
        assert {"float64-loss", "float64-gradient", "float64-losses", "float64-update"} <= names


@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_its_optimizer_alone_follows_the_formula(framework, laptop):
    (tier,) = [each for each in laptop[framework, 1]["tiers"] if each["name"] == "optimizer"]
    assert tier["passed"]
