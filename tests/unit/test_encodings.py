"""Text is UTF-8 in every locale, and files have the same bytes in every checkout."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import frameworks, workloads
from dlperf.measure import code

PACKAGE = ROOT / "scripts/dlperf"
TEXT = ("read_text", "write_text")
PROCESSES = ("run", "Popen", "check_output")
#: Modules whose `open` is of bytes, or of no file.
OTHERS = ("os", "pillow", "Image", "tarfile", "stopwatch", "opened")


def of_certificates() -> set[str]:
    """Files of which a change makes certificates stale; what they read and write is ASCII."""
    found = {path for workload in workloads.NAMES for path in code.of_reference(workload)}
    for workload in workloads.NAMES:
        for framework in frameworks.NAMES:
            found.update(code.of_implementation(workload, framework))
    return found


def unnamed(source: str) -> Iterator[int]:
    """Lines that read or write text and name no encoding."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        given = {each.arg: each.value for each in call.keywords}
        owner, name = None, getattr(call.func, "id", "")
        if isinstance(call.func, ast.Attribute):
            owner, name = getattr(call.func.value, "id", ""), call.func.attr
        if name in ("open", "fdopen", "NamedTemporaryFile") and owner not in OTHERS:
            path_first = owner in (None, "gzip", "bz2", "lzma") or name == "fdopen"
            place = 1 if path_first else 0
            mode = given.get("mode") or (call.args[place] if len(call.args) > place else None)
            binary = owner in ("gzip", "bz2", "lzma") or name == "NamedTemporaryFile"
            mode = getattr(mode, "value", "rb" if binary else "r")
            text = "b" not in mode and not (owner in ("gzip", "bz2", "lzma") and "t" not in mode)
        else:
            text = name in TEXT or (
                name in PROCESSES and bool({"text", "universal_newlines"} & given.keys())
            )
        if text and "encoding" not in given:
            yield call.lineno


@pytest.mark.parametrize(
    "source, named",
    [
        ("open(path)", False),
        ("open(path, 'w')", False),
        ("path.open()", False),
        ("path.read_text()", False),
        ("gzip.open(path, 'rt')", False),
        ("subprocess.run(command, text=True)", False),
        ("tempfile.NamedTemporaryFile('w')", False),
        ("open(path, 'rb')", True),
        ("path.open('rb')", True),
        ("open(path, encoding='utf-8')", True),
        ("gzip.open(path)", True),
        ("tempfile.NamedTemporaryFile()", True),
    ],
)
def test_what_names_no_encoding_is_found(source, named):
    assert list(unnamed(source)) == ([] if named else [1])


def test_every_text_is_read_and_written_as_utf8():
    left = of_certificates()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).as_posix() not in left:
            lines = list(unnamed(path.read_text(encoding="utf-8")))
            assert not lines, f"{path}: lines {lines}: name encoding='utf-8'"


def test_what_a_command_prints_is_utf8_in_a_locale_without():
    source = "from dlperf.contract import terminal; terminal.as_utf8(); print('\\u2192 \\xb5s')"
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
    )
    assert done.stdout.decode("utf-8") == "→ µs\n", done.stderr


def test_a_checkout_with_other_line_ends_has_the_same_bytes(tmp_path):
    """Hashes of code, locks and certificates are of bytes."""
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository has no history to check out")
    clone = tmp_path / "clone"
    options = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    subprocess.run(["git", "clone", "-q", *options, str(ROOT), str(clone)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=clone, check=True, capture_output=True
    ).stdout.decode("utf-8")
    for name in filter(None, listed.split("\0")):
        path: Path = clone / name
        if path.suffix != ".png" and path.is_file() and not path.is_symlink():
            assert b"\r\n" not in path.read_bytes(), name
