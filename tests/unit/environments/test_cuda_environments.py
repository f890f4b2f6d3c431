"""The CUDA environments: which GPUs they are for, and that their locks can still be installed.

Nothing here needs a GPU. `make test-full` asks the package index.
"""

import re
import shutil
import subprocess

import pytest
from small_project import small_project

from dlperf import environments
from dlperf.environments import files, interpreters
from dlperf.environments.__main__ import main
from dlperf.environments.commands import uv_environ
from dlperf.environments.lock import PLATFORM

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
def test_a_cuda_environment_installs_and_imports_without_a_gpu(framework, tmp_path):
    name = f"{framework}.cuda"
    command = ["build", "--framework", framework, "--device", "cuda", "--strict"]
    command += ["--yaml", str(ENVS / f"{name}.yaml"), "--prefix", str(tmp_path / name)]
    status, built = main(command), environments.read(tmp_path / name / "env.json")
    shutil.rmtree(tmp_path / name)  # pytest would keep gigabytes
    assert status == 0
    assert built["status"] == "ok" and built["lock_differences"] == []
    assert built["capabilities"] == build_of(name).capabilities
    assert any(each.startswith("nvidia-ml-py==") for each in built["freeze"])
