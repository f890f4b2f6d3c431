"""Every framework trains both workloads for real, on one and two devices, and says what it had."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from conftest import CPU_FRAMEWORKS, one_of_all

from dlperf import plan, workloads
from dlperf.plan import expand, load
from dlperf.scenarios import quality

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "scripts/dlperf/measure/record.schema.json").read_text())


WORKLOADS = {
    "resnet50": {"batch_sizes": [4], "image_size": 64},
    "bert": {"batch_sizes": [1], "sequence_length": 32, "clip": [True]},
}


def measure(framework: str, devices: int, out: Path, workload="resnet50", **changes) -> dict:
    """One repetition on the laptop round's data, small, with what the plan would ask for."""
    precision = changes.get("precision", "fp32")
    small = WORKLOADS[workload]
    config = load(
        {
            "round": "test",
            "device": "cpu",
            "frameworks": [framework],
            "workloads": {
                workload: {
                    **small,
                    "precisions": [precision],
                    "compilers": [changes.get("compiler", "default")],
                    "batch_sizes": {precision: small["batch_sizes"]},
                    "data": ["sample"],
                }
            },
            "topologies": [f"1n{devices}d"],
            "repetitions": 1,
            "steps": {"warmup": 1, "measured": 3},
            "timeout_seconds": 240,
        }
    )
    (case,) = expand(config)
    return measured(case, config, out)


def measured(case, config, out: Path) -> dict:
    """The record of the case's first repetition."""
    assert not case.unsupported, case.unsupported
    command = [sys.executable, "-m", "dlperf.measure"]
    command += ["--case", json.dumps(plan.document(case, config, 1)), "--out", str(out)]
    command += ["--environment", f"results/environments/{case.framework}.cpu/env.json"]
    environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads(out.read_text())
    assert record["status"] == "ok", record["reason"] + done.stderr[-3000:]
    jsonschema.validate(record, SCHEMA)
    return record


# These train on two devices in the tests of rounds and of clusters, too.
ELSEWHERE = ("pytorch", "mxnet")


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.full), 2])
@pytest.mark.parametrize(
    "framework",
    [
        pytest.param(name, marks=pytest.mark.full) if name in ELSEWHERE else name
        for name in CPU_FRAMEWORKS
    ],
)
def test_it_trains(framework, devices, environments, sample_data, tmp_path):
    record = measure(framework, devices, tmp_path / "rep1.json")
    assert record["samples"] == 3 * 4 * devices
    assert len(record["window"]) == len(record["memory"]) == devices
    assert record["parity"]["parameters"] == 25557032
    assert record["parity"]["framework_version"]
    assert record["parity"]["layout"]
    assert (record["parity"]["collective"] is not None) == (devices == 2)
    # Untrained, on 1000 classes with smoothed labels: about ln 1000 = 6.9
    assert all(math.isfinite(loss) and 4 < loss < 10 for loss in record["steps"]["loss"])
    assert 0 < record["host"]["cpu_time_over_wall"] < 1.2  # a machine of others gives little


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_it_trains_bert(framework, environments, prose, tmp_path):
    """On two devices, with dropout; certificates run its steps on one device, without."""
    record = measure(framework, 2, tmp_path / "rep1.json", "bert")
    assert record["samples"] == 3 * 1 * 2
    assert record["parity"]["parameters"] == 110106428
    assert record["parity"]["clip"] != "none"
    # Untrained: about ln 30522 + ln 2 = 11.0
    assert all(9 < loss < 13 for loss in record["steps"]["loss"])


@pytest.mark.parametrize(
    ("framework", "precision", "compiler"),
    [
        ("pytorch", "amp", "off"),
        pytest.param("tensorflow", "amp", "off", marks=pytest.mark.full),
        pytest.param("mxnet", "fp32", "off", marks=pytest.mark.full),
        pytest.param("paddlepaddle", "fp32", "off", marks=pytest.mark.full),
        ("oneflow", "fp32", "on"),
        pytest.param("jax", "amp", "on", marks=pytest.mark.full),
    ],
)
def test_other_modes_train_too(framework, precision, compiler, environments, sample_data, tmp_path):
    out = tmp_path / "rep1.json"
    record = measure(framework, 1, out, precision=precision, compiler=compiler)
    assert record["parity"]["precision"] == precision
    dtype = record["parity"]["compute_dtype"]
    assert ("bfloat16" if precision == "amp" else "float32") in dtype


def test_a_config_knows_how_many_rows_the_sample_of_clicks_needs(criteo):
    manifest = json.loads((criteo / "manifest.json").read_text())
    needed = workloads.data("wide_deep")["sample"].least["vocabulary"]
    assert needed == max(manifest["wide"], manifest["deep"])


def test_wide_deep_learns_from_the_sample_of_clicks(environments, criteo, tmp_path):
    """Over two devices, of which the first tests all rows that are held out."""
    mapping = yaml.safe_load((ROOT / "config/rounds/wide-deep-quality.yaml").read_text())
    mapping["frameworks"], mapping["topologies"] = ["pytorch"], ["1n2d"]
    mapping["workloads"]["wide_deep"]["batch_sizes"] = {"fp32": [256]}
    mapping["workloads"]["wide_deep"]["quality"]["evaluations"] = 2
    config = load(mapping)
    (case,) = expand(config)
    record = measured(case, config, tmp_path / "record.json")
    assert [point["count"] for point in record["curve"]] == [8333, 8333]
    first, last = quality.scores(record)
    assert 0.7 < first < last < 0.9
    assert quality.reached(record) == record["curve"][1]
