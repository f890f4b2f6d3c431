"""Environments: makes an interpreter that imports the framework, and an `env.json` about it, from
`envs/<framework>.<device>.yaml` and its lock.

`python -m dlperf.environments build` makes one, and `… lock` renews the locks. This module has what
other packages need to know of environments. It imports only the standard library.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dlperf.contract import strict_json

SCHEMA = "dlperf.environment/1"
#: The folder of environment files that belongs to this package.
FILES = Path(__file__).resolve().parents[3] / "envs"


class EnvironmentProblem(Exception):
    """Why an environment cannot be made, for its user: what is wrong, where, and how to fix it."""


def estimate(framework: str, device: str, files: Path = FILES) -> dict[str, int]:
    """How many bytes an environment downloads and takes on disk, from `envs/sizes.tsv`.

    {"download_bytes": 0, "size_bytes": 0} if that was not measured.
    """
    try:
        with open(files / "sizes.tsv", newline="", encoding="utf-8") as stream:
            lines = (line for line in stream if not line.startswith("#"))
            for row in csv.DictReader(lines, delimiter="\t"):
                if row["environment"] == f"{framework}.{device}":
                    return {name: int(row[name]) for name in ("download_bytes", "size_bytes")}
    except FileNotFoundError:
        pass
    return {"download_bytes": 0, "size_bytes": 0}


def read(path: Path | str) -> dict[str, Any]:
    """The document in an env.json; {} if there is none that can be read."""
    try:
        document = strict_json.read(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) and document.get("schema") == SCHEMA else {}


def failed(path: Path | str) -> bool:
    """Whether the env.json at `path` says that the build failed, or cannot be read, so that it
    should be made again. False if there is none.
    """
    return Path(path).exists() and read(path).get("status") != "ok"


def plain_name(name: str) -> str:
    """A distribution's name as indexes compare it: 'Werkzeug' -> 'werkzeug', 'a_b.c' -> 'a-b-c'."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def split_pins(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(plain name, version) of every 'name==version' or 'name===version' in `lines`."""
    for line in lines:
        name, equals, version = line.partition("==")
        if equals:
            yield plain_name(name.strip()), version.split()[0].strip("=\\;")
