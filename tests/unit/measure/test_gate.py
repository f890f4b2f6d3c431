"""A processor without what a build needs for bfloat16; cards and drivers are in test_gpus.py."""

import dataclasses
import json

import pytest
from conftest import ROOT

from dlperf.contract.layout import Layout
from dlperf.environments import EnvironmentProblem, files
from dlperf.measure import gate, host, stopwatch

#: Flags of an AMD EPYC of the third generation, and of an Intel Xeon of the third.
ZEN3 = ["fma", "avx", "avx2"]
ICE_LAKE = [*ZEN3, "avx512f", "avx512dq", "avx512bw", "avx512vl"]


def measured(monkeypatch, tmp_path, precision, features, framework="mxnet"):
    """The record of a case on a CPU whose rank, if it is started, ends at once."""
    facts = host.facts()
    monkeypatch.setattr(host, "facts", lambda: {**facts, "cpu_features": features, "cpu": "a CPU"})
    build = files.build_section(framework, f"{framework}.cpu", ROOT / f"envs/{framework}.cpu.yaml")
    document = {
        **{"status": "ok", "framework": framework, "version": "1.9", "interpreter": "/bin/false"},
        "bfloat16": list(build.bfloat16),
    }
    path = tmp_path / "env.json"
    path.write_text(json.dumps(document))
    identity = {
        **{"round": "x", "workload": "resnet50", "framework": framework, "compiler": "none"},
        **{"precision": precision, "batch_size": 2, "image_size": 32, "scenario": "train"},
        **{"nodes": 1, "devices_per_node": 1, "layout": dataclasses.asdict(Layout())},
        **{"data": "synthetic", "repetition": 1},
    }
    settings = {
        **{"device": "cpu", "warmup_steps": 1, "measured_steps": 1, "cores_per_device": 1},
        **{"timeout_seconds": 60, "seed": 1, "data_dir": ""},
    }
    with open(tmp_path / "log", "w") as log:
        return stopwatch.measure({"identity": identity, "settings": settings}, str(path), log=log)


@pytest.mark.parametrize("precision", ["amp", "amp_bf16"])
def test_bfloat16_without_avx512_is_unsupported_in_mxnet(monkeypatch, tmp_path, precision):
    record = measured(monkeypatch, tmp_path, precision, ZEN3)
    assert record["status"] == "unsupported"
    assert record["reason"] == (
        "mxnet 1.9 computes in bfloat16 only on a processor with avx512f, avx512bw, avx512dq, "
        f"avx512vl; a CPU of {host.name()} has none"
    )


@pytest.mark.parametrize(
    ("precision", "features", "framework"),
    [("fp32", ZEN3, "mxnet"), ("amp", ICE_LAKE, "mxnet"), ("amp", ZEN3, "pytorch")],
)
def test_what_a_processor_can_is_started(monkeypatch, tmp_path, precision, features, framework):
    record = measured(monkeypatch, tmp_path, precision, features, framework)
    assert record["status"] == "crashed" and "ended with exit status 1" in record["reason"]


def test_builds_of_which_nothing_is_known_are_not_judged():
    """Those of containers and of a user's own Python, and env.json of an earlier version."""
    facts = {"cpu_features": ZEN3, "cpu": "a CPU"}
    for environment in ({"bfloat16": []}, {}):
        assert gate.no_bfloat16(environment, "amp", facts, "n1") == ""


def test_all_that_is_missing_is_named():
    needs = {"framework": "mxnet", "version": "1.9", "bfloat16": ["avx512f", "avx512bw"]}
    facts = {"cpu_features": [*ZEN3, "avx512f"], "cpu": "a Knights Landing"}
    said = gate.no_bfloat16(needs, "amp", facts, "n1")
    assert "with avx512bw; a Knights Landing of n1 has none" in said


@pytest.mark.parametrize("written", ["avx512f", "[1]", "{a: b}"])
def test_what_is_no_list_of_flags_is_one_message(tmp_path, written):
    (tmp_path / "build.yaml").write_text(f"tiny: {{bfloat16: {written}}}\n")
    with pytest.raises(EnvironmentProblem, match="tiny.cpu: bfloat16: .* is no list of texts"):
        files.build_section("tiny", "tiny.cpu", tmp_path / "tiny.cpu.yaml")
