"""The hash of an implementation covers all that can change what it computes, and nothing else."""

import os
import shutil
import subprocess
import sys

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
    code._sha256_of_tokens.cache_clear()


TRAINING = [each for each in frameworks.NAMES if each != "hugectr"]


def hashes() -> dict[tuple[str, str], str]:
    return {
        (workload, framework): code.sha256(code.of_implementation(workload, framework))
        for workload in workloads.NAMES
        for framework in TRAINING
    }


@pytest.mark.parametrize(
    "path, changed",
    [
        ("workloads/bert/jax.py", {("bert", "jax")}),
        ("frameworks/jax/training.py", {(each, "jax") for each in workloads.NAMES}),
        ("frameworks/jax/process.py", {(each, "jax") for each in workloads.NAMES}),
        ("certify/judge.py", set()),
        ("workloads/bert/proof.py", {("bert", each) for each in TRAINING}),
        ("workloads/bert/spot.py", set()),
        ("workloads/encoders/spot.py", set()),
        ("measure/stopwatch.py", set()),
        ("analysis/round/merge.py", set()),
    ],
)
def test_a_change_shows_where_it_is_imported(package, path, changed):
    before = hashes()
    with open(package / path, "a") as stream:
        stream.write("A_CHANGE = 1\n")
    forget()
    after = hashes()
    assert {key for key in after if after[key] != before[key]} == changed


@pytest.mark.parametrize(
    "path, of",
    [
        ("loaders/images.py", {"resnet50"}),
        ("workloads/bert/input.py", {"bert"}),
        ("loaders/rows.py", {"wide_deep", "bert"}),
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
            stream.write("A_CHANGE = 1\n")
    forget()
    assert code.sha256(code.of_reference("bert")) == before
    with open(package / "workloads/bert/reference.py", "a") as stream:
        stream.write("A_CHANGE = 1\n")
    forget()
    assert code.sha256(code.of_reference("bert")) != before


PAGE = '''"""A page."""

RATES = [0.5, 0.25]  # of two steps


def step(x, name="a"):
    """Return x."""
    for rate in RATES:
        x = x * rate
    print(f"{name!r:>{len(name)}}: {x + 1}" " is new")
    return x
'''


def sha256_of(text: str, folder) -> str:
    (folder / "page.py").write_text(text, encoding="utf-8")
    code._sha256_of_tokens.cache_clear()
    return code._sha256_of_tokens(str(folder / "page.py"))


@pytest.mark.parametrize(
    "old, new",
    [
        ("  # of two steps", ""),
        ("  # of two steps", "  # ≥ two steps"),
        ('"""A page."""', '"""Another\n\nRATES = [0.1]\n"""'),
        ('    """Return x."""\n', ""),
        ('    """Return x."""\n', '    "Return" " x."\n'),
        ("[0.5, 0.25]", "[\n    0.5,\n    0.25]"),
        ("    ", "  "),
        ("    ", "\t"),
        ("\n\n\n", "\n"),
        ("x = x * rate", "x = x \\\n            * rate"),
        ("x = x * rate", "x=x*rate"),
        ("\n", "\r\n"),
        ("return x\n", "return x"),
    ],
)
def test_comments_docstrings_and_layout_change_no_hash(tmp_path, old, new):
    assert old in PAGE
    assert sha256_of(PAGE.replace(old, new), tmp_path) == sha256_of(PAGE, tmp_path)


@pytest.mark.parametrize(
    "old, new",
    [
        ("0.25", "0.125"),
        ("0.25]", "0.25, 0]"),
        ("0.5, 0.25", "0.25, 0.5"),
        ('"a"', '"b"'),
        ('"a"', '"a "'),
        ("x * rate", "x + rate"),
        ("x + 1", "x - 1"),
        ("!r", "!s"),
        (": {x", "; {x"),
        (" is new", " is  new"),
        ("        x = x", "    x = x"),  # behind the loop
        ("    return x", "        return x"),
        ("    print", "    # print"),
        ("RATES = [", "RATES = rates = ["),
        ('    """Return x."""\n', "    rate = 0\n"),
        ('    """Return x."""\n', '    x = """Return x."""\n'),
    ],
)
def test_what_is_computed_changes_the_hash(tmp_path, old, new):
    assert old in PAGE
    assert sha256_of(PAGE.replace(old, new), tmp_path) != sha256_of(PAGE, tmp_path)


PRINT_HASHES = """
import sys
from dlperf.measure import code
for name in sys.argv[1:]:
    print(name, code.sha256(code.of_implementation("bert", name)))
print(code.sha256(code.of_reference("bert")))
"""


def test_every_python_finds_the_same_hash(environments, tmp_path):
    """Python 3.7 of TensorFlow 1, 3.10 of OneFlow, and 3.12, where an f-string is many tokens."""
    from dlperf.environments import interpreters

    pythons = [environments / f"{name}.cpu/bin/python" for name in ("tensorflow1", "oneflow")]
    newest = [
        each for each in interpreters._candidates("3.12") if interpreters.runs(each) == "3.12"
    ]
    command = ["-c", PRINT_HASHES, *(name for name in frameworks.NAMES if name != "hugectr")]
    found = [
        subprocess.run(
            [python, *command],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            text=True,
            capture_output=True,
            check=True,
        ).stdout
        for python in [sys.executable, *pythons, *newest[:1]]
    ]
    assert len(set(found)) == 1


def test_an_f_string_is_one_token_in_every_python(tmp_path):
    (tmp_path / "page.py").write_text(PAGE, encoding="utf-8")
    strings = [text for kind, text in code._tokens(tmp_path / "page.py") if text.startswith("f")]
    assert strings == ["for", 'f"{name!r:>{len(name)}}: {x + 1}"']
