"""The CUDA environments: which GPUs they are for, and that their locks can still be installed.

Nothing here needs a GPU. `make test-full` asks the package index.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from small_project import small_project

from dlperf import environments
from dlperf.environments import files, interpreters
from dlperf.environments.__main__ import main
from dlperf.environments.commands import uv_environ
from dlperf.environments.lock import PLATFORM
from dlperf.measure import by_hand
from dlperf.plan.estimate import gigabytes

ENVS = environments.FILES
NAMES = sorted(path.name.removesuffix(".lock.txt") for path in ENVS.glob("*.cuda.lock.txt"))
# Not MXNet, which cannot be imported without a driver.
SMALLEST = ("tensorflow1", "oneflow", "mindspore")


@pytest.fixture
def project(tmp_path, monkeypatch):
    return small_project(tmp_path, monkeypatch)


def build_of(name: str) -> files.Build:
    return files.build_section(name.partition(".")[0], name, ENVS / f"{name}.yaml")


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_says_for_which_gpus_and_driver_it_is(name):
    build = build_of(name)
    has = build.capabilities
    assert all(re.fullmatch(r"\d+\.\d", each) for each in [*has["sass"], has["ptx"] or "0.0"])
    assert has["sass"] and build.driver.isdigit()
    assert bool(has["ptx"]) == has["ptx_driver"].isdigit()


@pytest.mark.parametrize("name", NAMES)
def test_each_can_ask_nvml_for_the_energy_of_a_card(name):
    assert "nvidia-ml-py" in files.locked(ENVS / f"{name}.lock.txt")


@pytest.mark.parametrize("name", ["mxnet", "paddlepaddle", "tensorflow1"])
def test_what_does_not_run_on_hopper_names_a_container_that_does(name):
    content = files.read_yaml(ENVS / f"{name}.cuda.yaml")
    assert content["container"].startswith("docker://")
    # without `--sdm apptainer` it is built from its lock as before
    assert files.load(name, ENVS / f"{name}.cuda.yaml").python


HAS = {"sass": ["8.0", "9.0"], "ptx": "", "ptx_driver": ""}
GPUS = f"tiny: {{capabilities: {HAS}, driver: '525'}}\n"


def test_env_json_says_what_the_locked_build_is_for(project):
    (project.envs / "build.yaml").write_text(GPUS)
    built = project.build()
    assert (built["capabilities"], built["driver"]) == (HAS, "525")


def test_nothing_is_known_of_the_gpus_of_a_users_own_build(project):
    (project.envs / "build.yaml").write_text(GPUS)
    own = project.build()["interpreter"]
    built = project.build("--backend", "interpreter", "--interpreter", own)
    assert (built["capabilities"], built["driver"]) == ({}, "")


@pytest.mark.parametrize(
    "wrong",
    [
        "tiny: {capabilities: {sass: [8.0], ptx: '', ptx_driver: ''}}",  # a number, not a text
        "tiny: {capabilities: {sass: ['8.0']}}",
        "tiny: {driver: 525}",
    ],
)
def test_a_wrong_capability_in_build_yaml_is_named(project, wrong):
    (project.envs / "build.yaml").write_text(wrong)
    reason = project.build()["reason"]
    assert "build.yaml: tiny.cpu: capabilities, driver: must be like" in reason
    assert "each number in quotes" in reason


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_lock_can_be_resolved(name, tmp_path):
    python, _ = files.dependencies(ENVS / f"{name}.yaml", files.read_yaml(ENVS / f"{name}.yaml"))
    command = [interpreters.uv(), "pip", "install", "--dry-run", "--require-hashes"]
    command += ["--target", str(tmp_path), "--python-version", python]
    command += ["--python-platform", PLATFORM, "-r", str(ENVS / f"{name}.lock.txt")]
    answer = subprocess.run(command, env=uv_environ(()), capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = re.findall(r"^ \+ (\S+)==", answer.stderr, re.MULTILINE)
    assert sorted(found) == sorted(files.locked(ENVS / f"{name}.lock.txt"))


@pytest.mark.full
@pytest.mark.parametrize("framework", SMALLEST)
def test_a_cuda_environment_installs_and_trains_on_a_cpu(framework, tmp_path):
    """What of it needs no GPU: it is installed and imported, and a page trains from its wheels."""
    name, sizes = f"{framework}.cuda", environments.estimate(framework, "cuda")
    needed = sizes["size_bytes"] + sizes["download_bytes"]  # which the installer keeps
    if shutil.disk_usage(tmp_path).free < needed + 2e9:
        pytest.skip(f"{name} takes {gigabytes(needed)} with its downloads: too little disk")
    command = ["build", "--framework", framework, "--device", "cuda", "--strict"]
    command += ["--yaml", str(ENVS / f"{name}.yaml"), "--prefix", str(tmp_path / name)]
    try:
        status, built = main(command), environments.read(tmp_path / name / "env.json")
        record = trained(framework, tmp_path / name / "env.json", tmp_path / "rep1.json")
    finally:
        shutil.rmtree(tmp_path / name, ignore_errors=True)  # pytest would keep gigabytes
    assert status == 0
    assert built["status"] == "ok" and built["lock_differences"] == []
    assert built["capabilities"] == build_of(name).capabilities
    assert any(each.startswith("nvidia-ml-py==") for each in built["freeze"])
    assert record["status"] == "ok", record["reason"]


def trained(framework: str, environment: Path, out: Path) -> dict:
    """The record of a small ResNet-50 on the CPU."""
    case = by_hand.document(
        {"workload": "resnet50", "framework": framework, "device": "cpu", "batch_size": 2}
        | {"image_size": 32, "warmup_steps": 1, "measured_steps": 2, "cores_per_device": 1}
    )
    command = [sys.executable, "-m", "dlperf.measure", "--case", json.dumps(case)]
    command += ["--environment", str(environment), "--out", str(out)]
    environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())
