"""What a trained model answers at the target, and last, is replayed: false answers are found."""

from pathlib import Path

import pytest
from conftest import SCRIPTS, the_first
from edits import edit_file
from evaluations import Evaluation, check
from spot import called, failed
from test_mutations import copied
from wrong.evaluated import FALSE, False_

HONEST = [
    Evaluation("wide_deep", "pytorch", is_met_early=True),
    Evaluation("resnet50", "jax"),
    *(
        pytest.param(each, marks=pytest.mark.full)
        for each in (
            Evaluation("resnet50", "pytorch", devices=2, is_met_early=True),
            Evaluation("resnet50", "pytorch", precision="amp"),
            Evaluation("resnet50", "tensorflow1", is_met_early=True),
            Evaluation("resnet50", "mxnet", steps=30, is_met_early=True),
            Evaluation("resnet50", "tensorflow", is_met_early=True),
            Evaluation("wide_deep", "mxnet", devices=2, is_met_early=True),
            Evaluation("wide_deep", "mindspore", is_met_early=True),
            Evaluation("wide_deep", "paddlepaddle", is_met_early=True),
            Evaluation("bert", "oneflow", is_met_early=True),
            Evaluation("electra_squad", "pytorch", is_met_early=True),
            Evaluation("electra", "pytorch", is_met_early=True),
            Evaluation("electra", "jax"),
        )
    ),
]
#: `make test` has so many of each; the full tests have all.
FEW = 2


def name_of(each: Evaluation | False_) -> str:
    made = each.made if isinstance(each, False_) else each
    own = [each.name.replace(" ", "-")] if isinstance(each, False_) else []
    return "-".join([made.workload, made.framework, f"{made.devices}d", made.precision, *own])


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "digits"
    called(SCRIPTS, "dlperf.prepare.digits", f"--out={folder}")
    return folder


@pytest.mark.parametrize("made", HONEST, ids=name_of)
def test_answers_that_follow_from_the_weights_pass(
    environments, criteo, prose, squad_sample, digits, tmp_path, made
):
    tiers = check(made, SCRIPTS, tmp_path / "made", digits)
    assert not failed(tiers), tiers
    print(tiers)


@pytest.mark.parametrize(
    "false",
    the_first(FEW, FALSE),
    ids=name_of,
)
def test_answers_that_do_not_are_found(environments, criteo, squad_sample, digits, tmp_path, false):
    scripts = copied(SCRIPTS, tmp_path)
    made = false.made
    edit_file(false.edit, scripts / f"dlperf/workloads/{made.workload}/{made.framework}.py")
    tiers = check(made, scripts, tmp_path / "made", digits)
    print(tiers)
    assert failed(tiers), tiers
