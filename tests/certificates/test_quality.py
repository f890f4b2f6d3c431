"""A training to a quality is certified by its rates, tests and new starts: wrong ones fail."""

from pathlib import Path

import pytest
from conftest import SCRIPTS
from mutations import Mutation
from test_mutations import assert_fails, certificate_of, run

WRONG = [
    Mutation(
        "a rate that stays",
        "pytorch",
        "none",
        'group["lr"] = rate',
        "pass",
        tier="float64-losses",
    ),
    Mutation(
        "tested in training mode",
        "pytorch",
        "none",
        "        alone.eval()\n        with",
        "        with",
        tier="float64-tested",
    ),
    Mutation(
        "moments that stay",
        "pytorch",
        "none",
        "moment.zero_()",
        "pass",
        tier="float64-again",
    ),
    Mutation(
        "a rate of one step ahead",
        "pytorch",
        "none",
        "schedule, set_rate",
        "schedule[1:], set_rate",
        tier="float64-gradient",
    ),
    Mutation(
        "a rate that stays, of JAX",
        "jax",
        "xla",
        "np.asarray(rate, there.dtype)",
        "np.asarray(schedule[0], there.dtype)",
        tier="float64-losses",
    ),
    Mutation(
        "moments that stay, of TensorFlow",
        "tensorflow",
        "none",
        "each.assign(tf.zeros_like(each))",
        "pass",
        tier="float64-again",
    ),
    Mutation(
        "tested in training mode, of TensorFlow 1",
        "tensorflow1",
        "none",
        "network(images, training=False)",
        "network(images)",
        tier="float64-tested",
    ),
]
#: Wide & Deep's tables have moments beside the optimiser's own.
TABLES = [
    Mutation(
        "moments of tables that stay",
        "pytorch",
        "none",
        "each.zero_()",
        "pass",
        tier="float64-again",
    ),
    Mutation(
        "a rate of the tables that stays",
        "pytorch",
        "none",
        'rate = self.param_groups[0]["lr"]\n',
        'rate = self.defaults["lr"]\n',
        tier="float64-losses",
    ),
    Mutation(
        "moments of tables that stay, of MXNet",
        "mxnet",
        "static",
        "moment[:] = 0",
        "pass",
        tier="float64-again",
    ),
    Mutation(
        "steps that go on, of PaddlePaddle",
        "paddlepaddle",
        "static",
        "        self.steps = 0\n",
        "",
        tier="float64-again",
    ),
]
SHOWN = WRONG[1:3]  # `make test` takes these
FULL = [
    pytest.param(each, marks=pytest.mark.full, id=each.name) for each in WRONG if each not in SHOWN
]


@pytest.fixture(scope="module")
def reference_quality(environments, sample_data, tmp_path_factory) -> Path:
    """ResNet-50's steps at changing rates, a test and a new start, by plain float64 formulas."""
    folder = tmp_path_factory.mktemp("reference")
    run(
        SCRIPTS,
        "dlperf.certify.reference",
        "--workload=resnet50",
        "--variant=quality",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={sample_data}",
        f"--out={folder}",
    )
    return folder


@pytest.mark.parametrize("mutation", SHOWN + FULL, ids=lambda each: getattr(each, "name", None))
def test_a_wrong_setting_does_not_pass(mutation, reference_quality, sample_data, tmp_path):
    found = certificate_of(mutation, "resnet50", SCRIPTS, reference_quality, sample_data, tmp_path)
    assert found["variant"] == "quality"
    assert_fails(found, mutation.tier)


@pytest.fixture(scope="module")
def wide_deep_quality(environments, criteo, tmp_path_factory) -> Path:
    """The same of Wide & Deep."""
    folder = tmp_path_factory.mktemp("wide_deep")
    run(
        SCRIPTS,
        "dlperf.certify.reference",
        "--workload=wide_deep",
        "--variant=quality",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={criteo}",
        f"--out={folder}",
    )
    return folder


@pytest.mark.full
@pytest.mark.parametrize("mutation", TABLES, ids=lambda each: each.name)
def test_a_wrong_setting_of_tables_does_not_pass(mutation, wide_deep_quality, criteo, tmp_path):
    found = certificate_of(mutation, "wide_deep", SCRIPTS, wide_deep_quality, criteo, tmp_path)
    assert found["variant"] == "quality"
    assert_fails(found, mutation.tier)


@pytest.mark.full
def test_over_two_ranks_each_tests_by_itself_and_the_loss_of_a_new_start_is_their_mean(
    reference_quality, sample_data, tmp_path
):
    two = Mutation("as it is", "pytorch", "none", "", "", layout="dp2")
    found = certificate_of(two, "resnet50", SCRIPTS, reference_quality, sample_data, tmp_path)
    assert found["passed"], found["tiers"]
    assert "float64-again-loss" in {tier["name"] for tier in found["tiers"]}
