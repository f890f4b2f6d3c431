"""Renews the locks: finds the dependencies of the chosen packages of an environment's YAML.

The input is `envs/*.yaml`, whose pip list names the chosen packages. The output is the rest of that
list, and the lock with hashes beside it. Packages are resolved for Linux on x86-64 from the index's
metadata; nothing is downloaded if a wheel exists.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dlperf.environments import EnvironmentProblem, interpreters, plain_name
from dlperf.environments.commands import explain, uv_environ
from dlperf.environments.files import FOLLOWS, build_section, dependencies, read_yaml

PLATFORM = "x86_64-manylinux_2_28"
HEADER = "# Written by `python -m dlperf.environments lock` from {yaml}; edit that file instead.\n"


def lock(files: Path, only: Sequence[str] = (), find_links: Sequence[str] = (), upgrade=False):
    """Renew the locks in the folder `files`, or only those named in `only`; yields their names.

    The versions of a lock are kept, or with `upgrade` replaced by the newest that are allowed.
    """
    names = [path.name.removesuffix(".yaml") for path in sorted(files.glob("*.yaml"))]
    names = [name for name in names if "dependencies" in read_yaml(files / f"{name}.yaml")]
    unknown = set(only) - set(names)
    if unknown:
        raise EnvironmentProblem(
            f"--only {min(unknown)}: there is no such environment [allowed: {', '.join(names)}]"
        )
    for name in only or names:
        renew(files / f"{name}.yaml", find_links, upgrade)
        yield name


def renew(path: Path, find_links: Sequence[str] = (), upgrade: bool = False) -> None:
    """Rewrite one lock, and below its comment the pip list of the YAML."""
    name = path.name.removesuffix(".yaml")
    target = path.with_name(f"{name}.lock.txt")
    text = path.read_text(encoding="utf-8")
    python, requirements = dependencies(path, read_yaml(path))
    chosen = _chosen(path, text, requirements)
    backend = build_section(name.partition(".")[0], name, path).torch_backend
    with tempfile.TemporaryDirectory() as work:
        asked, out = Path(work) / "chosen.txt", Path(work) / "lock.txt"
        asked.write_text("\n".join(chosen) + "\n", encoding="utf-8")
        if target.is_file() and not upgrade:
            out.write_text(target.read_text(encoding="utf-8"), encoding="utf-8")
        _compile(name, asked, out, python, find_links)
        compiled = out.read_text(encoding="utf-8")
    if backend and f"+{backend} " not in compiled:
        raise EnvironmentProblem(
            f"{name}: the '+{backend}' build of torch was not found; name the folder of its wheel "
            "with --find-links"
        )
    for exact in (line for line in chosen if "===" in line):
        compiled = compiled.replace(exact.replace("===", "==") + " ", exact + " ")
    locked = [line.split()[0] for line in compiled.splitlines() if line[:1].isalnum()]
    picked = {plain_name(line.partition("==")[0]) for line in chosen}
    follows = [line for line in locked if plain_name(line.partition("==")[0]) not in picked]
    target.write_text(HEADER.format(yaml=path.name) + compiled, encoding="utf-8")
    head = text[: text.index(FOLLOWS) + len(FOLLOWS)]
    path.write_text(
        head + "".join(f"\n      - {line}" for line in follows) + "\n", encoding="utf-8"
    )


def _chosen(path: Path, text: str, requirements: list[str]) -> list[str]:
    if FOLLOWS not in text:
        raise EnvironmentProblem(f"{path}: its pip list does not have the comment '{FOLLOWS}'")
    above = set(re.findall(r"^ *- *(\S+==\S+)", text[: text.index(FOLLOWS)], re.MULTILINE))
    return [line for line in requirements if line in above]


def _compile(name: str, asked: Path, out: Path, python: str, find_links: Sequence[str]) -> None:
    command = [interpreters.uv(), "pip", "compile", "--quiet", "--no-config", "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--python-version", python, "--python-platform", PLATFORM]
    command += ["--output-file", str(out), str(asked)]
    answer = subprocess.run(
        command, env=uv_environ(find_links), capture_output=True, text=True, encoding="utf-8"
    )
    if answer.returncode:
        raise EnvironmentProblem(f"{name}: {explain(answer.stderr)}")
