"""What conda makes of an environment: everything in its YAML but the pip list.

The input is `envs/<name>.yaml`. The output is the YAML for Snakemake's conda, without the packages
that the lock pins: the build installs those from the lock, with hashes, in the environment that
conda made. `envs/<name>.<platform>.pin.txt`, which a site writes for itself, pins the rest.
"""

import os
from pathlib import Path

import yaml

from dlperf.contract.files import write_if_changed
from dlperf.environments import EnvironmentProblem
from dlperf.environments.files import read_yaml, sha256

HEADER = (
    "# Written from {yaml}. The packages of its pip list come from the lock, which has the sha256\n"
    "# {sha256}.\n"
)


def definition(path: Path, cache: Path) -> Path:
    """Write the YAML for Snakemake's conda, and beside it the site's pin files; returns its path.

    The hash of the lock stands in it. So another lock gives another environment, in which nothing
    is left of the packages of the first one.
    """
    folder, name = cache / "conda", path.name.removesuffix(".yaml")
    content = read_yaml(path)
    packages = [each for each in content.get("dependencies", []) if not isinstance(each, dict)]
    lock = path.with_name(f"{name}.lock.txt")
    text = HEADER.format(yaml=path.name, sha256=sha256(lock))
    kept = {key: content[key] for key in ("name", "channels") if key in content}
    text += yaml.safe_dump({**kept, "dependencies": packages}, sort_keys=False)
    write_if_changed(folder / path.name, text)
    pins = {pin.name: pin for pin in path.parent.glob(f"{name}.*.pin.txt")}
    for old in folder.glob(f"{name}.*.pin.txt"):
        if old.name not in pins:
            old.unlink()
    for pin in pins.values():
        write_if_changed(folder / pin.name, pin.read_text(encoding="utf-8"))
    return folder / path.name


def prefix() -> Path:
    """The environment that Snakemake's conda has made and activated for this process.

    Raises EnvironmentProblem for any other, into which nothing may be installed: the user's own may
    be active too.
    """
    active = os.environ.get("CONDA_PREFIX", "")
    # where Snakemake notes that it is complete
    if not active or not Path(active).with_suffix(".env_setup_done").exists():
        raise EnvironmentProblem(
            "environments: backend: conda, but no environment of Snakemake's conda is active; call "
            "Snakemake with `--profile conda` or `--sdm conda`"
        )
    return Path(active)


def packages(folder: Path) -> list[str]:
    """What conda installed in an environment, as name-version-build."""
    return sorted(path.stem for path in (folder / "conda-meta").glob("*.json"))
