"""What a rank's process had imported at its end is listed, and what nobody vouches for is named."""

import base64
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SCRIPTS

from dlperf.measure import beside

#: What a rank does, in short: it watches, imports, and lists.
PROCESS = """
import sys
from dlperf.measure import beside
from dlperf.contract.framework import Framework
watch = beside.Watch()
sys.path.append(sys.argv[1])
{body}
import json
class framework:
    compiles_into = ("COMPILED",)
print(json.dumps(watch.facts(framework)))
"""


def list_package(folder: Path, name: str, *files: str) -> None:
    """Write the list that an installed package has of its files."""
    lines = []
    for each in files:
        digest = hashlib.sha256((folder / each).read_bytes()).digest()
        coded = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        lines.append(f"{each},sha256={coded},{(folder / each).stat().st_size}")
    record = folder / f"{name}-1.0.dist-info/RECORD"
    record.parent.mkdir()
    record.write_text("\n".join([*lines, f"{record.parent.name}/RECORD,,"]) + "\n")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages with one package in it."""
    folder = tmp_path / "site-packages"
    (folder / "pack").mkdir(parents=True)
    (folder / "pack/__init__.py").write_text("from pack import part\n")
    (folder / "pack/part.py").write_text("ONE = 1\n")
    list_package(folder, "pack", "pack/__init__.py", "pack/part.py")
    return folder


def ran(packages: Path, body: str, **environ: str) -> dict[str, Any]:
    """What is listed of a process that does `body`."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS), **environ}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS.format(body=body), str(packages)],
        env=environment,
        cwd=packages.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def names(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(altered, strangers), by the ends of their paths."""
    altered, strangers = (
        [Path(each.partition(": ")[0]).name for each in found[key]]
        for key in ("altered", "strangers")
    )
    return altered, strangers


def test_packages_that_are_as_their_lists_say_are_named_with_their_versions(packages: Path) -> None:
    found = ran(packages, "import pack, numpy")
    assert names(found) == ([], [])
    assert found["packages"]["pack"].startswith("1.0 ") and "numpy" in found["packages"]
    assert ran(packages, "import numpy, pack")["sha256"] == found["sha256"]


def test_another_import_is_another_sha256(packages: Path) -> None:
    one, more = (
        ran(packages, "import pack"),
        ran(packages, "import pack; import dlperf.loaders.text"),
    )
    assert names(more) == ([], [])
    assert one["project"] != more["project"] and one["sha256"] != more["sha256"]


OTHER = "import importlib.util as u; s = u.spec_from_file_location('other', {path!r}); "
OTHER += "m = u.module_from_spec(s); sys.modules['other'] = m; s.loader.exec_module(m)"


@pytest.mark.parametrize(
    ("change", "body", "altered", "strangers"),
    [
        ("altered", "import pack", ["part.py"], []),
        (
            "altered",
            "import pack; del sys.modules['pack.part'], sys.modules['pack']",
            ["part.py"],
            [],
        ),
        ("added", "import pack.more", [], ["more.py"]),
        ("added", "import pack.more; sys.modules.pop('pack.more')", [], ["more.py"]),
        ("alone", "import alone", [], ["alone.py"]),
        ("alone", OTHER, [], ["alone.py"]),
        ("alone", "import alone; alone.__file__ = None", [], ["alone.py"]),
        ("alone", "import alone; sys.modules['alone'] = sys", [], ["alone.py"]),
        ("started", "import pack", [], ["start.pth"]),
        ("library", "import ctypes; ctypes.CDLL({path!r})", [], ["lib.so"]),
        ("library", "import ctypes, os; ctypes.CDLL({path!r}); os.remove({path!r})", [], None),
        ("", "import pack; sys.meta_path.remove(watch)", [], ["sys.meta_path"]),
    ],
)
def test_what_nobody_vouches_for_is_named(
    packages: Path, change: str, body: str, altered: list[str], strangers: list[str] | None
) -> None:
    path = packages.parent / "elsewhere/alone.py"
    path.parent.mkdir()
    if change == "altered":
        (packages / "pack/part.py").write_text("ONE = 2\n")
    elif change == "added":
        (packages / "pack/more.py").write_text("")
    elif change == "alone":
        path.write_text("")
        shutil.copyfile(path, packages / path.name)
    elif change == "started":
        (packages / "start.pth").write_text("import sys\n")
    elif change == "library":
        maps = Path("/proc/self/maps").read_text().split()
        path = path.with_name("lib.so")
        shutil.copyfile(next(each for each in maps if "/libz" in each or "/libm" in each), path)
    found = ran(packages, body.replace("{path!r}", repr(str(path))))
    if strangers is None:
        assert any("deleted" in each for each in found["strangers"])
    else:
        assert names(found) == (altered, strangers)


def test_what_a_framework_compiles_is_counted(packages: Path) -> None:
    folder = packages.parent / "compiled"
    folder.mkdir()
    (folder / "alone.py").write_text("")
    body = OTHER.replace("{path!r}", repr(str(folder / "alone.py")))
    found = ran(packages, body, COMPILED=str(folder))
    assert (names(found), found["compiled"]) == (([], []), 1)
    assert ran(packages, "")["sha256"] == found["sha256"]  # whether it was there already


def test_a_large_file_is_read_again_when_it_was_changed(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(packages.parent)
    Path("results").mkdir()
    monkeypatch.setattr(beside, "LARGE", 2)
    path = packages / "pack/part.py"

    def digest(anew: bool = False) -> str:
        hashes = beside.Hashes(anew)
        found: str = hashes.sha256(str(path))
        hashes.save()
        return found

    first, about = digest(), path.stat()
    assert digest() == first and str(path) in json.loads(Path(beside.CACHE).read_text())
    path.write_text("ONE = 2\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert digest() != first  # of the same size and time, and the inode's change tells
    document = json.loads(Path(beside.CACHE).read_text())
    document[str(path)][1] = first
    Path(beside.CACHE).write_text(json.dumps(document))
    assert digest() == first and digest(anew=True) != first
    Path(beside.CACHE).write_text("{")
    assert digest() != first


def test_a_compiled_file_of_other_code_is_named(tmp_path: Path) -> None:
    path, cached = tmp_path / "one.py", tmp_path / "__pycache__"
    path.write_text("ONE = 1\n")
    compiled = Path(str(py_compile.compile(str(path))))
    assert not beside.is_other_code(str(path))
    about = path.stat()
    path.write_text("ONE = 2\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))  # as Python compares
    assert beside.is_other_code(str(path))
    compiled.write_bytes(compiled.read_bytes()[:-3])
    assert beside.is_other_code(str(path))
    os.utime(path, (1, 1))
    assert not beside.is_other_code(str(path))  # Python does not take it any more
    shutil.rmtree(cached)
    assert not beside.is_other_code(str(path))


def test_ranks_are_put_together() -> None:
    def rank(**changes: Any) -> dict[str, Any]:
        own = {"python": "3", "project": "a", "packages": {"numpy": "1"}, "compiled": 1}
        return {**own, "altered": [], "strangers": [], "sha256": "b", **changes}

    both = beside.together([rank(), rank(strangers=["x"], packages={"jax": "2"})])
    assert both["strangers"] == ["x"] and both["compiled"] == 2
    assert both["packages"] == {"numpy": "1", "jax": "2"}
    assert beside.together([rank(), rank(sha256="c")])["sha256"] != both["sha256"]


def test_what_make_puts_into_an_environment_is_known() -> None:
    digest = hashlib.sha256((ROOT / "envs/ctrl_c.pth").read_bytes()).hexdigest()
    assert beside.MAKERS[digest] == "ctrl_c.pth"
