"""The conda backend, with a real conda, by `snakemake --profile conda`.

The conda is real code from the package index; its channel is a folder with this machine's Python
and pip, which stands in for conda-forge. The packages of the lock come as they do for users.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import released
from conftest import ROOT

from dlperf.environments import files, interpreters

HERE = Path(__file__).resolve().parent
FRAMEWORK = "mxnet"  # the smallest
CERTIFICATE = f"results/certificates/resnet50/{FRAMEWORK}/cpu-fp32-static-1.json"

pytestmark = pytest.mark.conda


@pytest.fixture(scope="module")
def conda(tmp_path_factory) -> dict[str, str]:
    """A conda and its channel; returns the variables that put them to use."""
    folder = tmp_path_factory.mktemp("conda")
    base, alias = folder / "base", folder / "alias"
    python = base / "bin/python"
    uv = interpreters.uv()
    base_python = Path(sys.base_prefix) / "bin/python3"
    check([uv, "venv", "--quiet", "--no-project", "--python", base_python, base])
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", python]
    check([*install, "-r", HERE / "requirements.txt"])
    check([python, HERE / "devendor_conda.py"])
    check([python, HERE / "make_channel.py", alias / "conda-forge", sys.base_prefix])
    condarc = folder / "condarc.yaml"  # conda reads $CONDARC only when it ends in .yaml
    settings = {
        "channel_priority": "strict",
        "solver": "classic",
        "channel_alias": alias.as_uri(),
        "default_channels": [],
        "channels": [],
        "pkgs_dirs": [str(folder / "pkgs")],
        "envs_dirs": [str(folder / "envs")],
        "notify_outdated_conda": False,
    }
    condarc.write_text(json.dumps(settings))  # JSON is YAML
    binaries = folder / "bin"  # conda alone: not the Python that runs it
    binaries.mkdir()
    (binaries / "conda").symlink_to(base / "bin/conda")
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    return {**os.environ, "CONDARC": str(condarc), "PATH": path}


def check(command) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def folder(checkout) -> Path:
    """A copy of the repository that shares no environments and certificates with it."""
    for shared in ("environments", "certificates"):
        (checkout / "results" / shared).unlink()
    (checkout / "results/environments").mkdir()
    released.as_of_this_code(checkout / "certificates")
    return checkout


def snakemake(folder, conda, *targets) -> str:
    done = subprocess.run(
        [Path(sys.executable).parent / "snakemake", "--profile", "conda", "--", *targets],
        cwd=folder,
        env=conda,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_conda_makes_python_and_the_lock_everything_else(conda, folder):
    target = f"results/environments/{FRAMEWORK}.cpu/env.json"
    snakemake(folder, conda, target, CERTIFICATE)
    built = json.loads((folder / target).read_text())
    assert (built["status"], built["backend"]) == ("ok", "conda"), built["reason"]
    assert built["interpreter"].startswith(".snakemake/conda/")
    lock = folder / f"envs/{FRAMEWORK}.cpu.lock.txt"
    assert built["lock_sha256"] == files.sha256(lock)
    assert (built["lock_applied"], built["lock_differences"]) == (True, [])
    assert {each.split("-")[0] for each in built["conda"]} == {"python", "pip"}
    said = subprocess.run(
        [folder / built["interpreter"], "-c", f"import {FRAMEWORK}, sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
    )
    assert "/.snakemake/conda/" in said.stdout, said.stderr
    # beside these wheels a certificate that was released with them holds
    released = (folder / CERTIFICATE.removeprefix("results/")).read_bytes()
    assert (folder / CERTIFICATE).read_bytes() == released

    # a site pins what conda makes, and gets it again, and the same wheels in it
    prefix = (folder / built["interpreter"]).parent.parent
    pins = subprocess.run(
        ["conda", "list", "--explicit", "--md5", "--prefix", prefix],
        env=conda,
        capture_output=True,
        text=True,
    ).stdout
    (folder / f"envs/{FRAMEWORK}.cpu.linux-64.pin.txt").write_text(pins)
    (folder / target).unlink()
    assert "Using pinnings from" in snakemake(folder, conda, target)
    again = json.loads((folder / target).read_text())
    assert again["interpreter"] != built["interpreter"]
    for key in ("status", "conda", "freeze", "lock_sha256", "lock_applied"):
        assert again[key] == built[key]


def test_a_wheel_that_the_lock_does_not_name_is_not_installed(conda, folder):
    """The version is right, the file is another one: the round goes on without that framework."""
    lock = folder / f"envs/{FRAMEWORK}.cpu.lock.txt"
    lock.write_text(re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", lock.read_text()))
    target = f"results/environments/{FRAMEWORK}.cpu/env.json"
    snakemake(folder, conda, target)
    built = json.loads((folder / target).read_text())
    assert built["status"] == "failed" and "wrong hash: " in built["reason"]
    assert built["lock_applied"] is False


@pytest.mark.full
def test_conda_makes_the_workflows_own_environment(conda, tmp_path):
    """With the versions of its lock; the workflow runs in it."""
    workflow, prefix = tmp_path / "workflow.yaml", tmp_path / "workflow"
    shutil.copy(ROOT / "envs/workflow.yaml", workflow)  # conda writes beside it
    make = ["conda", "env", "create", "--quiet", "--file", workflow, "--prefix", prefix]
    done = subprocess.run(make, env=conda, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = [prefix / "bin/python", "-m", "pip", "list", "--format", "freeze"]
    freeze = subprocess.run(listed, capture_output=True, text=True).stdout.splitlines()
    assert files.differences(freeze, ROOT / "envs/workflow.lock.txt") == []
    plan = [prefix / "bin/snakemake", "-s", ROOT / "Snakefile", "--cores", "1", "plan"]
    done = subprocess.run(plan, cwd=tmp_path, capture_output=True, text=True)
    assert "Round laptop: " in done.stdout, done.stderr
