"""The process that is timed is the one that is proved: real spot runs, replayed, and false ones."""

import pytest
from conftest import SCRIPTS
from edits import edit_file
from spot import Spot, check, failed
from test_mutations import copied
from wrong.timed import FALSE, FALSE_ANSWERS, False_, infers, of

HONEST = [
    of("gpt", "pytorch"),
    of("gpt", "jax", devices=2, layout=(("tensor_parallel", 2),)),
    of("wide_deep", "mxnet", devices=2),
    of("wide_deep", "mxnet", devices=2, scenario="infer"),
    *(
        pytest.param(each, marks=pytest.mark.full)
        for each in (
            of("gpt", "pytorch", devices=2, layout=(("pipeline_parallel", 2), ("accumulation", 2))),
            of("gpt", "deepspeed", devices=2, layout=(("zero_stage", 3),)),
            of("wide_deep", "oneflow"),
            of("resnet50", "pytorch"),
            of("resnet50", "jax", devices=2),
            of("insightface", "pytorch", devices=2),
            of("insightface", "mxnet", devices=2, layout=(("head", "partial"),)),
            infers("wide_deep", "tensorflow1"),
            infers("wide_deep", "paddlepaddle", "server"),
            infers("resnet50", "mindspore"),
            infers("resnet50", "pytorch"),
            infers("bert", "jax"),
        )
    ),
]
#: Of those that are found, two of each kind are always tried; all of them in the full tests.
FEW = 2


def name_of(each: Spot | False_) -> str:
    spot = each.spot if isinstance(each, False_) else each
    own = [each.name.replace(" ", "-")] if isinstance(each, False_) else []
    layout = [f"{key}{value}" for key, value in spot.layout]
    scenario = [] if spot.scenario == "train" else [spot.scenario]
    return "-".join([spot.workload, spot.framework, *scenario, f"{spot.devices}d", *layout, *own])


@pytest.mark.parametrize("spot", HONEST, ids=name_of)
def test_an_honest_implementation_passes(environments, tmp_path, spot):
    tiers = check(spot, SCRIPTS, tmp_path / "spot")
    assert not failed(tiers), tiers
    print(tiers)


@pytest.mark.parametrize(
    "false",
    [
        *FALSE[:FEW],
        *FALSE_ANSWERS[:FEW],
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in [*FALSE[FEW:], *FALSE_ANSWERS[FEW:]]
        ),
    ],
    ids=name_of,
)
def test_other_work_than_was_certified_is_found(environments, tmp_path, false):
    scripts = copied(SCRIPTS, tmp_path)
    page = scripts / f"dlperf/workloads/{false.spot.workload}/{false.spot.framework}.py"
    edit_file(false.edit, page)
    tiers = check(false.spot, scripts, tmp_path / "spot")
    print(tiers)
    assert failed(tiers), tiers
