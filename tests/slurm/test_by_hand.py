"""Over nodes by hand, without Snakemake: each framework's ranks, and a certificate, by `srun`."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT, one_of_all

from dlperf import frameworks
from dlperf.contract.layout import Layout


def on_two_nodes(module: str, *arguments: object) -> str:
    """Run a module by hand in an allocation of two nodes; what it said on stderr."""
    geometry = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mem=0"]
    command = [sys.executable, "-m", module, *map(str, arguments), "--interface", "lo"]
    done = subprocess.run(
        [
            "salloc",
            "--quiet",
            "--exclusive",
            *geometry,
            *command,
            "--launcher",
            f"srun {' '.join(geometry)}",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


@pytest.mark.full
def test_a_certificate_over_two_nodes(cluster, environments, reference, sample_data, tmp_path):
    cluster.wait_for_nodes()
    pair = ["--workload", "resnet50", "--framework", "pytorch", "--layout", "dp2-2n"]
    inputs = ["--reference", reference, "--data-dir", sample_data]
    inputs += ["--environment", environments / "pytorch.cpu/env.json"]
    out = tmp_path / "certificate.json"
    said = on_two_nodes("dlperf.certify", *pair, *inputs, "--out", out)
    certificate = json.loads(out.read_text())
    assert certificate["passed"], f"{certificate['tiers']}\n{said[-3000:]}"
    assert certificate["provenance"]["nodes"] == 2


@pytest.mark.parametrize("framework", one_of_all("tensorflow1"))
def test_every_framework_over_nodes_and_devices(
    framework, cluster, environments, sample_data, tmp_path
):
    """Two nodes with two ranks each, by hand."""
    cluster.wait_for_nodes()
    identity = {
        "round": "x",
        "workload": "resnet50",
        "framework": framework,
        "scenario": "train",
        "precision": "fp32",
        "compiler": frameworks.of(framework).default_compiler["cpu"],
        "nodes": 2,
        "devices_per_node": 2,
        "layout": dataclasses.asdict(Layout()),
        "batch_size": 2,
        "data": "sample",
        "repetition": 1,
        "image_size": 32,
    }
    settings = {
        "device": "cpu",
        "warmup_steps": 1,
        "measured_steps": 1,
        "cores_per_device": 1,
        "timeout_seconds": 150,
        "seed": 1,
        "data_dir": str(sample_data),
    }
    case = json.dumps({"identity": identity, "settings": settings})
    environment = environments / f"{framework}.cpu/env.json"
    out = tmp_path / "rep1.json"
    said = on_two_nodes(
        "dlperf.measure", "--case", case, "--environment", environment, "--out", out
    )
    record = json.loads(out.read_text())
    assert record["status"] == "ok", f"{record['reason']}\n{said[-3000:]}"
    nodes = [each["node"] for each in record["window"]]
    assert nodes[0] == nodes[1] < nodes[2] == nodes[3]
    # from the same weights, on the same photographs, whatever the framework
    assert record["steps"]["loss"][0] == pytest.approx(7.0894, abs=0.001)
