"""Pythons that have a framework for CUDA, on a machine without a GPU.

In: a lock of envs/. Out: an environment in results/.cache/ with the lock's packages, by their
hashes, but without those that no step calls where there is no card.
"""

import hashlib
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from dlperf.environments import EnvironmentProblem, disk, interpreters
from dlperf.environments.commands import CommandFailed, explain, run, uv_environ

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Packages:
    """Part of a framework's lock. skipped: the names of packages that are not installed (a regular
    expression). download, size: bytes that are fetched, by estimate, and that the environment
    takes, measured and rounded up. purpose: what they are and are for, as the user is told.
    """

    framework: str
    skipped: str
    download: float
    size: float
    purpose: str
    folder: Path

    def requirements(self) -> str:
        """The part of the lock that is installed, with its hashes."""
        lock = (ROOT / f"envs/{self.framework}.cuda.lock.txt").read_text()
        blocks = re.findall(r"^\S+==.*\n(?:[ \t]+.*\n)*", lock, re.MULTILINE)
        return "".join(block for block in blocks if not re.match(self.skipped, block))

    def python(self) -> Path:
        """The environment's Python; makes it where it is missing, and says so before it downloads.

        Raises EnvironmentProblem where it cannot be made.
        """
        wanted = self.requirements()
        digest = hashlib.sha256(wanted.encode()).hexdigest()
        environment, made = self.folder / "environment", self.folder / "made.txt"
        found = environment / "bin/python"
        with disk.held(self.folder / "lock"):
            if made.exists() and made.read_text() == digest and found.exists():
                return found
            made.unlink(missing_ok=True)
            self._make(environment, wanted)
            made.write_text(digest)
        return found

    def _make(self, environment: Path, wanted: str) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < self.download + self.size:
            raise EnvironmentProblem(
                f"{self.folder}: {free / 1e9:.1f} GB are free, too few for the packages"
            )
        print(
            f"downloading {self.download / 1e9:.1f} GB into {self.folder} ({self.size / 1e9:.1f} GB"
            f" there): {self.purpose}",
            file=sys.stderr,
            flush=True,
        )
        disk.clear(environment, self.folder)
        listed = self.folder / "requirements.txt"
        listed.write_text(wanted)
        uv, base = interpreters.uv(), interpreters.find("3.11", self.framework, self.folder)
        try:
            run([uv, "venv", "--quiet", "--no-project", "--python", base, environment])
            install = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            run([*install, "--python", environment, "-r", listed], uv_environ())
        except CommandFailed as failed:
            raise EnvironmentProblem(explain(str(failed))) from None


#: Of NVIDIA's packages JAX only needs `ptxas`, which makes machine code of XLA's kernels: a program
#: that never runs calls no library.
JAX = Packages(
    "jax",
    skipped="nvidia-(?!cuda-nvcc-cu12)",
    download=0.5e9,
    size=1.3e9,
    purpose="JAX for CUDA 12 and NVIDIA's assembler, to compile for a GPU without one",
    folder=ROOT / "results/.cache/compiled-for-gpu",
)
#: PyTorch loads NVIDIA's libraries when it starts, though the null device answers for the most of
#: them. DALI and what it needs is left out: a step here takes synthetic batches.
PYTORCH = Packages(
    "pytorch",
    skipped="nvidia-(dali|libnvcomp|nvimgcodec|nvjpeg|nvtiff)|astunparse|gast|libcst|makefun"
    "|nvtx|optree|packaging|six|wheel",
    download=2.6e9,
    size=5.0e9,
    purpose="PyTorch for CUDA 13 with NVIDIA's libraries, to drive it on a device that does "
    "nothing",
    folder=ROOT / "results/.cache/null-device",
)
#: TensorFlow's build for CUDA names its kernels without any of NVIDIA's libraries.
TENSORFLOW = Packages(
    "tensorflow",
    skipped="nvidia-",
    download=0.7e9,
    size=2.2e9,
    purpose="TensorFlow 2 for CUDA without NVIDIA's libraries, to look up a step's operations",
    folder=ROOT / "results/.cache/traced-for-gpu",
)


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        try:
            print({"jax": JAX, "pytorch": PYTORCH, "tensorflow": TENSORFLOW}[asked].python())
        except EnvironmentProblem as problem:
            sys.exit(f"error: {problem}")
