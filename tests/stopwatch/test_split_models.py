"""A split model is measured as one model: each rank's weights are its parts, which make it once."""

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS
from edits import Replace, edit_file

from dlperf import frameworks, workloads
from dlperf.contract.layout import Layout

SIZES = {"width": 32, "layers": 2, "heads": 2, "sequence_length": 16}


def measured(environments: Path, out: Path, layout: Layout, framework="pytorch", scripts=SCRIPTS):
    """The record of a small GPT on two devices."""
    identity = {
        "round": "test",
        "workload": "gpt",
        "framework": framework,
        "scenario": "train",
        "precision": "fp32",
        "compiler": frameworks.of(framework).default_compiler["cpu"],
        "nodes": 1,
        "devices_per_node": 2,
        "layout": dataclasses.asdict(layout),
        "batch_size": 2,
        "data": "synthetic",
        "repetition": 1,
        **SIZES,
    }
    settings = {
        "device": "cpu",
        "warmup_steps": 1,
        "measured_steps": 3,
        "cores_per_device": 1,
        "timeout_seconds": 240,
        "seed": 1,
        "data_dir": "",
    }
    case = {"schema": "dlperf.case/2", "identity": identity, "settings": settings}
    interpreter = environments / f"{framework}.cpu/bin/python"
    command = [interpreter, "-m", "dlperf.measure", "--case", json.dumps(case), "--out", out]
    environ = dict(os.environ, PYTHONPATH=str(scripts))
    subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, check=True)
    return json.loads(out.read_text())


LAYOUTS = [
    Layout(tensor_parallel=2),
    Layout(pipeline_parallel=2, accumulation=2),
    pytest.param(Layout(zero_stage=3), marks=pytest.mark.full),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda each: "-".join(each.asked()))
def test_it_has_a_record_with_the_weights_of_each_rank(environments, tmp_path, layout):
    record = measured(environments, tmp_path / "rep1.json", layout)
    assert record["status"] == "ok", record["reason"]
    weights = record["weights"]
    assert len({each["sha256"] for each in weights}) == 2, "each rank has its own part"
    assert all(0 < each["change"] < 1 and each["unchanged"] == 0 for each in weights)
    assert record["parity"]["parameters"] == workloads.parameter_count("gpt", SIZES)
    assert len(record["steps"]["loss"]) == 3
    replicas = layout.data_parallel(2)
    assert record["samples"] == 3 * 2 * replicas * layout.accumulation


@pytest.mark.parametrize(
    ("framework", "layout"),
    [
        ("jax", Layout(tensor_parallel=2)),
        ("deepspeed", Layout(zero_stage=3)),
        pytest.param("tensorflow", Layout(tensor_parallel=2), marks=pytest.mark.full),
        pytest.param("megatron", Layout(tensor_parallel=2), marks=pytest.mark.full),
        pytest.param("mindspore", Layout(tensor_parallel=2), marks=pytest.mark.full),
        pytest.param("paddlepaddle", Layout(tensor_parallel=2), marks=pytest.mark.full),
        pytest.param("oneflow", LAYOUTS[1], marks=pytest.mark.full),
    ],
)
def test_it_has_a_record_in_other_frameworks_too(environments, tmp_path, framework, layout):
    record = measured(environments, tmp_path / "rep1.json", layout, framework)
    assert record["status"] == "ok", record["reason"]
    assert len({each["sha256"] for each in record["weights"]}) == 2


#: A rank that takes itself for the first.
AS_FIRST = """
def as_first(run):
    import dataclasses

    return dataclasses.replace(run, rank=0)
"""


@pytest.mark.parametrize(
    ("module", "edit", "said"),
    [
        (
            "parallel",
            Replace(
                "parts",
                "workloads.parts_of(run)",
                "workloads.parts_of(as_first(run))",
                definitions=AS_FIRST,
            ),
            "are there twice",
        ),
        (
            "training",
            Replace(
                "Weights.read",
                "self.named.items()",
                "[each for each in self.named.items() if each[0] != 'layer0.ffn1.bias']",
            ),
            "tensors were not trained: layer0.ffn1.bias",
        ),
    ],
    ids=["one part twice", "a part of nobody"],
)
def test_ranks_whose_parts_are_not_one_model_have_no_speed(
    environments, tmp_path, module, edit, said
):
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    edit_file(edit, scripts / f"dlperf/frameworks/pytorch/{module}.py")
    layout = Layout(tensor_parallel=2)
    record = measured(environments, tmp_path / "rep1.json", layout, scripts=scripts)
    assert record["status"] == "crashed"
    assert said in record["reason"]
    assert not record["window"]
