"""Files and folders: locks for builders, documents that are never incomplete, and sizes."""

import contextlib
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dlperf.contract import files
from dlperf.environments import EnvironmentProblem


@contextlib.contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold the lock file `path`; yields its descriptor for children that must hold it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another build of {path.stem}", file=sys.stderr, flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream.fileno()


def write(content: dict[str, Any], path: Path) -> None:
    """Write a document completely or not at all."""
    files.write(path, json.dumps(content, indent=1) + "\n")


def size(folder: Path) -> int:
    """Bytes on disk; a file with several names in the folder counts once."""
    seen = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                state = os.lstat(os.path.join(root, name))
                seen[state.st_ino] = state.st_blocks * 512
    return sum(seen.values())


def remove(folder: Path) -> None:
    """Remove a folder and everything in it, if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def clear(prefix: Path, cache: Path) -> None:
    """Remove an environment. It is renamed first, so that no part of it can stay in its place.

    Raises EnvironmentProblem if the folder is not an environment.
    """
    old = cache / f"{prefix.name}.old"
    remove(old)
    holds = {path.name for path in prefix.iterdir()} if prefix.exists() else set()
    if holds - {"env.json"} and "pyvenv.cfg" not in holds:
        raise EnvironmentProblem(
            f"{prefix}: is not empty and not an environment ({min(holds)} is in it); nothing was "
            "removed. Name another folder, or empty this one"
        )
    if holds:
        cache.mkdir(parents=True, exist_ok=True)
        prefix.rename(old)
        remove(old)


def from_here(path: Path) -> str:
    """The path relative to the working directory when inside it; links are not followed."""
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
