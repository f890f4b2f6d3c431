"""A container as an environment: how its image is pulled, and how its Python runs.

There is no engine here: a script in its place notes how it is called, and runs what should run in
the container on this machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import small_project

from dlperf.environments import FILES as ENVS
from dlperf.environments import files

ENGINE = """#!/bin/sh
(echo "$*" | tr '\\n' ' '; echo) >> {log}
case $1 in
pull) echo image > "$3" ;;
exec) while [ "$1" != sh ]; do shift; done; PATH={python}:$PATH PYTHONPATH={image} exec "$@" ;;
esac
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    return small_project(tmp_path, monkeypatch)


@pytest.fixture
def engine(project, monkeypatch):
    """Puts the script on PATH, its image has `tiny`; returns the calls so far."""
    project.build()
    image, log = project.folder / "image", project.folder / "calls"
    shutil.copytree(project.prefix / "lib/python3.11/site-packages", image)
    shutil.rmtree(project.prefix)
    (project.folder / "bin").mkdir()
    script = project.folder / "bin/apptainer"
    script.write_text(ENGINE.format(log=log, image=image, python=Path(sys.executable).parent))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("TMPDIR", raising=False)
    name_image(project, "docker://example.org/tiny:1.0")
    return lambda: log.read_text().splitlines()


def name_image(project, image):
    path = project.envs / "tiny.cpu.yaml"
    path.write_text(f"{path.read_text().partition('container:')[0]}container: {image}\n")


def test_a_container_is_pulled_once_and_gives_a_python(project, engine):
    built = project.build("--backend", "container")
    assert (built["status"], built["version"]) == ("ok", "1.0"), built["reason"]
    folder = project.prefix.parent / ".cache/containers/tiny.cpu"
    assert built["interpreter"] == str((folder / "python").relative_to(project.folder))
    assert built["lock"] == "docker://example.org/tiny:1.0" and built["lock_applied"]
    assert built["lock_sha256"] == files.sha256(folder / "image.sif")
    pull, run = engine()
    assert pull.strip() == f"pull --force {folder}/image.sif docker://example.org/tiny:1.0"
    here = project.folder
    mounts = f"--bind {ENVS.parent} --bind {here} --bind /tmp --pwd {here}"
    assert run.startswith(f"exec {mounts} {folder}/image.sif sh -c ")

    project.out.unlink()
    project.build("--backend", "container")
    assert [call.split()[0] for call in engine()] == ["pull", "exec", "exec"]
    name_image(project, "docker://example.org/tiny:2.0")
    project.build("--backend", "container")
    assert "docker://example.org/tiny:2.0" in engine()[-2]


def test_in_a_container_our_modules_come_before_those_of_the_image(project, engine):
    python = project.build("--backend", "container")["interpreter"]
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    environ = {**os.environ, "PYTHONPATH": "/ours"}
    command = [python, "-c", code, "a b", "$c"]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert said.stdout == f"/ours:{project.folder}/image ['a b', '$c']\n"


def test_a_container_on_cuda_sees_the_driver(project, engine):
    project.build("--backend", "container", "--device", "cuda")
    assert engine()[-1].startswith("exec --nv --bind ")


def test_an_image_that_is_a_file_stays_where_it_is(project, engine):
    image = project.folder / "tiny.sif"
    image.write_text("image")
    name_image(project, image)
    built = project.build("--backend", "container")
    assert built["status"] == "ok" and str(image) in engine()[-1] and len(engine()) == 1
    image.unlink()
    assert f"{image}: there is no such file" in project.build("--backend", "container")["reason"]


def test_a_container_without_an_engine_says_what_to_do(project, monkeypatch):
    name_image(project, "docker://example.org/tiny:1.0")
    monkeypatch.setenv("PATH", str(project.folder))
    reason = project.build("--backend", "container")["reason"]
    assert "neither apptainer nor singularity is on PATH" in reason
