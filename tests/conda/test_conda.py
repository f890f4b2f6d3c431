"""The conda backend, with a real conda: the unmodified YAML, built by `snakemake --sdm conda`.

The conda is real code from the package index; its channel is a folder with this machine's Python
and pip, which stands in for conda-forge. Everything under `pip:` comes as it does for users.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlperf.environments import files, interpreters

HERE = Path(__file__).resolve().parent
FRAMEWORK = "mxnet"  # the smallest

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
    """A copy of the repository that shares no environments with it."""
    environments = checkout / "results/environments"
    environments.unlink()
    environments.mkdir()
    return checkout


def test_snakemake_builds_the_environment_from_the_same_yaml(conda, folder):
    target = f"results/environments/{FRAMEWORK}.cpu/env.json"
    snakemake = Path(sys.executable).parent / "snakemake"
    done = subprocess.run(
        [snakemake, "--profile", "profiles/conda", "--", target],
        cwd=folder,
        env=conda,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = json.loads((folder / target).read_text())
    assert (built["status"], built["backend"]) == ("ok", "conda"), built["reason"]
    assert built["interpreter"].startswith(".snakemake/conda/")
    lock = folder / f"envs/{FRAMEWORK}.cpu.lock.txt"
    assert built["lock_sha256"] == files.sha256(lock)
    assert built["lock_differences"] == []  # the same versions
    assert built["lock_applied"] is False  # but conda checks no hash
    said = subprocess.run(
        [folder / built["interpreter"], "-c", f"import {FRAMEWORK}, sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
    )
    assert "/.snakemake/conda/" in said.stdout, said.stderr
