"""SHA256SUMS: the list of all that a round's numbers depend on; and with what they were computed.

In: the digests that merge took when it read records and certificates, and what lies beside them.
Out: one line a file in the format of sha256sum, so that `sha256sum -c SHA256SUMS` in the round's
folder checks it too; and the line of versions in the report, by which an audit knows whether the
same bytes can be expected. The sha256 of this list is what a round's author publishes.
"""

import hashlib
import platform
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from dlperf.analysis.round import names
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import storage
from dlperf.contract.files import write

NAME = names.SUMS
#: The round's own copy of config/peaks.yaml.
PEAKS = names.PEAKS
#: The libraries that numbers, tables, figures, the page and an archive's crate come from.
LIBRARIES = (
    *("fonttools", "itables", "jinja2", "markupsafe", "matplotlib", "numpy", "pandas"),
    *("pillow", "pydantic", "pyyaml", "rocrate", "scipy", "vl-convert-python"),
)
#: The folders of the package that they come from.
CODE = (
    *("analysis", "contract", "plan", "scenarios", "search"),
    *("frameworks", "workloads"),
)
# What may stand in a list. One that comes with an archive must not lead anywhere else.
_LINE = re.compile(
    r"([0-9a-f]{64})  ((?:config\.yaml|peaks\.yaml"
    r"|(?:runs|searches|attempts|checks|nodes|\.\./certificates|\.\./data)(?:/[\w-][\w.-]*)+))",
    re.ASCII,
)


def beside(folder: Path, shared: Path, data: Iterable[str]) -> dict[str, str]:
    """The sha256 of what a round's numbers depend on beside its records and certificates.

    Its config and peaks, calibrations, searches, every attempt at a repetition, draws, spot runs
    and replays, and the manifests of `data`.
    """
    found = [folder / name for name in ("config.yaml", PEAKS)]
    found += (folder / "nodes").glob("*.json")
    for name in ("searches", "attempts", "checks"):
        found += (folder / name).rglob("*.json")
    own = {path.relative_to(folder).as_posix(): of_file(path) for path in found}
    manifests = [f"data/{name}/manifest.json" for name in data]
    own |= {f"../{name}": of_file(shared / name) for name in manifests}
    return {name: sha256 for name, sha256 in own.items() if sha256}


def save(path: Path, digests: Mapping[str, str]) -> None:
    """Write the list: `digests` has the sha256 of each file by its path from the round's folder."""
    write(path, "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))


def read(path: Path) -> dict[str, str]:
    """The sha256 of each listed file, by its path from the round's folder."""
    found, problems = parse(path)
    for number, what in problems.items():
        raise AnalysisError(f"{path}: line {number} {what}")
    return found


def parse(path: Path) -> tuple[dict[str, str], dict[int, str]]:
    """(the sha256 of each listed file, what is wrong with a line by its number)."""
    found: dict[str, str] = {}
    problems = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if storage.is_lacking(error):
            raise
        raise AnalysisError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if not match:
            problems[number] = (
                f"is {line[:200]!r}; expected a sha256, two spaces, and the path of config.yaml, "
                "peaks.yaml, or of a file in runs/, searches/, attempts/, checks/, nodes/, "
                "../certificates/ or ../data/"
            )
        elif match[2] in found:
            problems[number] = f"lists {match[2]} a second time"
        else:
            found[match[2]] = match[1]
    return found, problems


def of_file(path: Path) -> str:
    """The sha256 of a file; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


@cache
def computed_with() -> tuple[str, ...]:
    """Digest of the code, and versions: what an audit must have to make the same bytes again."""
    return (
        f"code {_code_sha256()[:16]}",
        f"Python {platform.python_version()}",
        *(f"{name} {metadata.version(name)}" for name in LIBRARIES),
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
