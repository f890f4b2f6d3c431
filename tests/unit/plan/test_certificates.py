"""Where a plan says that a certificate comes from: made before, released, or still to make."""

import json
import re
import shutil
from pathlib import Path

import pytest
import released
from conftest import ROOT

from dlperf.plan import certificates, expand, load
from dlperf.plan.show import show

JAX = "certificates/resnet50/jax/cpu-fp32-xla-1.json"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder with certificates that were released with this code, and the locks."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "certificates", folder / "certificates")
    released.as_of_this_code(folder / "certificates")
    (folder / "envs").symlink_to(ROOT / "envs")
    return folder


@pytest.fixture(autouse=True)
def of_this_code(project, monkeypatch):
    monkeypatch.setattr(certificates, "ROOT", project)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def put(results, remove=(), **changes):
    """Copy the released certificate into `results`, with other provenance."""
    document = json.loads((certificates.ROOT / JAX).read_text())
    document["provenance"] |= changes
    for key in remove:
        del document["provenance"][key]
    (results / JAX).parent.mkdir(parents=True, exist_ok=True)
    (results / JAX).write_text(json.dumps(document))


def state(results, backend="venv", **more):
    return certificates.state(JAX, backend, results, **more)


def test_in_a_fresh_clone_all_of_this_code_are_taken_and_none_is_to_make(results):
    assert state(results) == "released"
    config = load(ROOT / "config/config.yaml")
    text = show(config, expand(config), results)
    line = "Certificates of equal work: 16, 16 taken from certificates/, 0 to make"
    assert line in text.splitlines()


@pytest.mark.parametrize("backend", ["container", "interpreter"])
def test_beside_an_environment_without_the_lock_it_is_to_make(results, backend):
    assert state(results, backend) == "to make"


def test_where_the_config_names_an_interpreter_that_framework_makes_its_own(results):
    mapping = load(ROOT / "config/config.yaml").model_dump()
    config = load({**mapping, "environments": {"interpreters": {"jax": "/opt/python3"}}})
    said = show(config, expand(config), results)
    assert re.search(r"16, 14 taken from certificates/, 2 to make, about \d+ (s|min)\n", said)
    for asked in ({"remake": True},):
        said = show(config, expand(config), results, **asked)
        assert re.search(r": 16, 16 to make, about \d+ min\n", said), asked


def test_one_that_was_copied_or_made_is_there(results):
    put(results)
    assert state(results) == "there"
    config = load(ROOT / "config/config.yaml")
    text = show(config, expand(config), results)
    assert "16, 1 are there, 15 taken from certificates/, 0 to make" in text
    shutil.copytree(
        certificates.ROOT / "certificates", results / "certificates", dirs_exist_ok=True
    )
    text = show(config, expand(config), results)
    assert "Certificates of equal work: 16, all are there" in text


def test_what_is_made_again_is_what_was_released_and_not_what_was_made_here(results):
    put(results, released=True)
    assert state(results, remake=True) == "to make"
    put(results, released=False)
    assert state(results, remake=True) == "there"


@pytest.mark.parametrize(
    "changes",
    [
        {"code_sha256": "other"},
        {"reference": {"code_sha256": "other", "lock_sha256": "other"}},
        {"reference": {}},
        {"lock_sha256": "other"},
    ],
)
def test_one_of_other_code_or_packages_is_replaced(results, changes):
    put(results, **changes)
    assert state(results) == "released"
    assert state(results, remake=True) == "to make"


def test_without_an_applied_lock_only_the_code_decides(results):
    put(results, lock_sha256="", released=False)
    assert state(results, "interpreter") == "there"
    put(results, lock_sha256="", code_sha256="other", released=False)
    assert state(results, "interpreter") == "to make"


def test_conda_installs_the_lock_so_its_certificates_are_those_of_the_lock(results):
    assert state(results, "conda") == "released"
    put(results, lock_sha256="", released=False)
    assert state(results, "conda") == "released", "one of before the lock was applied is stale"


def test_one_of_another_workload_is_none(results):
    put(results)
    document = json.loads((results / JAX).read_text())
    (results / JAX).write_text(json.dumps({**document, "workload": "nobody's"}))
    assert state(results) == "released"


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"provenance": 3}', "\x00"])
def test_what_is_no_certificate_is_none(results, text):
    put(results)
    (results / JAX).write_text(text)
    assert state(results) == "released"


def test_one_that_says_no_hashes_is_of_other_code(results):
    put(results, remove=["code_sha256"])
    assert state(results) == "released"


def test_one_of_a_gpu_is_always_to_make(results):
    path = JAX.replace("cpu", "cuda")
    assert certificates.state(path, "venv", results) == "to make"
    assert certificates.released(path, "venv") == ""


def test_the_released_file_is_that_of_the_repository(project):
    assert Path(certificates.released(JAX, "venv")) == project / JAX
