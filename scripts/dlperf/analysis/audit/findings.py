"""What an audit finds, what is expected of a round, and which errors are the auditor's own."""

import zlib
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

import yaml

from dlperf.contract import storage

#: The list of all findings.
OWN = "audit.tsv"
ROUNDING = "rounding"
ALLOW = "`--allow-other-versions` (`--config allow_other_versions=true`)"
#: What the analysis raises for documents that are no records, manifests, …: of another shape.
DAMAGED = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError),
    *(MemoryError, OSError, RuntimeError, TypeError, ValueError, yaml.YAMLError, zlib.error),
)


@dataclass(frozen=True)
class Finding:
    """One thing that differs. `file` is relative to the round's folder, or to the archive."""

    what: str
    file: str
    row: str = ""
    column: str = ""
    stored: str = ""
    recomputed: str = ""


@dataclass
class Audit:
    """Findings in the order of causes, what a reader must know, and how much was looked at."""

    round: str
    findings: list[Finding] = field(default_factory=list)
    rounding: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    listed: int = 0
    sums_sha256: str = ""
    archive_sha256: str = ""
    compared: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Expected:
    """What is expected of the round beside that it follows from its records.

    `sha256`: that of SHA256SUMS or of the archive, as its author published it. With
    `other_versions` a round that was computed with other code, libraries or another processor
    passes where no more differs than that explains.
    """

    sha256: str = ""
    other_versions: bool = False


NOTHING_PUBLISHED = Expected()


def is_own(error: Exception) -> bool:
    """Whether an error is the auditor's: a lack of room, memory or rights, not what files say."""
    return isinstance(error, BrokenProcessPool) or storage.is_lacking(error)


def own_cause(error: Exception) -> str:
    if isinstance(error, OSError):
        return storage.message(error, "the temporary folder")
    return "a process of it was ended" if isinstance(error, BrokenProcessPool) else "out of memory"
