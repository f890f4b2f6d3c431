"""Reads the files of an environment: the YAML, the lock beside it, and `build.yaml`.

The input is `envs/<name>.yaml` and `envs/<name>.lock.txt`. The output is a `Definition`, or an
`EnvironmentProblem` that names the packages on which the two files disagree.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dlperf.environments import EnvironmentProblem, plain_name, split_pins

#: In an environment's YAML: packages above this comment are chosen, those below follow from them.
FOLLOWS = "# These follow from the ones above; `python -m dlperf.environments lock` writes them."
RELOCK = "run `python -m dlperf.environments lock --only {name}`"


@dataclass(frozen=True)
class Build:
    """What building and checking need besides the packages (a section of `build.yaml`)."""

    module: str
    environ: dict[str, str] = field(default_factory=dict)
    library_path: tuple[str, ...] = ()
    torch_backend: str = ""
    otherwise: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    driver: str = ""
    bfloat16: tuple[str, ...] = ()
    distributed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """An environment as its files describe it."""

    name: str
    yaml: Path
    lock: Path
    python: str
    build: Build

    @property
    def yaml_sha256(self) -> str:
        return sha256(self.yaml)

    @property
    def lock_sha256(self) -> str:
        return sha256(self.lock)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as stream:  # an image may be larger than memory
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises EnvironmentProblem if there is none."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise EnvironmentProblem(f"{path}: not YAML: {message}") from None
    if not isinstance(content, dict):
        raise EnvironmentProblem(f"{path}: must consist of keys and values")
    return content


def load(framework: str, yaml_path: Path, lock_path: Path | None = None) -> Definition:
    """Read the files of an environment and make sure that they agree.

    `yaml_path` is `<framework>.<device>.yaml`; the lock is beside it unless it is named.
    """
    name = yaml_path.name.removesuffix(".yaml")
    lock_path = lock_path or yaml_path.with_name(f"{name}.lock.txt")
    content = read_yaml(yaml_path)
    if "container" in content and "dependencies" not in content:
        raise EnvironmentProblem(
            f"{framework} comes as a container only ({content['container']}): call Snakemake with "
            "`--sdm apptainer`, or start it inside the container and set environments: "
            f"interpreters: {{{framework}: <the container's python3>}}"
        )
    python, _ = dependencies(yaml_path, content)
    if not lock_path.is_file():
        fix = RELOCK.format(name=name)
        raise EnvironmentProblem(f"{lock_path}: there is no such lock; {fix}")
    differences = disagreement(yaml_path, lock_path)
    if differences:
        raise EnvironmentProblem(
            f"{lock_path.name} is stale, it disagrees with {yaml_path.name}: "
            f"{'; '.join(differences)}. If the YAML is right, {RELOCK.format(name=name)}; if not, "
            "restore both files"
        )
    return Definition(name, yaml_path, lock_path, python, build_section(framework, name, yaml_path))


def dependencies(path: Path, content: dict[str, Any]) -> tuple[str, list[str]]:
    """The Python version ('3.11') and the pip requirements of an environment's YAML."""
    python, requirements = "", None
    for item in content.get("dependencies", []):
        if isinstance(item, dict):
            requirements = [str(line) for line in item.get("pip", [])]
        elif match := re.fullmatch(r"python\s*=+\s*(\d+\.\d+)", str(item)):
            python = match[1]
    if not python or requirements is None:
        raise EnvironmentProblem(
            f"{path}: dependencies: needs one 'python=X.Y' and one 'pip:' list of 'name==version'"
        )
    loose = [line for line in requirements if "==" not in line]
    if loose:
        raise EnvironmentProblem(
            f"{path}: dependencies: pip: '{loose[0]}' is no exact pin; write 'name==version'"
        )
    return python, requirements


def locked(path: Path) -> dict[str, str]:
    """Versions in a lock by plain name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(split_pins([line for line in lines if line[:1].isalnum()]))


def disagreement(yaml_path: Path, lock_path: Path) -> list[str]:
    """What the YAML's pip list and the lock say differently, a line a package.

    As for pip, '==2.13.0' in the YAML admits the build 2.13.0+cpu in the lock.
    """
    _, requirements = dependencies(yaml_path, read_yaml(yaml_path))
    asked, pinned = dict(split_pins(requirements)), locked(lock_path)
    found = []
    for name in sorted(asked.keys() | pinned.keys()):
        if name not in pinned:
            found.append(f"{name}=={asked[name]} is missing in the lock")
        elif name not in asked:
            found.append(f"{name}=={pinned[name]} is only in the lock")
        elif asked[name] not in (pinned[name], pinned[name].partition("+")[0]):
            found.append(f"{name} is {asked[name]} in the YAML and {pinned[name]} in the lock")
    return found


def build_section(framework: str, name: str, yaml_path: Path) -> Build:
    """The framework's section of `build.yaml`, combined with that of its device."""
    path = yaml_path.with_name("build.yaml")
    content = read_yaml(path) if path.is_file() else {}
    section = {"module": framework, **content.get(framework, {}), **content.get(name, {})}
    unknown = section.keys() - Build.__dataclass_fields__.keys()
    if unknown:
        allowed = ", ".join(Build.__dataclass_fields__)
        raise EnvironmentProblem(
            f"{path}: {name}: unknown key '{min(unknown)}' [allowed: {allowed}]"
        )
    kernels = section.get("capabilities", {"sass": [], "ptx": "", "ptx_driver": ""})
    versions = [*kernels.get("sass", []), kernels.get("ptx"), section.get("driver", "")]
    versions.append(kernels.get("ptx_driver"))
    allowed = {"sass", "ptx", "ptx_driver"}
    if kernels.keys() != allowed or not all(isinstance(each, str) for each in versions):
        raise EnvironmentProblem(
            f"{path}: {name}: capabilities, driver: must be like "
            '{sass: ["8.0"], ptx: "9.0", ptx_driver: "555"} and "525", each number in quotes'
        )
    lists = {key: section.get(key, []) for key in ("library_path", "bfloat16")}
    for key, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise EnvironmentProblem(f"{path}: {name}: {key}: {value!r} is no list of texts: [...]")
    return Build(**{**section, **{key: tuple(value) for key, value in lists.items()}})


def differences(freeze: list[str], lock_path: Path) -> list[str]:
    """How an environment differs from its lock, with a line for each package (local builds such as
    '+cpu' count as the same version; packages that are not in the lock do not count)."""
    has = dict(split_pins(freeze))
    return [
        f"{name}: {has.get(plain_name(name), 'missing')}, lock: {version}"
        for name, version in locked(lock_path).items()
        if has.get(name, "").partition("+")[0] != version.partition("+")[0]
    ]
