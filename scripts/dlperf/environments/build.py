"""Makes one environment and describes it.

The input is the environment's YAML and lock. The output is the document of `env.json`, written
after the framework was imported in the environment. There are four backends: `venv` and `conda`,
where uv installs the lock with its hashes (in an environment of its own, or in the one of a rule's
`conda:` directive, which Snakemake made), `container` (the image that the YAML names) and
`interpreter` (a Python that already has the framework).
"""

import glob
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlperf.environments import (
    SCHEMA,
    EnvironmentProblem,
    conda,
    container,
    disk,
    estimate,
    extras,
    files,
    interpreters,
    read,
)
from dlperf.environments.commands import CommandFailed, explain, run, uv_environ
from dlperf.environments.files import Definition

#: The start of the probe's answer, to find it in what a framework prints when it is imported.
ANSWER = "dlperf-answer "

#: Runs in the environment, with any Python from 2.7 on. The folder of scripts is not on its path.
PROBE = """
import sys
if sys.path and sys.path[0] == "": sys.path.pop(0)
import glob, importlib, json, os, platform
module = importlib.import_module(sys.argv[1])
for more in sys.argv[2:]: importlib.import_module(more)
freeze = {}
for folder in reversed([p for p in sys.path if os.path.isdir(p)]):
    for path in glob.glob(os.path.join(folder, "*.dist-info")) + glob.glob(
            os.path.join(folder, "*.egg-info")):
        parts = os.path.basename(path).rsplit(".", 1)[0].split("-")
        if len(parts) > 1: freeze[parts[0].replace("_", "-").lower()] = parts[1]
print("dlperf-answer " + json.dumps({"python": platform.python_version(),
    "version": str(getattr(module, "__version__", "")), "executable": sys.executable,
    "freeze": ["%s==%s" % item for item in sorted(freeze.items())]}))
"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    framework: str
    device: str
    yaml: Path
    lock: Path | None
    prefix: Path
    backend: str = "venv"
    interpreter: str = ""
    find_links: Sequence[str] = ()
    distributed: bool = False
    started: float = field(default_factory=time.time)

    @property
    def cache(self) -> Path:
        """Shared by all environments beside this one: wheels built here, downloaded Pythons."""
        return self.prefix.parent / ".cache"


def document(request: Request, status: str, reason: str, **known: Any) -> dict[str, Any]:
    """The content of an env.json; unknown values stay empty."""
    size = estimate(request.framework, request.device, request.yaml.parent)
    empty: dict[str, Any] = {
        "backend": request.backend,
        "interpreter": "",
        "python": "",
        "version": "",
        "yaml_sha256": files.sha256(request.yaml) if request.yaml.is_file() else "",
        "lock": "",
        "lock_sha256": "",
        "lock_applied": False,
        "lock_differences": [],
        "environ": {},
        "capabilities": {},
        "driver": "",
        "bfloat16": [],
        "extras": {},
        "conda": [],
        "freeze": [],
        "download_bytes": size["download_bytes"],
        "size_bytes": 0,
    }
    return {
        "schema": SCHEMA,
        "framework": request.framework,
        "device": request.device,
        "status": status,
        "reason": reason,
        **{**empty, **known},
        "seconds": round(time.time() - request.started, 1),
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def build(request: Request) -> dict[str, Any]:
    """Make the environment, or use the existing one. Raises EnvironmentProblem if it cannot.

    Only one process at a time works on a prefix; a second one waits.
    """
    if request.backend == "interpreter" and not request.interpreter:
        raise EnvironmentProblem(
            f"environments: interpreters: {request.framework}: names no Python, but the backend "
            "'interpreter' needs one"
        )
    prefix = conda.prefix() if request.backend == "conda" else request.prefix
    try:
        with disk.held(prefix.parent / ".cache" / f"{prefix.name}.lock") as descriptor:
            if request.backend == "container":
                return _container(request, descriptor)
            if request.backend == "interpreter":
                return _existing(request, descriptor)
            return _locked(request, prefix, descriptor)
    except OSError as error:
        raise EnvironmentProblem(f"{error.filename or request.prefix}: {error.strerror}") from None


def _locked(request: Request, prefix: Path, descriptor: int) -> dict[str, Any]:
    """An environment of the lock's packages, in the folder `prefix`."""
    definition = files.load(request.framework, request.yaml, request.lock)
    uv = uv_environ(request.find_links)
    sources = _sources(definition, uv.get("UV_FIND_LINKS", ""))
    marker = prefix / "built.json"
    python = prefix / "bin" / "python"
    lock = _lock_of(read(marker), sources) if python.exists() else None
    if not lock:
        marker.unlink(missing_ok=True)  # until the marker is written, the environment is incomplete
        lock = _install(request, definition, prefix, sources, uv, descriptor)
    added = _extras(request, definition, python, descriptor)
    probe = _probe(definition, python, descriptor, added)
    made = document(
        request,
        "ok",
        "",
        interpreter=disk.from_here(python),
        lock=lock.name,
        lock_sha256=files.sha256(lock),
        lock_applied=True,
        lock_differences=files.differences(probe["freeze"], lock),
        size_bytes=disk.size(prefix),
        extras=added,
        conda=conda.packages(prefix),
        **_reported(probe),
        **_hardware(definition),
        environ=_environ(definition, python),
    )
    disk.write(made, marker)
    return made


def _lock_of(built: dict[str, Any], sources: list[tuple[Path, list[str]]]) -> Path | None:
    """The lock that a finished environment was made from, if that is still the one to use."""
    for lock, _ in sources:
        if built.get("status") == "ok" and built["lock"] == lock.name:
            return lock if built["lock_sha256"] == files.sha256(lock) else None
    return None


def _container(request: Request, descriptor: int) -> dict[str, Any]:
    """The Python of an image. The image pins everything as a lock does, and replaces it."""
    image = files.read_yaml(request.yaml).get("container")
    if not image:
        raise EnvironmentProblem(f"{request.yaml}: container: names no image")
    folder = request.cache / "containers" / request.prefix.name
    path, digest = container.fetch(image, folder, descriptor)
    python = container.python(path, folder, request.device)
    name = request.yaml.name.removesuffix(".yaml")
    section = files.build_section(request.framework, name, request.yaml)
    definition = Definition(name, request.yaml, path, "", section)
    probe = _probe(definition, python, descriptor, {})
    return document(
        request,
        "ok",
        "",
        interpreter=disk.from_here(python),
        lock=image,
        lock_sha256=digest,
        lock_applied=True,
        size_bytes=path.stat().st_size,
        **_reported(probe),
        environ=_environ(definition, python),
    )


def _existing(request: Request, descriptor: int) -> dict[str, Any]:
    """A Python that the user names. It need not agree with the lock."""
    python = Path(os.path.expanduser(request.interpreter))
    if not python.is_file():
        raise EnvironmentProblem(
            f"environments: interpreters: {request.framework}: {request.interpreter}: there is no "
            "such file"
        )
    name = request.yaml.name.removesuffix(".yaml")
    lock = request.lock or request.yaml.with_name(f"{name}.lock.txt")
    section = files.build_section(request.framework, name, request.yaml)
    definition = Definition(name, request.yaml, lock, "", section)
    added = _extras(request, definition, python, descriptor)
    probe = _probe(definition, python, descriptor, added)
    has_lock = lock.is_file()
    return document(
        request,
        "ok",
        "",
        interpreter=disk.from_here(python),
        lock=lock.name if has_lock else "",
        lock_sha256=files.sha256(lock) if has_lock else "",
        lock_differences=files.differences(probe["freeze"], lock) if has_lock else [],
        extras=added,
        **_reported(probe),
        environ=_environ(definition, python),
    )


def _install(
    request: Request,
    definition: Definition,
    prefix: Path,
    sources: list[tuple[Path, list[str]]],
    environ: dict[str, str],
    descriptor: int,
) -> Path:
    """Install a lock in `prefix`, which conda made or uv makes; return the lock that was used."""
    if request.backend == "venv":
        _make_virtual_environment(request, definition, prefix, environ, descriptor)
    # over what conda has installed in the same version, too; its other packages stay
    add = ["install", "--no-deps", "--reinstall", "--requirements"]
    how = add if request.backend == "conda" else ["sync"]
    python = str(prefix / "bin/python")
    problem = ""
    for lock, options in sources:
        print(f"installing {lock.name} {' '.join(options)}".rstrip(), flush=True)
        command = [interpreters.uv(), "pip", *how, str(lock), "--require-hashes"]
        try:
            run([*command, "--python", python, *options], environ, [descriptor])
            return lock
        except CommandFailed as error:
            problem = problem or str(error)
    raise EnvironmentProblem(explain(problem))


def _make_virtual_environment(
    request: Request,
    definition: Definition,
    prefix: Path,
    environ: dict[str, str],
    descriptor: int,
) -> None:
    found = interpreters.find(definition.python, request.framework, request.cache)
    disk.clear(prefix, request.cache)
    _check_space(request)
    make = [interpreters.uv(), "venv", "--quiet", "--no-project", "--python", found, str(prefix)]
    try:
        run(make, environ, [descriptor])
    except CommandFailed as error:
        raise EnvironmentProblem(explain(str(error))) from None


def _sources(definition: Definition, find_links: str) -> list[tuple[Path, list[str]]]:
    """The locks to try in turn, with options for uv.

    A CPU build that the index does not have (PyTorch's) comes from a folder of `find_links`, or
    else from the build's own index. Otherwise the CUDA build of the same version is used, which is
    larger but also runs on a CPU.
    """
    build = definition.build
    if not build.torch_backend:
        return [(definition.lock, [])]
    version = files.locked(definition.lock)["torch"]
    wheel = f"torch-{version}-*.whl"
    local = [link for link in find_links.split(",") if link and "://" not in link]
    if any(glob.glob(os.path.join(glob.escape(folder), wheel)) for folder in local):
        return [(definition.lock, [])]
    sources = [(definition.lock, ["--torch-backend", build.torch_backend])]
    if build.otherwise:
        sources.append((definition.lock.with_name(build.otherwise), []))
    return sources


def _extras(
    request: Request, definition: Definition, python: Path, descriptor: int
) -> dict[str, str]:
    if not request.distributed or not definition.build.distributed:
        return {}
    environ = {**os.environ, **_environ(definition, python)}
    may_build = request.backend != "interpreter"
    return extras.install(definition, python, environ, request.cache, may_build, descriptor)


def _environ(definition: Definition, python: Path) -> dict[str, str]:
    """The variables that the framework needs in this environment."""
    environ = {name: str(value) for name, value in definition.build.environ.items()}
    site = python.absolute().parent.parent / "lib" / "python*" / "site-packages"
    patterns = [str(site / pattern) for pattern in definition.build.library_path]
    folders = [folder for pattern in patterns for folder in sorted(glob.glob(pattern))]
    if folders:
        environ["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
    return environ


def _probe(
    definition: Definition, python: Path, descriptor: int, added: dict[str, str]
) -> dict[str, Any]:
    """Import the framework (and its extras) there; return what the environment reports."""
    modules = [definition.build.module]
    modules += [definition.build.distributed["module"] for why in added.values() if not why]
    environ = {**os.environ, "PYTHONNOUSERSITE": "1", **_environ(definition, python)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compile now, so that no repetition has to
    try:
        command = [str(python), "-c", PROBE, *modules]
        said = run(command, environ, [descriptor], timeout=600, hide=ANSWER)
    except CommandFailed as error:
        why = explain(str(error))
        raise EnvironmentProblem(f"{python}: `import {modules[0]}` fails there: {why}") from None
    except OSError as error:
        raise EnvironmentProblem(f"{python}: cannot be run ({error.strerror})") from None
    answer = [line for line in said.splitlines() if line.startswith(ANSWER)]
    if not answer:
        raise EnvironmentProblem(f"{python}: does not answer like a Python")
    return json.loads(answer[-1].removeprefix(ANSWER))


def _reported(probe: dict[str, Any]) -> dict[str, Any]:
    return {name: probe[name] for name in ("python", "version", "freeze")}


def _hardware(definition: Definition) -> dict[str, Any]:
    """What the locked packages need of GPUs, driver and processor, so not of other builds."""
    build = definition.build
    return {
        "capabilities": build.capabilities,
        "driver": build.driver,
        "bfloat16": list(build.bfloat16),
    }


def _check_space(request: Request) -> None:
    size = estimate(request.framework, request.device, request.yaml.parent)
    needed = size["size_bytes"]
    request.prefix.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(request.prefix.parent).free
    if free < needed:
        raise EnvironmentProblem(
            f"no space: {request.framework} takes {needed / 1e9:.1f} GB in {request.prefix}, but "
            f"{free / 1e9:.1f} GB are free there"
        )
