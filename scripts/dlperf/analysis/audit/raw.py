"""The files of a round that are not made from others: changed, deleted or extra ones.

In: a round's folder as it lies there. Out: a `Finding` for each file that is not what SHA256SUMS,
the copies in attempts/, the report or the measurements say of it, or that nobody checks.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from dlperf.analysis.audit.differences import pinned
from dlperf.analysis.audit.findings import DAMAGED, OWN, Audit, Finding, is_own
from dlperf.analysis.round import checksums, labels, names
from dlperf.analysis.schema.files import Row
from dlperf.contract import strict_json
from dlperf.measure import code

LINK = "link"
#: What is not made from the records, so not regenerated.
NOT_MADE = {"config.yaml", checksums.PEAKS, checksums.NAME, OWN}
#: Folders of what is not made from the records, with the endings of the files in them.
FOLDERS = {
    "runs": (".json", ".log"),
    "searches": (".json", ".log", ".tries"),
    "attempts": (".json",),
    "checks": (".json", ".log"),
    "nodes": (".json", ".log"),
    "logs": (".log",),
    "compare": (".tsv", ".html"),
    names.BESIDE: (".yaml", ".tsv", ".gz"),
}
#: What a file in a list is, by the folder that it lies in.
KINDS = {
    "runs": "record",
    "searches": "search",
    "attempts": "attempt",
    "checks": "spot check",
    "nodes": "calibration",
    "../certificates": "certificate",
    "../data": "manifest",
}
_ATTEMPT = re.compile(r"(rep\d+)-.*\.json")


def raw(folder: Path) -> Iterator[Finding]:
    """Raw data against SHA256SUMS."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            name = path.relative_to(folder).as_posix()
            yield Finding(LINK, name, stored=f"leads to {os.readlink(path)}")
    path = folder / checksums.NAME
    if not path.is_file():
        yield Finding("missing file", checksums.NAME)
        return
    listed, problems = checksums.parse(path)
    for number, what in problems.items():
        yield Finding("changed list", checksums.NAME, f"line {number}", stored=what)
    for name, wanted in listed.items():
        there = checksums.of_file(folder / name)
        kind = _kind(name)
        if not there:
            what = "deleted repetition" if kind == "record" else f"deleted {kind}"
            yield Finding(what, name, column="sha256", stored=wanted)
        elif there != wanted:
            yield Finding(f"changed {kind}", name, "", "sha256", wanted, there)
    for top in ("runs", "searches", "attempts", "checks", "nodes"):
        for name in (f"{top}/{each}" for each in _json_files(folder / top)):
            if name not in listed:
                there = checksums.of_file(folder / name)
                yield Finding(f"extra {_kind(name)}", name, column="sha256", recomputed=there)


def _kind(name: str) -> str:
    """What a file of a list is: 'record', 'certificate', 'config', …"""
    first, _, rest = name.partition("/")
    top = f"{first}/{rest.split('/')[0]}" if first == ".." else first
    return KINDS.get(top, name.removesuffix(".yaml"))


def pinned_by_report(folder: Path) -> Iterator[Finding]:
    """The list itself against its sha256 in the report: a line less there is a record less."""
    page = folder / "report.html"
    there = checksums.of_file(folder / checksums.NAME)
    stated = pinned(page.read_bytes()) if page.is_file() else there
    if stated != there:
        column = f"sha256 of {checksums.NAME}"
        yield Finding("changed report", page.name, "", column, stated, there)


def _json_files(folder: Path) -> list[str]:
    found = []
    for parent, _, files in os.walk(folder):
        inside = Path(parent).relative_to(folder)
        found += [(inside / name).as_posix() for name in files if name.endswith(".json")]
    return sorted(found)


def attempts(folder: Path, done: Audit) -> Iterator[Finding]:
    """Records against the copies that the stopwatch kept of all that it ever wrote."""
    copies: dict[str, dict[str, str]] = {}
    for name in _json_files(folder / "attempts"):
        case, _, file = name.rpartition("/")
        if match := _ATTEMPT.fullmatch(file):
            kept = copies.setdefault(f"runs/{case}/{match[1]}.json", {})
            kept[f"attempts/{name}"] = checksums.of_file(folder / "attempts" / name)
    for record, kept in copies.items():
        there = checksums.of_file(folder / record)
        if not there:
            yield Finding("deleted repetition", record, stored=f"was measured: {min(kept)}")
        elif there not in kept.values():
            asked = "sha256", kept[max(kept)], there
            yield Finding("changed record", record, "is no copy of attempts/", *asked)
        elif there != kept[max(kept)]:
            asked = "sha256", kept[max(kept)], there
            yield Finding("changed record", record, "is not the newest of attempts/", *asked)
        elif len(kept) > 1:
            done.notes.append(
                f"{record} was measured {len(kept)} times; attempts/ has every record"
            )


def environments(shared: Path, measured: list[Row]) -> Iterator[Finding]:
    """The packages in env.json against those that records were measured with."""
    for framework, device in dict.fromkeys((row["framework"], row["device"]) for row in measured):
        name = f"environments/{framework}.{device}/env.json"
        own = [row for row in measured if row["framework"] == framework and row["record"]]
        try:
            document = strict_json.read(shared / name)
            freeze = "\n".join(document.get("freeze", []))
            there = code.applied_lock(document), hashlib.sha256(freeze.encode()).hexdigest()
        except FileNotFoundError:
            continue
        except DAMAGED as error:
            if is_own(error):
                raise
            yield Finding("unreadable file", f"../{name}", stored=str(error))
            continue
        for key, value in zip(("lock_sha256", "freeze_sha256"), there, strict=True):
            known = {row[key] for row in own if row[key]}
            if known and value not in known:
                wanted = labels.listed(sorted(known))
                yield Finding("changed environment", f"../{name}", "", key, value, wanted)


def others(folder: Path, done: Audit) -> Iterator[Finding]:
    """Files of the round that nothing here makes: nobody has checked what they say."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or any(part.startswith(".") for part in name.split("/")):
            continue
        endings = FOLDERS.get(name.split("/")[0], ()) if "/" in name else ()
        if name not in NOT_MADE and name not in done.compared and path.suffix not in endings:
            yield Finding("extra file", name)
    if compared := sorted((folder / "compare").rglob("*.html")):
        done.notes.append(
            f"{labels.listed([path.relative_to(folder).as_posix() for path in compared])}: not "
            "regenerated, as they need another round; `compare` makes them"
        )
    if others := sorted(path.parent for path in (folder / names.BESIDE).glob("*/config.yaml")):
        done.notes.append(
            f"{labels.listed([path.relative_to(folder).as_posix() for path in others])}: tables of "
            "other rounds, taken as they are for the verdicts; audit these rounds themselves"
        )
