"""Makes one environment and says what it holds.

In: the environment's YAML and lock. Out: the document of `env.json`, after the framework was
imported in the environment. Three backends: `venv` (uv, from the lock with its hashes), `conda`
(inside a rule whose `conda:` environment Snakemake made from the same YAML) and `interpreter` (a
Python that has the framework already).
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlperf.environments import SCHEMA, EnvironmentProblem, estimate, files, interpreters, read
from dlperf.environments.commands import CommandFailed, explain, run, uv_environ
from dlperf.environments.files import Definition

#: How the probe's answer starts, among what a framework prints when it is imported.
ANSWER = "dlperf-answer "

#: Runs in the environment, in any Python from 2.7 on: the folder of scripts is not on its path.
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
    """The content of an env.json; what is not known stays empty."""
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
        "extras": {},
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
    """Make the environment, or take the one that is there; EnvironmentProblem where it cannot be.

    One process at a time works on a prefix; a second waits for the first.
    """
    if request.backend == "interpreter" and not request.interpreter:
        raise EnvironmentProblem(
            f"environments: interpreters: {request.framework}: names no Python, and the backend "
            "'interpreter' needs one"
        )
    try:
        with _held(request.cache / f"{request.prefix.name}.lock") as descriptor:
            if request.backend == "venv":
                return _virtual_environment(request, descriptor)
            return _existing(request, descriptor)
    except OSError as error:
        raise EnvironmentProblem(f"{error.filename or request.prefix}: {error.strerror}") from None


def _virtual_environment(request: Request, descriptor: int) -> dict[str, Any]:
    definition = files.load(request.framework, request.yaml, request.lock)
    marker = request.prefix / "built.json"
    built = read(marker)
    asked = _identity(definition)
    python = request.prefix / "bin" / "python"
    lock = definition.lock
    if not _same(built, asked, python):
        marker.unlink(missing_ok=True)  # from here on, what lies there is unfinished
        lock = _install(request, definition, descriptor)
    elif built["lock"] != definition.lock.name:
        lock = definition.lock.with_name(built["lock"])
    extras = _extras(request, definition, python, descriptor)
    probe = _probe(request, definition, python, descriptor, extras)
    made = document(
        request,
        "ok",
        "",
        interpreter=_from_here(python),
        lock=lock.name,
        lock_applied=True,
        lock_differences=files.differences(probe["freeze"], lock),
        size_bytes=_size(request.prefix),
        extras=extras,
        **asked,
        **_reported(probe),
        environ=_environ(definition, python),
    )
    write(made, marker)
    return made


def _identity(definition: Definition) -> dict[str, str]:
    return {"yaml_sha256": definition.yaml_sha256, "lock_sha256": definition.lock_sha256}


def _same(built: dict[str, Any], asked: dict[str, str], python: Path) -> bool:
    lock = built.get("lock_sha256") == asked["lock_sha256"]
    return lock and built.get("status") == "ok" and python.exists()


def _existing(request: Request, descriptor: int) -> dict[str, Any]:
    """An environment that somebody else made: Snakemake's conda, or the user's interpreter."""
    if request.backend == "conda":
        prefix = os.environ.get("CONDA_PREFIX", "")
        if not prefix:
            raise EnvironmentProblem(
                "environments: backend: conda, but no conda environment is active; call Snakemake "
                "with `--sdm conda`"
            )
        python = Path(prefix) / "bin" / "python"
    else:
        python = Path(os.path.expanduser(request.interpreter))
        if not python.is_file():
            raise EnvironmentProblem(
                f"environments: interpreters: {request.framework}: {request.interpreter}: there is "
                "no such file"
            )
    definition = _definition_of_existing(request)
    extras = _extras(request, definition, python, descriptor)
    probe = _probe(request, definition, python, descriptor, extras)
    has_lock = definition.lock.is_file()
    return document(
        request,
        "ok",
        "",
        interpreter=_from_here(python),
        lock=definition.lock.name if has_lock else "",
        lock_sha256=definition.lock_sha256 if has_lock else "",
        lock_differences=files.differences(probe["freeze"], definition.lock) if has_lock else [],
        size_bytes=_size(Path(os.environ["CONDA_PREFIX"])) if request.backend == "conda" else 0,
        extras=extras,
        **_reported(probe),
        environ=_environ(definition, python),
    )


def _definition_of_existing(request: Request) -> Definition:
    """Conda installs from the YAML, so it must agree with the lock; an interpreter stands alone."""
    if request.backend == "conda":
        return files.load(request.framework, request.yaml, request.lock)
    name = request.yaml.name.removesuffix(".yaml")
    lock = request.lock or request.yaml.with_name(f"{name}.lock.txt")
    section = files.build_section(request.framework, name, request.yaml)
    return Definition(name, request.yaml, lock, "", section)


def _install(request: Request, definition: Definition, descriptor: int) -> Path:
    """Make the virtual environment and fill it from the lock; returns the lock that was used."""
    found = interpreters.find(definition.python, request.framework, request.cache)
    uv, environ = interpreters.uv(), uv_environ(request.find_links)
    _remove(request.prefix)
    _check_space(request)
    command = [uv, "venv", "--quiet", "--no-project", "--allow-existing", "--python", found]
    try:
        run([*command, str(request.prefix)], environ, [descriptor])
    except CommandFailed as error:
        raise EnvironmentProblem(explain(str(error))) from None
    sync = [uv, "pip", "sync", "--require-hashes", "--python", str(request.prefix / "bin/python")]
    problem = ""
    for lock, options in _sources(definition, environ["UV_FIND_LINKS"]):
        print(f"installing {lock.name} {' '.join(options)}".rstrip(), flush=True)
        try:
            run([*sync, *options, str(lock)], environ, [descriptor])
            return lock
        except CommandFailed as error:
            problem = problem or explain(str(error))
            print(explain(str(error)), flush=True)
    raise EnvironmentProblem(problem)


def _sources(definition: Definition, find_links: str) -> list[tuple[Path, list[str]]]:
    """Locks to try in turn, with options for uv.

    A CPU build that the index does not have (PyTorch's) comes from a folder of `find_links`, or
    else from that build's own index, or else the CUDA build of the same version does: larger, and
    it runs on a CPU too.
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


def _extras(request: Request, definition: Definition, python: Path, descriptor: int) -> dict:
    """Parts that only a run on several devices needs (Horovod): name -> "" or why it is missing."""
    wanted = definition.build.distributed
    if not wanted or not request.distributed:
        return {}
    name = wanted["requirement"].partition("==")[0]
    environ = {**os.environ, **_environ(definition, python)}
    with contextlib.suppress(CommandFailed):
        run([str(python), "-c", f"import {wanted['module']}"], environ, [descriptor], timeout=300)
        return {name: ""}
    if request.backend == "interpreter":
        return {name: f"{request.interpreter} cannot import {wanted['module']}; nothing is built"}
    missing = [tool for tool in wanted.get("tools", []) if not shutil.which(tool)]
    if missing:
        return {
            name: f"{wanted['requirement']} is built from source, and {' and '.join(missing)} is "
            "not on PATH; without it only cases with one device run. Install it, remove env.json, "
            "and run again"
        }
    try:
        wheel = _wheel(request, definition, python, descriptor)
        run([str(python), "-m", "pip", "install", "--no-deps", "--no-index", wheel], environ)
    except CommandFailed as error:
        return {name: f"{wanted['requirement']} did not build: {explain(str(error))}"}
    return {name: ""}


def _wheel(request: Request, definition: Definition, python: Path, descriptor: int) -> str:
    """The wheel of a part that is built here, from the cache where it was built before."""
    wanted = definition.build.distributed
    module = files.locked(definition.lock).get(definition.build.module, "")
    basis = json.dumps([wanted, definition.python, definition.build.module, module])
    key = hashlib.sha256(basis.encode()).hexdigest()[:12]
    folder = request.cache / "wheels" / f"{wanted['requirement'].replace('==', '-')}-{key}"
    with _held(request.cache / f"{folder.name}.lock") as held:
        if not list(folder.glob("*.whl")):
            print(f"building {wanted['requirement']}; this takes minutes", flush=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                pinned = Path(work) / "requirements.txt"
                pinned.write_text(f"{wanted['requirement']} --hash=sha256:{wanted['sha256']}\n")
                command = [str(python), "-m", "pip", "wheel", "--no-deps", "--no-cache-dir"]
                command += ["--no-build-isolation", "--require-hashes", "-r", str(pinned)]
                environ = {**os.environ, **wanted.get("environ", {})}
                environ["PATH"] = os.pathsep.join([str(python.parent), environ["PATH"]])
                out = Path(work) / "out"
                run([*command, "-w", str(out)], environ, [descriptor, held])
                _remove(folder)
                out.rename(folder)
    return str(next(folder.glob("*.whl")))


def _environ(definition: Definition, python: Path) -> dict[str, str]:
    """Variables that the framework needs in this environment."""
    environ = {name: str(value) for name, value in definition.build.environ.items()}
    site = python.absolute().parent.parent / "lib" / "python*" / "site-packages"
    patterns = [str(site / pattern) for pattern in definition.build.library_path]
    folders = [folder for pattern in patterns for folder in sorted(glob.glob(pattern))]
    if folders:
        environ["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
    return environ


def _probe(
    request: Request, definition: Definition, python: Path, descriptor: int, extras: dict
) -> dict[str, Any]:
    """Import the framework (and its extras) there; what the environment reports of itself."""
    modules = [definition.build.module]
    modules += [definition.build.distributed["module"] for why in extras.values() if not why]
    environ = {**os.environ, "PYTHONNOUSERSITE": "1", **_environ(definition, python)}
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
        raise EnvironmentProblem(f"{python}: does not answer as a Python does")
    return json.loads(answer[-1].removeprefix(ANSWER))


def _reported(probe: dict[str, Any]) -> dict[str, Any]:
    return {name: probe[name] for name in ("python", "version", "freeze")}


def _check_space(request: Request) -> None:
    size = estimate(request.framework, request.device, request.yaml.parent)
    needed = size["size_bytes"]
    request.prefix.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(request.prefix.parent).free
    if free < needed:
        raise EnvironmentProblem(
            f"no space: {request.framework} takes {needed / 1e9:.1f} GB in {request.prefix}, and "
            f"{free / 1e9:.1f} GB are free there"
        )


def _size(folder: Path) -> int:
    """Bytes on disk; a file with several names in the folder counts once."""
    seen = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                state = os.lstat(os.path.join(root, name))
                seen[state.st_ino] = state.st_blocks * 512
    return sum(seen.values())


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _from_here(path: Path) -> str:
    """The path relative to the working directory when inside it; links are not followed."""
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[int]:
    """Hold the lock file `path`; yields its descriptor, for children that must hold it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another build of {path.stem}", file=sys.stderr, flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream.fileno()


def write(content: dict[str, Any], path: Path) -> None:
    """Write a document whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
