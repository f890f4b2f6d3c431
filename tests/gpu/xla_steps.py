"""Training steps to compile for a GPU that is not there, and what comes of them.

In: a gpu_steps.Step. Out: its Compiled, made by xla_compile.py in a process of its own.
"""

import gzip
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_steps import Step, made_by
from xla_program import Program

HERE = Path(__file__).resolve().parent


class CompileError(Exception):
    """A step that does not compile; the text is the end of what was said."""


@dataclass(frozen=True)
class Compiled:
    """A step's program and what XLA says of it (facts.json of xla_compile.py)."""

    step: Step
    program: Program
    facts: Mapping[str, Any]

    @property
    def temporary_bytes(self) -> int:
        """The most memory that arrays between kernels take at one time."""
        return self.facts["temporary_bytes"]

    @property
    def flops(self) -> float | None:
        return self.step.flops

    @property
    def limits(self) -> dict[str, float] | None:
        return self.step.limits


def compiled(step: Step, python: Path, seconds: float = 3600) -> Compiled:
    """Compile a step under this Python. Raises CompileError."""
    with tempfile.TemporaryDirectory() as folder:
        compile_into(Path(folder), step, python, seconds)
        return read(Path(folder), step)


def compile_into(out: Path, step: Step, python: Path, seconds: float = 3600) -> None:
    """Write a step's program.txt and facts.json into a folder. Raises CompileError."""
    if said := made_by(HERE / "xla_compile.py", python, out, step, seconds):
        raise CompileError(said)


def read(folder: Path, step: Step) -> Compiled:
    """What compile_into wrote; the program may be compressed since."""
    facts = json.loads((folder / "facts.json").read_text())
    packed = folder / "program.txt.gz"
    if packed.exists():
        return Compiled(step, Program(gzip.decompress(packed.read_bytes()).decode()), facts)
    return Compiled(step, Program((folder / "program.txt").read_text()), facts)
