"""The Python that compiles JAX's steps for a GPU on a machine that has none.

In: envs/jax.cuda.lock.txt. Out: an environment in results/.cache/ with those very packages, by
their hashes, but without NVIDIA's libraries: a program that never runs calls none. Of NVIDIA's it
only has `ptxas`, which makes machine code of XLA's kernels.
"""

import hashlib
import re
import shutil
import sys
from pathlib import Path

from dlperf.environments import EnvironmentProblem, disk, interpreters
from dlperf.environments.commands import CommandFailed, explain, run, uv_environ

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "envs/jax.cuda.lock.txt"
FOLDER = ROOT / "results/.cache/compiled-for-gpu"
#: Of NVIDIA's packages in the lock, the one that compiling needs.
COMPILER = "nvidia-cuda-nvcc-cu12"
#: What is fetched, by estimate, and what the environment takes, measured and rounded up.
DOWNLOAD, SIZE = 0.5e9, 1.3e9


def requirements() -> str:
    """The part of the lock that is installed, with its hashes."""
    blocks = re.findall(r"^\S+==.*\n(?:[ \t]+.*\n)*", LOCK.read_text(), re.MULTILINE)
    return "".join(
        block for block in blocks if not block.startswith("nvidia-") or block.startswith(COMPILER)
    )


def python() -> Path:
    """The environment's Python; makes it where it is missing, and says so before it downloads.

    Raises EnvironmentProblem where it cannot be made.
    """
    wanted = requirements()
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    environment, made = FOLDER / "environment", FOLDER / "made.txt"
    found = environment / "bin/python"
    with disk.held(FOLDER / "lock"):
        if made.exists() and made.read_text() == digest and found.exists():
            return found
        made.unlink(missing_ok=True)
        _make(environment, wanted)
        made.write_text(digest)
    return found


def _make(environment: Path, wanted: str) -> None:
    free = shutil.disk_usage(FOLDER).free
    if free < DOWNLOAD + SIZE:
        raise EnvironmentProblem(
            f"{FOLDER}: {free / 1e9:.1f} GB are free, too few for the packages"
        )
    print(
        f"downloading {DOWNLOAD / 1e9:.1f} GB into {FOLDER} ({SIZE / 1e9:.1f} GB there): JAX for "
        "CUDA 12 and NVIDIA's assembler, to compile for a GPU without one",
        file=sys.stderr,
        flush=True,
    )
    disk.clear(environment, FOLDER)
    listed = FOLDER / "requirements.txt"
    listed.write_text(wanted)
    base = interpreters.find("3.11", "jax", FOLDER)
    try:
        run([interpreters.uv(), "venv", "--quiet", "--no-project", "--python", base, environment])
        install = [interpreters.uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        run([*install, "--python", environment, "-r", listed], uv_environ())
    except CommandFailed as failed:
        raise EnvironmentProblem(explain(str(failed))) from None


if __name__ == "__main__":
    try:
        print(python())
    except EnvironmentProblem as problem:
        sys.exit(f"error: {problem}")
