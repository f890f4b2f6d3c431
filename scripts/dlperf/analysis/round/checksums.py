"""SHA256SUMS: the list of what a round's numbers were computed from; and with what they were.

In: the digests that merge took when it read the files. Out: one line a file in the format of
sha256sum, so that `sha256sum -c SHA256SUMS` in the round's folder checks it too; and the line of
versions in the report, by which an audit knows whether the same bytes can be expected.
"""

import hashlib
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract.files import write
from dlperf.measure import host
from dlperf.measure.record import git_commit

NAME = "SHA256SUMS"
#: The libraries that numbers, tables, figures and the page come from.
LIBRARIES = (
    *("itables", "jinja2", "markupsafe", "matplotlib", "numpy", "pandas", "pillow"),
    *("pydantic", "pyyaml", "scipy", "vl-convert-python"),
)
#: The folders of the package that they come from.
CODE = ("analysis", "contract", "plan", "scenarios", "frameworks", "workloads")
# What may stand in a list. One that comes with an archive must not lead anywhere else.
_LINE = re.compile(
    r"([0-9a-f]{64})  ((?:config\.yaml|(?:runs|\.\./certificates)(?:/[\w-][\w.-]*)+))"
)


def save(path: Path, digests: Mapping[str, str]) -> None:
    """Write the list: `digests` has the sha256 of each file by its path from the round's folder."""
    write(path, "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))


def read(path: Path) -> dict[str, str]:
    """The sha256 of each listed file, by its path from the round's folder."""
    found = {}
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AnalysisError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if not match:
            raise AnalysisError(
                f"{path}: line {number} is {line!r}; expected a sha256, two spaces, and the path "
                "of config.yaml, of a record in runs/ or of a certificate in ../certificates/"
            )
        found[match[2]] = match[1]
    return found


def of_file(path: Path) -> str:
    """The sha256 of a file; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""


@cache
def computed_with() -> tuple[str, ...]:
    """Commit, digest of the code, versions, processor: what a recomputed number may depend on."""
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return (
        f"commit {git_commit() or 'not known'}",
        f"code {_code_sha256()[:16]}",
        f"Python {platform.python_version()}",
        *versions,
        f"{host.facts()['cpu']} ({platform.machine()})",
    )


def _code_sha256() -> str:
    """Of all files of the package that turn records into a report."""
    package = Path(__file__).parents[2]
    files = [path for folder in CODE for path in (package / folder).rglob("*")]
    digests = [
        f"{of_file(path)} {path.relative_to(package).as_posix()}"
        for path in sorted(files)
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
