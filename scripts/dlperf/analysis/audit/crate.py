"""The files of an unpacked archive against its own list of them, and against this repository."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from dlperf.analysis.audit import archive
from dlperf.analysis.audit.differences import compare
from dlperf.analysis.audit.findings import DAMAGED, Audit, Expected, Finding, is_own
from dlperf.analysis.round import checksums
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import strict_json
from dlperf.plan import ConfigError


def check_crate(root: Path, folder: Path, done: Audit, expected: Expected) -> Iterator[Finding]:
    """An archive's files against its ro-crate-metadata.json, and that against one made again.

    What comes from the repository has to be this repository's, and a lock that of its environment.
    """
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    try:
        stored = (root / archive.CRATE).read_bytes()
        graph = strict_json.parse(stored)["@graph"]
        wanted = {unquote(each["@id"]): each["sha256"] for each in graph if "sha256" in each}
    except FileNotFoundError:
        yield Finding("missing file", archive.CRATE)
        return
    except DAMAGED as error:
        if is_own(error):
            raise
        yield Finding("unreadable file", archive.CRATE, stored=f"{type(error).__name__}: {error}")
        return
    for name in sorted(wanted.keys() - there):
        yield Finding("missing file", name, column="sha256", stored=wanted[name])
    for name in sorted(there & wanted.keys()):
        sha256 = checksums.of_file(root / name)
        if sha256 != wanted[name]:
            yield Finding("changed file", name, "", "sha256", wanted[name], sha256)
    try:
        packed = archive.packed_from(root, folder)
        for name in sorted(there - packed.keys() - {archive.CRATE}):
            yield Finding("extra file", name)
        made = archive.crate_of(
            folder, {each: (root / each).read_bytes() for each in there - {archive.CRATE}}
        )
    except (AnalysisError, ConfigError, *DAMAGED) as error:
        if is_own(error):
            raise
        yield Finding(
            "cannot be regenerated", archive.CRATE, stored=f"{type(error).__name__}: {error}"
        )
        return
    for name in archive.COMMON:
        own, ours = (checksums.of_file(each / name) for each in (root, archive.ROOT))
        if own and own != ours and expected.other_versions:
            done.notes.append(f"{name} is another than this repository's")
        elif own and own != ours:
            yield Finding("changed file", name, "is not this repository's", "sha256", own, ours)
    for each in compare(archive.CRATE, stored, made):
        yield Finding("changed file", archive.CRATE, *each[:4])
