"""The smallest wrong settings of each workload, as edits of an implementation: a module a workload.

tests/certificates makes the certificate of each: it fails.
"""

from pathlib import Path
from typing import NamedTuple

from conftest import CPU_FRAMEWORKS, SCRIPTS
from edits import Edit, edited

from dlperf import frameworks, workloads
from dlperf.measure import code


class Mutation(NamedTuple):
    """An implementation with one thing changed, and how its certificate is made."""

    workload: str
    framework: str
    name: str
    edit: Edit | None  # None: as it is, which passes
    layout: str = "1"
    variant: str = ""
    precision: str = "fp32"
    float64_only: bool = True  # enough to show it, in half the time
    tier: str = ""  # the first that shows it, where that is what the mutation is for
    long_run: bool = False  # whether its certificate has one
    other_compiler: str = ""

    @property
    def compiler(self) -> str:
        return self.other_compiler or frameworks.of(self.framework).default_compiler["cpu"]


#: Of a mutation that float64 does not show.
TIMED = {"float64_only": False}


def as_it_is(workload: str, name: str = "as it is", **settings) -> list[Mutation]:
    """The implementation of each framework on CPUs without a change."""
    return [
        Mutation(workload, framework, name, None, float64_only=False, **settings)
        for framework in CPU_FRAMEWORKS
        if workloads.implements(workload, framework)
    ]


def sources_of(workload: str, framework: str, scripts: Path = SCRIPTS) -> dict[Path, str]:
    """The modules of an implementation by path: its page and what it imports, without what the
    reference has too."""
    paths = [
        scripts / "dlperf" / path
        for path in code.of_implementation(workload, framework)
        if path.startswith(("workloads/", "frameworks/"))
        and not path.startswith("workloads/encoders/")
        and Path(path).stem not in ("facts", "proof", "reference")
    ]
    return {path: path.read_text() for path in paths}


def make(mutation: Mutation, scripts: Path) -> None:
    """Change the implementation in this copy of the project's code."""
    if mutation.edit:
        sources = sources_of(mutation.workload, mutation.framework, scripts)
        path, source = edited(mutation.edit, sources)
        path.write_text(source)
