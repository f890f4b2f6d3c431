"""A real limit of memory: what a framework does when it is reached is recorded as what it is."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import CPU_FRAMEWORKS, ROOT
from test_stopwatch import case

from dlperf import frameworks

GIB = 2**30
#: Private memory that a framework needs to start at all, and not for ResNet-50's batch of 256.
LIMITS = {"mindspore": 3 * GIB}
SHORT = ("pytorch",)


def under(limit: int, environments: Path, framework: str, out: Path, **changes) -> dict:
    changes = {"devices_per_node": 1, "warmup_steps": 1, "measured_steps": 1, **changes}
    document = json.loads(case(**changes))
    document["identity"].update(
        framework=framework, compiler=frameworks.of(framework).default_compiler["cpu"]
    )
    python = environments / "pytorch.cpu/bin/python"
    environment = environments / f"{framework}.cpu/env.json"
    done = subprocess.run(
        ["prlimit", f"--data={limit}", python, "-m", "dlperf.measure"]
        + ["--case", json.dumps(document), "--environment", environment, "--out", out],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "scripts")),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize(
    "framework",
    [
        each if each in SHORT else pytest.param(each, marks=pytest.mark.full)
        for each in CPU_FRAMEWORKS
    ],
)
def test_a_batch_beyond_the_limit_is_an_oom(environments, tmp_path, framework):
    limit = LIMITS.get(framework, 2 * GIB)
    out = tmp_path / "rep1.json"
    record = under(limit, environments, framework, out, batch_size=256, image_size=64)
    assert record["status"] == "oom", record["reason"]


def test_a_timeout_under_a_limit_is_a_timeout(environments, tmp_path):
    out = tmp_path / "rep1.json"
    # More steps than any machine does in the time that it is given.
    asked = {"timeout_seconds": 3, "measured_steps": 10**6}
    record = under(8 * GIB, environments, "pytorch", out, **asked)
    assert record["status"] == "timeout"
