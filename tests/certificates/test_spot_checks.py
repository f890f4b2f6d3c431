"""The process that is timed is the one that is proved: real spot runs, replayed, and false ones."""

import json

import pandas
import pytest
from conftest import SCRIPTS, snakemake, the_first
from edits import edit_file
from spot import Spot, check, data_folder, failed, measured
from test_mutations import copied
from wrong.bodies import False_, of
from wrong.timed import BEHIND, FALSE, FALSE_ANSWERS, FALSE_IN_BFLOAT16, infers

from dlperf.analysis.round import disturbances
from dlperf.scenarios.train import window_seconds

#: That of Criteo's sample.
VOCABULARY = (("vocabulary", 26000),)
HONEST = [
    of("gpt", "pytorch"),
    of("wide_deep", "mxnet", devices=2),
    *(
        pytest.param(each, marks=pytest.mark.full)
        for each in (
            of("wide_deep", "mxnet", devices=2, scenario="infer", layout=VOCABULARY, data="sample"),
            of("wide_deep", "pytorch", precision="amp", searched="batch_size"),
            of("gpt", "jax", devices=2, layout=(("tensor_parallel", 2),)),
            of("gpt", "pytorch", devices=2, layout=(("pipeline_parallel", 2), ("accumulation", 2))),
            of("gpt", "deepspeed", devices=2, layout=(("zero_stage", 3),)),
            of("wide_deep", "oneflow"),
            *(of("wide_deep", each, precision="amp") for each in ("tensorflow", "jax", "mxnet")),
            *(of("resnet50", each, precision="amp") for each in ("pytorch", "jax", "mxnet")),
            *(of("gpt", each, precision="amp") for each in ("pytorch", "jax", "tensorflow")),
            of("resnet50", "pytorch"),
            of("resnet50", "jax", devices=2),
            of("insightface", "pytorch", devices=2),
            of("insightface", "mxnet", devices=2, layout=(("head", "partial"),)),
            infers("wide_deep", "tensorflow1"),
            infers("wide_deep", "paddlepaddle", "server"),
            infers("resnet50", "mindspore"),
            infers("resnet50", "pytorch"),
            infers("bert", "jax"),
            infers("resnet50", "oneflow", data="sample"),
            infers("bert", "paddlepaddle", data="sample"),
            infers("wide_deep", "jax", "server", layout=VOCABULARY, data="sample"),
            # by each framework's own reader, whose batches are kept
            *(
                of("resnet50", each, data="sample_native")
                for each in ("tensorflow", "oneflow", "paddlepaddle", "mindspore", "jax")
            ),
            of("resnet50", "mxnet", devices=2, data="sample_native"),
            of("resnet50", "pytorch", precision="amp", data="sample_native"),
            of("wide_deep", "tensorflow", searched="vocabulary"),
            of("insightface", "paddlepaddle", searched="num_classes"),
            of("bert", "mxnet", searched="batch_size"),
            infers("resnet50", "jax", searched="batch_size"),
        )
    ),
]
#: Of those that are found, so many of each kind are always tried; all of them in the full tests.
FEW = ((FALSE, 1), (FALSE_ANSWERS, 1), (FALSE_IN_BFLOAT16, 0))


def name_of(each: Spot | False_) -> str:
    spot = each.spot if isinstance(each, False_) else each
    own = [each.name.replace(" ", "-")] if isinstance(each, False_) else []
    layout = [f"{key}{value}" for key, value in spot.layout]
    scenario = [] if spot.scenario == "train" else [spot.scenario]
    scenario += [] if spot.data == "synthetic" else [spot.data]
    precision = [] if spot.precision == "fp32" else [spot.precision]
    searched = [f"searched_{spot.searched}"] if spot.searched else []
    size = [*scenario, *precision, f"{spot.devices}d", *layout, *searched]
    return "-".join([spot.workload, spot.framework, *size, *own])


def made_data_of(spot: Spot) -> None:
    """What it reads, made by the workflow where missing."""
    if folder := data_folder(spot):
        snakemake("--", f"{folder}/manifest.json")


@pytest.mark.parametrize("spot", HONEST, ids=name_of)
def test_an_honest_implementation_passes(environments, tmp_path, spot):
    made_data_of(spot)
    tiers = check(spot, SCRIPTS, tmp_path / "spot")
    assert not failed(tiers), tiers
    print(tiers)


@pytest.mark.parametrize(
    "false",
    [each for kind, few in FEW for each in the_first(few, kind)],
    ids=name_of,
)
def test_other_work_than_was_certified_is_found(environments, tmp_path, false):
    scripts = copied(SCRIPTS, tmp_path)
    page = scripts / f"dlperf/workloads/{false.spot.workload}/{false.spot.framework}.py"
    edit_file(false.edit, page)
    made_data_of(false.spot)
    tiers = check(false.spot, scripts, tmp_path / "spot")
    print(tiers)
    assert failed(tiers), tiers


@pytest.mark.parametrize(
    "false",
    [BEHIND[0], *(pytest.param(each, marks=pytest.mark.full) for each in BEHIND[1:])],
    ids=name_of,
)
def test_what_is_left_out_behind_a_spot_runs_steps_shows_in_the_pace(environments, tmp_path, false):
    """A spot run has no more steps than the trial, so it passes; a longer window is too fast."""
    scripts = copied(SCRIPTS, tmp_path)
    spot = false.spot
    edit_file(false.edit, scripts / f"dlperf/workloads/{spot.workload}/{spot.framework}.py")
    tiers = check(spot, scripts, tmp_path / "spot")
    assert not failed(tiers), tiers
    record = measured(spot, scripts, tmp_path / "record.json", minimum_seconds=2)
    assert record["status"] == "ok", record["reason"]
    # a spot run that imports more than a repetition would make every cell suspect
    spot_run = json.loads((tmp_path / "spot/run.json").read_text())
    assert spot_run["ran_beside"] == record["ran_beside"]
    steps = record["steps"]
    row = {"number": 0, "measured_steps": spot.measured_steps, "timed_steps": steps["measured"]}
    row |= {"window_seconds": window_seconds(record), "trial_seconds": steps["trial"]["seconds"]}
    assert disturbances.hurried(pandas.DataFrame([row])) == {0}, row
