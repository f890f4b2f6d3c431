"""Finds a Python of a given version on this machine.

It looks in this order: the workflow's own Python, PATH, pyenv's versions (which uv does not know),
those that uv knows, and those that uv can download into the environments' own cache. Nothing is
installed into the home folder.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dlperf.environments import EnvironmentProblem
from dlperf.environments.commands import CommandFailed, run


def uv() -> str:
    """The path of uv: beside this interpreter, or on PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if not found:
        raise EnvironmentProblem(
            "uv is not installed: set the workflow up with `make`, or `pip install uv`"
        )
    return found


def find(version: str, framework: str, cache: Path) -> str:
    """The path of a Python `version` ('3.10'). Raises EnvironmentProblem if there is none."""
    for candidate in _candidates(version):
        if runs(candidate) == version:
            return candidate
    known = _uv_find(version, {})
    if known:
        return known
    print(f"no Python {version} on this machine; asking uv to download one", flush=True)
    own = {"UV_PYTHON_INSTALL_DIR": str(cache / "python")}
    with contextlib.suppress(CommandFailed):
        run([uv(), "python", "install", "--no-bin", version], {**os.environ, **own})
    downloaded = _uv_find(version, own)
    if downloaded:
        return downloaded
    raise EnvironmentProblem(
        f"{framework} needs Python {version}, and there is none on PATH (python{version}), among "
        f"pyenv's versions or uv's, and uv could not download one. Three ways to get it: "
        f"(1) the system's packages or conda, so that `python{version}` is on PATH; "
        f"(2) `pyenv install {version}`, or `uv python install {version}` where the network "
        f"allows; (3) name a Python that has {framework} installed in the config: "
        f"environments: interpreters: {{{framework}: /path/to/python3}}"
    )


def runs(candidate: str) -> str:
    """The 'X.Y' that an interpreter reports; '' if it does not run (such as a pyenv shim)."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [candidate, "-S", "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            encoding="utf-8",
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / f"python{version}"
        if path.is_file():
            yield str(path)
    roots = [os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")]
    for root in dict.fromkeys(root for root in roots if root):
        found = Path(root, "versions").glob(f"{version}*/bin/python{version}")
        yield from map(str, sorted(found, key=_patch, reverse=True))


def _patch(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parts[-3])]


def _uv_find(version: str, variables: dict[str, str]) -> str:
    environ = {**os.environ, **variables, "UV_PYTHON_DOWNLOADS": "never"}
    command = [uv(), "python", "find", "--no-project", version]
    answer = subprocess.run(command, capture_output=True, text=True, env=environ, encoding="utf-8")
    found = answer.stdout.strip()
    return found if answer.returncode == 0 and runs(found) == version else ""
