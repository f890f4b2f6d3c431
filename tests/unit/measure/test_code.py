"""The hash of an implementation covers all that can change what it computes, and nothing else."""

import shutil

import pytest
from conftest import SCRIPTS

from dlperf import frameworks, workloads
from dlperf.measure import code


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package, in which files may be changed."""
    folder = tmp_path / "dlperf"
    shutil.copytree(SCRIPTS / "dlperf", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "PACKAGE", str(folder))
    forget()
    yield folder
    forget()


def forget() -> None:
    code._closure.cache_clear()
    code._imported.cache_clear()


def hashes() -> dict[tuple[str, str], str]:
    return {
        (workload, framework): code.sha256(code.of_implementation(workload, framework))
        for workload in workloads.NAMES
        for framework in frameworks.NAMES
        if framework != "hugectr"
    }


@pytest.mark.parametrize(
    "path, changed",
    [
        ("workloads/bert/jax.py", {("bert", "jax")}),
        ("frameworks/jax/training.py", {(each, "jax") for each in workloads.NAMES}),
        ("frameworks/jax/process.py", {(each, "jax") for each in workloads.NAMES}),
        ("certify/judge.py", set()),
        ("measure/stopwatch.py", set()),
        ("analysis/round/merge.py", set()),
    ],
)
def test_a_change_shows_where_it_is_imported(package, path, changed):
    before = hashes()
    with open(package / path, "a") as stream:
        stream.write("# a change\n")
    after = hashes()
    assert {key for key in after if after[key] != before[key]} == changed


@pytest.mark.parametrize(
    "path, of",
    [
        ("data/batches.py", {"resnet50"}),
        ("data/text.py", {"bert"}),
        ("data/rows.py", {"wide_deep"}),
        ("workloads/resnet50/facts.py", {"resnet50"}),
        ("workloads/bert/proof.py", {"bert"}),
        ("contract/work.py", {"bert", "resnet50"}),
        ("contract/layouts.py", {"bert", "resnet50"}),
    ],
)
def test_what_implementations_share_is_covered(package, path, of):
    for workload in of:
        assert path in code.of_implementation(workload, "jax")


def test_the_reference_does_not_depend_on_implementations(package):
    before = code.sha256(code.of_reference("bert"))
    for path in ("workloads/bert/jax.py", "frameworks/jax/training.py", "certify/judge.py"):
        with open(package / path, "a") as stream:
            stream.write("# a change\n")
    forget()
    assert code.sha256(code.of_reference("bert")) == before
    with open(package / "workloads/bert/reference.py", "a") as stream:
        stream.write("# a change\n")
    assert code.sha256(code.of_reference("bert")) != before
