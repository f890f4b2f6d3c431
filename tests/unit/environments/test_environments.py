"""Environments: files that agree, builds that are taken again, and errors that say what to do.

Real builds by the real uv, of a wheel made here; no package index is asked.
"""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import yaml
from small_project import Project, small_project

from dlperf import environments
from dlperf.environments import commands, conda, extras, files, interpreters
from dlperf.environments.__main__ import main
from dlperf.environments.commands import explain, without_addresses

ENVS = environments.FILES
NAMES = sorted(path.name.removesuffix(".lock.txt") for path in ENVS.glob("*.lock.txt"))
FRAMEWORKS = (
    "deepspeed",
    "jax",
    "megatron",
    "mindspore",
    "mxnet",
    "oneflow",
    "paddlepaddle",
    "pytorch",
    "tensorflow",
    "tensorflow1",
)


# The committed files


def test_every_framework_has_both_variants_and_the_workflow_has_its_own():
    pairs = [f"{framework}.{device}" for framework in FRAMEWORKS for device in ("cpu", "cuda")]
    assert sorted([*pairs, "workflow"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_yaml_and_lock_pin_the_same_packages(name):
    assert files.disagreement(ENVS / f"{name}.yaml", ENVS / f"{name}.lock.txt") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_hashes_for_all_and_no_addresses(name):
    text = (ENVS / f"{name}.lock.txt").read_text()
    assert "://" not in text
    pins = text.replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in line for line in pins if not line.startswith("#"))


@pytest.mark.parametrize("name", NAMES)
def test_conda_installs_only_python_and_pip(name):
    content = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    assert content["channels"] == ["conda-forge"]
    plain = [item for item in content["dependencies"] if isinstance(item, str)]
    assert [item.partition("=")[0] for item in plain] == ["python", "pip"]


def test_cpu_and_cuda_locks_name_different_builds_of_torch():
    cpu, cuda = (files.locked(ENVS / f"pytorch.{d}.lock.txt") for d in ("cpu", "cuda"))
    assert cpu["torch"] == f"{cuda['torch']}+cpu"
    assert hashes("pytorch.cpu", "torch").isdisjoint(hashes("pytorch.cuda", "torch"))


def hashes(name: str, package: str) -> set[str]:
    pins = (ENVS / f"{name}.lock.txt").read_text().replace("\\\n", "").splitlines()
    return set(next(line for line in pins if line.startswith(f"{package}=")).split()[1:])


def test_every_environment_has_a_size():
    for name in NAMES:
        if name != "workflow":
            size = environments.estimate(*name.split("."))
            assert 0 < size["download_bytes"] < size["size_bytes"], name


def test_the_size_of_an_unknown_environment_is_zero():
    assert environments.estimate("hugectr", "cpu") == {"download_bytes": 0, "size_bytes": 0}


def test_estimating_imports_nothing_heavy():
    code = (
        "import sys, dlperf.environments; print('yaml' in sys.modules, 'pydantic' in sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ENVS.parent / "scripts")}
    said = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert said.stdout.split() == ["False", "False"]


# Builds of a small environment


@pytest.fixture
def project(tmp_path, monkeypatch):
    return small_project(tmp_path, monkeypatch)


def test_a_build_says_what_the_environment_holds(project):
    built = project.build()
    assert built["schema"] == "dlperf.environment/1"
    assert (built["framework"], built["device"], built["backend"]) == ("tiny", "cpu", "venv")
    assert (built["status"], built["reason"]) == ("ok", "")
    assert built["interpreter"] == "results/environments/tiny.cpu/bin/python"
    assert built["python"].startswith("3.11.")
    assert built["freeze"] == ["tiny==1.0"]
    assert built["lock_applied"] and built["lock_differences"] == []
    assert built["lock_sha256"] == files.sha256(project.envs / "tiny.cpu.lock.txt")
    assert built["size_bytes"] > 0
    said = subprocess.run(
        [built["interpreter"], "-c", "import tiny; print(tiny.__version__)"],
        capture_output=True,
        text=True,
    )
    assert said.stdout == "1.0\n"
    assert not environments.failed(project.out)


def test_an_environment_is_taken_again_while_its_lock_is_the_same(project):
    project.build()
    mine = project.prefix / "mine.txt"
    mine.touch()
    project.out.unlink()  # as Snakemake does before it runs a rule again
    assert project.build()["status"] == "ok"
    assert mine.exists()


def test_a_changed_lock_builds_anew(project):
    project.build()
    mine = project.prefix / "mine.txt"
    mine.touch()
    project.define("2.0")
    assert project.build()["freeze"] == ["tiny==2.0"]
    assert not mine.exists()


def test_a_half_built_environment_is_not_taken_for_a_finished_one(project):
    project.build()
    (project.prefix / "built.json").unlink()  # the last thing that a build writes
    for path in project.prefix.rglob("tiny.py"):
        path.unlink()
    assert project.build()["status"] == "ok"


def test_an_environment_that_no_longer_imports_is_not_ok(project):
    project.build()
    for path in project.prefix.rglob("tiny.py"):
        path.unlink()
    broken = project.build()
    assert broken["status"] == "failed"
    assert "No module named 'tiny'" in broken["reason"]


def test_two_builds_at_once_do_not_trip_over_each_other(project):
    command = [sys.executable, "-m", "dlperf.environments", *project.arguments("--strict")]
    environ = {**os.environ, "PYTHONPATH": str(ENVS.parent / "scripts")}
    both = [subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert json.loads(project.out.read_text())["status"] == "ok"


def test_a_build_that_is_stopped_leaves_no_env_json(project):
    project.define("1.0", "import time; time.sleep(600)\n")
    command = [sys.executable, "-m", "dlperf.environments", *project.arguments()]
    environ = {**os.environ, "PYTHONPATH": str(ENVS.parent / "scripts")}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(project.prefix.rglob("tiny.py")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.terminate()
    assert process.wait(timeout=20) != 0
    assert not project.out.exists()
    project.define("1.0")
    assert project.build()["status"] == "ok"  # and no orphan holds the environment


# Errors


def test_a_wrong_hash_names_the_package_and_both_hashes(project, capsys):
    project.write_lock("1.0", "0" * 64)
    failed = project.build()
    assert failed["status"] == "failed"
    assert "wrong hash: tiny==1.0" in failed["reason"]
    assert "0" * 64 in failed["reason"]
    assert "Traceback" not in capsys.readouterr().err
    assert environments.failed(project.out)


def test_a_stale_lock_names_the_package_and_the_mend(project):
    project.write_yaml("1.1")
    failed = project.build()
    assert failed["status"] == "failed"
    assert "stale" in failed["reason"]
    assert "tiny is 1.1 in the YAML and 1.0 in the lock" in failed["reason"]
    assert "dlperf.environments lock --only tiny.cpu" in failed["reason"]


def test_a_missing_interpreter_names_the_version_and_three_ways(project):
    project.write_yaml("1.0", python="3.2")
    failed = project.build()
    for words in (
        "Python 3.2",
        "pyenv install 3.2",
        "uv python install 3.2",
        "interpreters: {tiny",
    ):
        assert words in failed["reason"]


def test_a_missing_lock_says_how_to_make_it(project):
    (project.envs / "tiny.cpu.lock.txt").unlink()
    assert "there is no such lock" in project.build()["reason"]


def test_what_comes_as_a_container_only_says_so(project):
    shutil.copy(ENVS / "hugectr.cuda.yaml", project.envs / "tiny.cpu.yaml")
    reason = project.build()["reason"]
    assert "merlin-hugectr" in reason and "--sdm apptainer" in reason


def test_no_space_is_said_before_anything_is_installed(project):
    table = "environment\tdownload_bytes\tsize_bytes\n"
    (project.envs / "sizes.tsv").write_text(f"{table}tiny.cpu\t1\t{10**18}\n")
    failed = project.build()
    assert "no space: tiny takes 1000000000.0 GB" in failed["reason"]
    assert not project.prefix.joinpath("bin").exists()


def test_a_folder_that_is_no_environment_is_left_alone(project):
    project.prefix.mkdir(parents=True)
    (project.prefix / "thesis.txt").touch()
    assert "nothing was removed" in project.build()["reason"]
    assert (project.prefix / "thesis.txt").exists()


def test_an_import_that_fails_is_a_failed_build(project):
    project.define("1.0", "raise ImportError('libcuda.so.1 is missing')\n")
    failed = project.build()
    assert failed["status"] == "failed"
    assert failed["reason"].endswith("ImportError: libcuda.so.1 is missing")


def test_strict_ends_with_an_error(project):
    project.write_yaml("1.1")
    assert main(project.arguments("--strict")) == 1
    assert environments.failed(project.out)


def test_what_was_written_by_something_else_counts_as_failed(tmp_path):
    path = tmp_path / "env.json"
    assert not environments.failed(path)
    path.write_text("{")
    assert environments.failed(path)


def test_reasons_hold_no_addresses():
    said = "error: Failed to fetch: `https://index.example/simple/tiny/`\n cause: dns error"
    assert "example" not in explain(said)
    assert without_addresses("from file:///srv/w/tiny.whl") == "from <address>"


# What a framework needs beyond its packages


def test_library_folders_and_variables_are_set_for_the_import_and_reported(project):
    source = """
        import os
        __version__ = "1.0"
        assert os.environ["TINY"] == "1"
        assert os.environ["LD_LIBRARY_PATH"].endswith("nvidia/tiny/lib")
    """
    project.define("1.0", textwrap.dedent(source))
    (project.envs / "build.yaml").write_text(
        "tiny: {environ: {TINY: 1}}\ntiny.cpu: {library_path: [nvidia/*/lib]}\n"
    )
    assert project.build()["status"] == "failed"  # no such folder: nothing is made up
    site = next(project.prefix.glob("lib/python*/site-packages"))
    (site / "nvidia/tiny/lib").mkdir(parents=True)
    (project.prefix / "built.json").write_text(json.dumps(finished(project)))
    environ = project.build()["environ"]
    assert environ["TINY"] == "1"
    assert environ["LD_LIBRARY_PATH"] == str(site.absolute() / "nvidia/tiny/lib")


def finished(project: Project) -> dict:
    return {
        "schema": environments.SCHEMA,
        "status": "ok",
        "lock": "tiny.cpu.lock.txt",
        "lock_sha256": files.sha256(project.envs / "tiny.cpu.lock.txt"),
    }


def test_a_key_that_nobody_knows_in_build_yaml_is_an_error(project):
    (project.envs / "build.yaml").write_text("tiny.cpu: {enviro: {TINY: 1}}\n")
    assert "unknown key 'enviro'" in project.build()["reason"]


@pytest.mark.parametrize("devices", ["one", "several"])
def test_what_several_devices_need_is_tried_only_for_them(project, devices):
    (project.envs / "build.yaml").write_text(
        "tiny:\n  distributed: {requirement: ring==1.0, sha256: '0', module: ring, "
        "tools: [no-such-compiler], environ: {}}\n"
    )
    if devices == "one":
        assert project.build()["extras"] == {}
    else:
        built = project.build("--distributed")
        assert built["status"] == "ok"  # one device still works
        assert "no-such-compiler is not on PATH" in built["extras"]["ring"]
        assert "without it only cases with one device run" in built["extras"]["ring"]


def test_a_part_that_several_devices_do_without_says_so_where_it_is_missing(project):
    (project.envs / "build.yaml").write_text(
        "tiny:\n  distributed: {requirement: ring==1.0, sha256: '0', module: ring, "
        "tools: [no-such-compiler], without: 'gradients go by post'}\n"
    )
    assert "without it gradients go by post" in project.build("--distributed")["extras"]["ring"]


def test_a_part_is_built_with_the_variables_of_its_framework(project, monkeypatch):
    """MXNet's build for CUDA cannot be imported without its library folders, nor Horovod built."""
    seen = {}

    def run(command, environ, *more, **options):
        seen.update(environ)
        raise commands.CommandFailed("no compiler")

    (project.envs / "build.yaml").write_text(
        "tiny:\n  environ: {TINY: '7'}\n"
        "  distributed: {requirement: ring==1.0, sha256: '0', module: ring, environ: {RING: '1'}}\n"
    )
    definition = files.load("tiny", project.envs / "tiny.cpu.yaml")
    monkeypatch.setattr(extras, "run", run)
    given = {"PATH": "/bin", "TINY": "7"}
    python = Path("/there/bin/python")
    found = extras.install(definition, python, given, project.envs / "cache", True, 0)
    assert found == {
        "ring": "ring==1.0 did not build, and without it only cases with one device "
        "run: no compiler"
    }
    assert (seen["TINY"], seen["RING"], seen["PATH"]) == ("7", "1", "/there/bin:/bin")


def test_a_missing_cpu_build_of_torch_falls_back_to_its_index_and_then_the_cuda_build(tmp_path):
    from dlperf.environments.build import _sources

    definition = files.load("pytorch", ENVS / "pytorch.cpu.yaml")
    lock = definition.lock
    otherwise = lock.with_name("pytorch.cuda.lock.txt")
    backend = ["--torch-backend", "cpu"]
    assert _sources(definition, str(tmp_path)) == [(lock, backend), (otherwise, [])]
    version = files.locked(lock)["torch"]
    (tmp_path / f"torch-{version}-cp311-cp311-manylinux_2_28_x86_64.whl").touch()
    assert _sources(definition, str(tmp_path)) == [(lock, [])]


# Interpreters that are there already


def test_an_interpreter_is_recorded_and_the_lock_is_not_applied(project):
    project.build()
    other = project.folder / "theirs"
    shutil.copytree(project.prefix, other, symlinks=True)
    project.define("2.0")
    shutil.rmtree(project.prefix)
    python = str(other / "bin/python")
    built = project.build("--backend", "interpreter", "--interpreter", python)
    assert (built["status"], built["interpreter"]) == ("ok", "theirs/bin/python")
    assert built["lock_applied"] is False
    assert built["freeze"] == ["tiny==1.0"]
    assert built["lock_differences"] == ["tiny: 1.0, lock: 2.0"]


def test_an_interpreter_that_is_not_there_is_named_with_its_key(project):
    failed = project.build("--backend", "interpreter", "--interpreter", "/no/python3")
    assert "environments: interpreters: tiny: /no/python3" in failed["reason"]


# conda


@pytest.mark.parametrize("active", ["", "theirs"])
def test_only_an_environment_of_snakemakes_conda_is_installed_into(project, monkeypatch, active):
    """The user's own may be active, such as the one that has the workflow."""
    theirs = project.folder / active
    monkeypatch.setenv("CONDA_PREFIX", active and str(theirs))
    theirs.mkdir(exist_ok=True)
    failed = project.build("--backend", "conda")
    assert failed["status"] == "failed" and "`--sdm conda`" in failed["reason"]
    assert not list(theirs.glob("lib"))


def test_conda_makes_all_but_what_the_lock_pins(project):
    path = project.envs / "tiny.cpu.yaml"
    more = "container: docker://tiny\nchannels: [conda-forge]\ndependencies:\n  - nccl=2.1\n"
    text = path.read_text().replace("channels: [conda-forge]\ndependencies:\n", more)
    path.write_text(text)
    made = yaml.safe_load(conda.definition(path, project.folder).read_text())
    packages = ["nccl=2.1", "python=3.11", "pip"]
    assert made == {"name": "tiny", "channels": ["conda-forge"], "dependencies": packages}


def test_another_lock_gives_another_conda_environment(project):
    """Snakemake tells environments apart by the content of this file."""
    path = project.envs / "tiny.cpu.yaml"
    before = conda.definition(path, project.folder).read_bytes()
    assert conda.definition(path, project.folder).read_bytes() == before
    project.write_lock("1.0", "0" * 64)
    assert conda.definition(path, project.folder).read_bytes() != before


def test_a_sites_pins_stand_where_snakemake_looks_for_them(project):
    path, pins = project.envs / "tiny.cpu.yaml", "tiny.cpu.linux-64.pin.txt"
    (project.envs / pins).write_text("@EXPLICIT\n")
    (project.envs / "tiny.cuda.linux-64.pin.txt").write_text("another's\n")
    made = conda.definition(path, project.folder)
    assert [each.name for each in made.parent.glob("*.pin.txt")] == [pins]
    assert made.with_name(pins).read_text() == "@EXPLICIT\n"
    (project.envs / pins).unlink()
    conda.definition(path, project.folder)
    assert not list(made.parent.glob("*.pin.txt"))


def test_a_shim_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    shim = tmp_path / "python3.11"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert interpreters.runs(str(shim)) == ""
    assert interpreters.find("3.11", "tiny", tmp_path) != str(shim)
