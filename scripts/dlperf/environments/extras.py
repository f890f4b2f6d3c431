"""Builds parts from source that only runs on several devices need, such as Horovod.

The input is the `distributed` section of `build.yaml`. The part is installed in the environment,
and its wheel is kept in the environments' cache, so that it is built only once.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dlperf.environments import disk, files
from dlperf.environments.commands import CommandFailed, explain, run
from dlperf.environments.files import Definition


def install(
    definition: Definition,
    python: Path,
    environ: Mapping[str, str],
    cache: Path,
    may_build: bool,
    descriptor: int,
) -> dict[str, str]:
    """Install the part in the environment of `python`, unless it is already there.

    Returns its name -> "" or why it is missing. Then cases with one device still run, or what
    `without` says.
    """
    wanted = definition.build.distributed
    name = wanted["requirement"].partition("==")[0]
    with contextlib.suppress(CommandFailed):
        run([str(python), "-c", f"import {wanted['module']}"], environ, [descriptor], timeout=300)
        return {name: ""}
    if not may_build:
        return {name: f"{python} cannot import {wanted['module']}, and nothing is built in it"}
    without = wanted.get("without", "only cases with one device run")
    missing = [tool for tool in wanted.get("tools", []) if not shutil.which(tool)]
    if missing:
        return {
            name: f"{wanted['requirement']} is built from source, and {' and '.join(missing)} is "
            f"not on PATH; without it {without}. Install it, remove env.json, and run again"
        }
    try:
        wheel = _wheel(definition, python, environ, cache, descriptor)
        run([str(python), "-m", "pip", "install", "--no-deps", "--no-index", wheel], environ)
    except CommandFailed as error:
        why = explain(str(error))
        return {name: f"{wanted['requirement']} did not build, and without it {without}: {why}"}
    return {name: ""}


def _wheel(
    definition: Definition, python: Path, environ: Mapping[str, str], cache: Path, descriptor: int
) -> str:
    """The wheel of a part, from the cache if it was built before."""
    wanted = definition.build.distributed
    module = files.locked(definition.lock).get(definition.build.module, "")
    toolchain = definition.yaml.with_name(wanted["toolchain"]) if "toolchain" in wanted else None
    settings = toolchain.read_text(encoding="utf-8") if toolchain else ""
    basis = json.dumps([wanted, definition.python, definition.build.module, module, settings])
    key = hashlib.sha256(basis.encode()).hexdigest()[:12]
    folder = cache / "wheels" / f"{wanted['requirement'].replace('==', '-')}-{key}"
    with disk.held(cache / f"{folder.name}.lock") as held:
        if not list(folder.glob("*.whl")):
            print(f"building {wanted['requirement']}; this takes minutes", flush=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                pinned = Path(work) / "requirements.txt"
                pinned.write_text(
                    f"{wanted['requirement']} --hash=sha256:{wanted['sha256']}\n", encoding="utf-8"
                )
                command = [str(python), "-m", "pip", "wheel", "--no-deps", "--no-cache-dir"]
                command += ["--no-build-isolation", "--require-hashes", "-r", str(pinned)]
                # the framework's own too: its module is imported while the part is built
                environ = {**environ, **wanted.get("environ", {})}
                environ["PATH"] = os.pathsep.join([str(python.parent), environ["PATH"]])
                if toolchain:
                    environ["CMAKE_TOOLCHAIN_FILE"] = str(toolchain.resolve())
                out = Path(work) / "out"
                run([*command, "-w", str(out)], environ, [descriptor, held])
                disk.remove(folder)
                out.rename(folder)
    return str(next(folder.glob("*.whl")))
