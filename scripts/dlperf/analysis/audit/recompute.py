"""Does a round say what its raw records say? Everything is regenerated and compared.

In: a round's folder as it lies there, or an archive of one. Out: audit.tsv, a row for each thing
that differs, and a summary. Raw data are compared with SHA256SUMS; from them measurements, cells,
tables, figures and the report are made again in a temporary folder and compared with those of the
round, which is not touched: whole, by bytes. docs/auditing.md says what can be found so, and what
cannot.
"""

import hashlib
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import yaml

from dlperf import plan
from dlperf.analysis import steps
from dlperf.analysis.audit.differences import (
    ABSENT,
    TABLES,
    Difference,
    as_computed_with,
    compare,
    computed_with,
    pinned,
)
from dlperf.analysis.audit.differences import ROUNDING as ROUNDED
from dlperf.analysis.round import checksums, labels, names, verdicts
from dlperf.analysis.schema.files import AnalysisError, Row, read_table, write_table
from dlperf.contract import storage, strict_json
from dlperf.contract.files import write
from dlperf.measure import code
from dlperf.plan import ConfigError
from dlperf.plan.peaks import PEAKS

#: How many findings of a file, and of all files, are printed; audit.tsv has all.
SHOWN_OF_FILE = 6
SHOWN = 60
CRATE = "ro-crate-metadata.json"
OWN = "audit.tsv"
#: What figures are drawn with.
DRAWING = ("fonttools ", "matplotlib ", "pillow ")
ROUNDING = "rounding"
OUT = "`--out` (`--config out=FILE`)"
ALLOW = "`--allow-other-versions` (`--config allow_other_versions=true`)"
OTHER = "other versions"
LINK = "link"
#: What the analysis raises for documents that are no records, manifests, …: of another shape.
DAMAGED = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError),
    *(MemoryError, OSError, RuntimeError, TypeError, ValueError, yaml.YAMLError, zlib.error),
)
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
COLUMNS = ("what", "file", "row", "column", "stored", "recomputed")
_ATTEMPT = re.compile(r"(rep\d+)-.*\.json")


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


def audit(where: Path, out: Path, expected: Expected = Expected()) -> None:
    """Audit a round's folder or an archive, print the summary and write audit.tsv to `out`.

    Raises AnalysisError where anything differs, or where there is no round.
    """
    try:
        done = of_archive(where, expected) if where.is_file() else of_round(where, expected)
    except (OSError, MemoryError, BrokenProcessPool) as error:
        if not _is_own(error):
            raise
        told = f"the audit could not be done: {_own(error)}; it says nothing about {where}"
        raise AnalysisError(told) from None
    done.findings = list(map(_as_text, done.findings))
    if expected.sha256 and expected.sha256 not in (done.sums_sha256, done.archive_sha256):
        now = done.archive_sha256 or done.sums_sha256
        name = where.name if done.archive_sha256 else checksums.NAME
        done.findings.insert(
            0, Finding("other than published", name, "", "sha256", expected.sha256, now)
        )
    for line in summary(done, out):
        print(line)
    told = f"{out} has all of them"
    try:
        write_table(out, COLUMNS, map(asdict, [*done.findings, *done.rounding]))
    except OSError as error:
        if error.errno not in storage.SHUT:
            raise
        # an auditor may be let read only: what was found counts
        told = f"not written, as {storage.message(error, out)}; name another place by {OUT}"
        print(f"Note: {told}")
    if done.findings:
        count = labels.plural(len(done.findings), "difference")
        raise AnalysisError(f"{where}: {count}; {told}")


def _is_own(error: Exception) -> bool:
    """Whether an error is the auditor's: a lack of room, memory or rights, not what files say."""
    return isinstance(error, BrokenProcessPool) or storage.is_lacking(error)


def _own(error: Exception) -> str:
    if isinstance(error, OSError):
        return storage.message(error, "the temporary folder")
    return "a process of it was ended" if isinstance(error, BrokenProcessPool) else "out of memory"


def _as_text(finding: Finding) -> Finding:
    """What files and names say is text: nothing in it moves a terminal's cursor."""

    def shown(text: str) -> str:
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

    return Finding(*map(shown, asdict(finding).values()))


def of_archive(path: Path, expected: Expected = Expected()) -> Audit:
    """Audit what `dlperf.analysis.audit.archive` packed, unpacked in a temporary folder."""
    from dlperf.loaders import DataError
    from dlperf.prepare.unpack import unpack

    with tempfile.TemporaryDirectory(prefix="dlperf-audit-") as scratch:
        root = Path(scratch) / "archive"
        try:
            unpack(path, root)
        except DataError as error:
            raise AnalysisError(str(error)) from None
        rounds = sorted(root.glob("results/*/config.yaml"))
        if len(rounds) != 1:
            raise AnalysisError(
                f"{path}: has {len(rounds)} rounds (results/<round>/config.yaml), expected one; "
                "`snakemake --profile local archive` makes an archive"
            )
        done = of_round(rounds[0].parent, expected)
        found = list(_crate(root, rounds[0].parent, done, expected))
        done.findings[:0] = found
        done.archive_sha256 = checksums.of_file(path)
        return done


def of_round(folder: Path, expected: Expected = Expected()) -> Audit:
    """Audit the round in `folder`, beside which are the folders that rounds share."""
    if not (folder / "config.yaml").exists():
        raise AnalysisError(
            f"{folder}: is no round: it has no config.yaml; name a round's folder or an archive"
        )
    done = Audit(folder.name)
    same = expectation(folder, done, expected)
    done.findings += raw(folder)
    if (folder / checksums.NAME).is_file():
        done.listed = len(checksums.parse(folder / checksums.NAME)[0])
        done.sums_sha256 = checksums.of_file(folder / checksums.NAME)
    if checksums.of_file(folder / checksums.PEAKS) not in ("", checksums.of_file(PEAKS)):
        done.notes.append(
            f"{checksums.PEAKS}, which MFU is shown beside, is another than config/peaks.yaml here"
        )
    done.findings += [*_pinned(folder), *_attempts(folder, done)]
    rounded = False
    with tempfile.TemporaryDirectory(prefix="dlperf-audit-") as scratch:
        try:
            for name, differences in made_again(folder, Path(scratch), same):
                done.compared.append(name)
                for finding in _findings(name, differences, expected):
                    kept = done.rounding if finding.what == ROUNDING else done.findings
                    kept.append(finding)
                if differences and any(each.rounding for each in differences):
                    rounded = True
        except (AnalysisError, ConfigError) as error:
            # findings so far say why; what follows from it cannot be made
            done.findings += [
                Finding("cannot be regenerated", "", stored=line)
                for line in str(error).splitlines()
            ]
        except DAMAGED as error:  # what a round holds may come from anybody
            if _is_own(error):
                raise
            told = f"{type(error).__name__}: {error}"
            done.findings.append(Finding("cannot be regenerated", "", stored=told))
        else:
            measured = read_table(Path(scratch) / "measurements.tsv.gz")
            done.notes += [
                f"{row['record']}: nobody vouches for all code that ran: {row['unvouched']}"
                for row in measured
                if row.get("unvouched")
            ]
            done.findings += _environments(folder.parent, measured)
            done.findings += _others(folder, done)
    if rounded and not expected.other_versions:
        done.notes.append(
            f"numbers differ by less than {ROUNDED} of their value, which another processor may "
            f"round; {ALLOW} lets that pass"
        )
    return done


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


def _pinned(folder: Path) -> Iterator[Finding]:
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


def _attempts(folder: Path, done: Audit) -> Iterator[Finding]:
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


@dataclass(frozen=True)
class Same:
    """What of the report's versions is that of the audit: its code; what figures are drawn with.

    `said`: what the report says, where that is not what the audit has. `rounding`: a table that
    differs by rounding is taken as it is, for what is derived from it.
    """

    code: bool = True
    drawing: bool = True
    said: tuple[str, ...] = ()
    rounding: bool = False


def expectation(folder: Path, done: Audit, expected: Expected) -> Same:
    """By what the round's report says that it was computed with: with other versions an audit
    cannot vouch for pictures and pages, and says so."""
    page = folder / "report.html"
    said = computed_with(page.read_bytes()) if page.is_file() else []
    here = list(checksums.computed_with())
    if said == here or not page.is_file():
        return Same(rounding=expected.other_versions)
    apart = sorted({*said} ^ {*here})
    same_code = not any(each.startswith("code ") for each in apart)
    drawing = not any(each.startswith(DRAWING) for each in apart)
    theirs = ", ".join(each for each in said if each in apart) or "nothing"
    ours = ", ".join(each for each in here if each in apart) or "the same"
    told = (
        f"the report was computed with other versions than this audit ({theirs}; here {ours}), so "
        "it cannot vouch for pictures and pages. "
    )
    if not same_code:
        told += "Of other code, check out the commit that the records name, or the release. "
    told += "A .venv from the round's envs/workflow.lock.txt has its libraries"
    if not drawing:
        told += (
            ". Figures were not drawn again: cells.tsv, which they draw, was compared, and that "
            "the report shows these figures"
        )
    if expected.other_versions:
        done.notes.append(told)
    else:
        told += f"; {ALLOW} lets this pass"
        done.findings.append(Finding(OTHER, page.name, "computed with", "", theirs, ours))
        done.notes.append(told)
    return Same(same_code, drawing, tuple(said), expected.other_versions)


def made_again(
    folder: Path, scratch: Path, same: Same = Same()
) -> Iterator[tuple[str, list[Difference] | None]]:
    """Make everything that is made from records, in `scratch`: (file, what differs) when made.

    What differs is None where the round does not have the file. Where `same` says so, a table that
    differs by rounding only is replaced by the round's own: what is derived from it has the same
    bytes then.
    """
    from dlperf.plan.show import tsv

    def compared(name: str) -> tuple[str, list[Difference] | None]:
        return name, _compared(name, folder, scratch, same)

    config = plan.load(folder / "config.yaml")
    cases = plan.expand(config)
    again = _Again(folder, scratch, cases)
    if (folder / "plan.tsv").exists():
        (scratch / "plan.tsv").write_text(tsv(config, cases), encoding="utf-8")
        yield compared("plan.tsv")
    tables, others = names.table_ids(cases), names.of_other_metrics(cases)
    tables += [name for name in others if any(folder.glob(f"tables/{name}.*"))]  # on request
    figures = _kinds_of_figures(folder, cases)
    with ProcessPoolExecutor(min(len(tables) + 1, len(os.sched_getaffinity(0)))) as pool:

        def shown(of: Path) -> list[Future[list[str]]]:
            draw = partial(_figure, of) if same.drawing else partial(_kept_figure, folder)
            drawn = [pool.submit(draw, scratch, name, kinds) for name, kinds in figures.items()]
            return drawn + [pool.submit(_table, of, scratch, name) for name in tables]

        # Drawn from the round's cells while records are read: of use where those turn out right.
        beside = [names.LATENCIES] if names.have_latencies(cases) else []
        beside += [names.CURVES] if names.have_curves(cases) else []
        drawn_from = [names.CELLS, *beside]
        there = folder / names.CELLS
        waiting = shown(there) if all((folder / each).exists() for each in drawn_from) else []
        try:
            for step in steps.TO_CELLS:
                made = again.run(step)
                yield from map(compared, made)
            if not waiting or any(
                (folder / each).read_bytes() != (scratch / each).read_bytes() for each in drawn_from
            ):
                _forget(waiting)
                waiting = shown(scratch / names.CELLS)
            for each in waiting:
                yield from map(compared, each.result())
            yield from map(compared, again.run(steps.MARKDOWN))
        finally:
            _forget(waiting)
    for name in ("nodes", names.BESIDE):
        if (folder / name).exists():
            (scratch / name).symlink_to((folder / name).resolve())
    if config.beside:
        yield from map(compared, again.run(steps.BESIDE))
        for name in verdicts.figures(config.beside):
            kinds = [*names.DRAWN, *_there(folder, name, names.DRAWN_ON_REQUEST)]
            kept = partial(_kept_figure, folder, scratch)
            yield from map(compared, (again.draw_beside if same.drawing else kept)(name, kinds))
    yield from map(compared, again.run(steps.REPORT))


@dataclass(frozen=True)
class _Again:
    """Runs steps of the analysis in `scratch`, on what is raw in `folder`."""

    folder: Path
    scratch: Path
    cases: Sequence[plan.Case]
    made: set[str] = field(default_factory=set)

    def run(self, step: steps.Step) -> list[str]:
        """Run a step; returns the names of the files that it made."""
        own = step.of_round(self.cases)
        step.run({option.key: self._place(option) for option in own})
        made = [option.path for option in own if option.role == steps.OUTPUT]
        self.made.update(made)
        return made

    def draw_beside(self, name: str, kinds: Sequence[str]) -> list[str]:
        """Draw the verdicts beside one publication or round; returns the names of the files."""
        step, other = steps.BESIDE_FIGURE, name.removeprefix(f"{names.BESIDE}-")
        read = (steps.INPUT, steps.PARAM)
        places = {each.key: self._place(each) for each in step.options if each.role in read}
        made = {
            each.key: each.path.format(other=other)
            for each in step.options
            if each.role == steps.OUTPUT and each.key in kinds
        }
        files = {kind: self.scratch / path for kind, path in made.items()}
        step.run({**places, **files, "other": other})
        return [*made.values()]

    def _place(self, option: steps.Option) -> Path:
        if option.path == "..":
            return self.folder.parent
        if option.path == ".":
            return self.scratch  # has what was made so far
        if option.role == steps.OUTPUT or option.path in self.made:
            return self.scratch / option.path
        return self.folder / option.path


def _kinds_of_figures(folder: Path, cases: Sequence[plan.Case]) -> dict[str, list[str]]:
    """{figure: kinds of its files}: those that are always made, and what there is on request."""
    found = {name: list(names.DRAWN) for name in names.figure_ids(cases)}
    for name in [*found, *names.of_other_metrics(cases)]:
        kinds = names.DRAWN_ON_REQUEST if name in found else (*names.DRAWN, *names.DRAWN_ON_REQUEST)
        if there := _there(folder, name, kinds):
            found[name] = [*found.get(name, []), *there]
    return found


def _there(folder: Path, name: str, kinds: Sequence[str]) -> list[str]:
    """The kinds in which the round has a figure."""
    return [kind for kind in kinds if (folder / f"figures/{name}.{kind}").exists()]


def _forget(waiting: list[Future[list[str]]]) -> None:
    for each in waiting:
        each.cancel()
    wait(waiting)


def _table(cells: Path, scratch: Path, name: str) -> list[str]:
    return _shown(steps.TABLE, cells, scratch, name, names.TABLED)


def _figure(cells: Path, scratch: Path, name: str, kinds: Sequence[str]) -> list[str]:
    return _shown(steps.FIGURE, cells, scratch, name, kinds)


def _shown(
    step: steps.Step, cells: Path, scratch: Path, name: str, kinds: Sequence[str]
) -> list[str]:
    """Make a table or a figure in these kinds; returns the names of their files."""
    made = {
        option.key: option.path.format(**{step.name: name})
        for option in step.options
        if option.role == steps.OUTPUT and option.key in kinds
    }
    step.run({"cells": cells, step.name: name, **{k: scratch / path for k, path in made.items()}})
    return [made[kind] for kind in kinds]


def _kept_figure(folder: Path, scratch: Path, name: str, kinds: Sequence[str]) -> list[str]:
    """The round's own figure, for the report, where it cannot be drawn again."""
    kept = [f"figures/{name}.{kind}" for kind in kinds]
    for each in kept:
        if (folder / each).exists():
            write(scratch / each, (folder / each).read_bytes())
    return kept


def _compared(name: str, folder: Path, scratch: Path, same: Same) -> list[Difference] | None:
    if not (folder / name).is_file():
        return None
    stored, made = ((each / name).read_bytes() for each in (folder, scratch))
    if name == checksums.NAME:
        return _list_compared(folder, scratch)
    if name == "report.html":
        made = as_computed_with(made, same.said)
    found = compare(name, stored, made)
    rounding = same.rounding and name.endswith(TABLES)
    if rounding and found and all(each.rounding for each in found):
        write(scratch / name, stored)
    return found


def _list_compared(folder: Path, scratch: Path) -> list[Difference]:
    """The files that the list names against those that it should name.

    What is in the round's folder and not listed, or listed and not there, was told before.
    """
    stored, made = (checksums.parse(each / checksums.NAME)[0] for each in (folder, scratch))
    lacking = [name for name in made if name not in stored and name.split("/")[0] not in FOLDERS]
    beyond = [name for name in stored if name not in made and (folder / name).exists()]
    if lacking or beyond:
        return [
            *(Difference(name, "", ABSENT, "has to be listed") for name in lacking),
            *(Difference(name, "", "is listed", "is nothing of this round") for name in beyond),
        ]
    if stored != made:
        return []
    return compare(
        checksums.NAME, *((each / checksums.NAME).read_bytes() for each in (folder, scratch))
    )


def _findings(name: str, differences: list[Difference] | None, expected: Expected) -> list[Finding]:
    if differences is None:
        return [Finding("missing file", name)]
    kinds = {
        "figures": "changed figure",
        "report.html": "changed report",
        checksums.NAME: "changed list",
    }
    what = kinds.get(
        name.split("/")[0], "changed cell" if name.endswith(TABLES) else "changed table"
    )
    return [
        Finding(ROUNDING if each.rounding and expected.other_versions else what, name, *each[:4])
        for each in differences
    ]


def _environments(shared: Path, measured: list[Row]) -> Iterator[Finding]:
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
            if _is_own(error):
                raise
            yield Finding("unreadable file", f"../{name}", stored=str(error))
            continue
        for key, value in zip(("lock_sha256", "freeze_sha256"), there, strict=True):
            known = {row[key] for row in own if row[key]}
            if known and value not in known:
                wanted = labels.listed(sorted(known))
                yield Finding("changed environment", f"../{name}", "", key, value, wanted)


def _others(folder: Path, done: Audit) -> Iterator[Finding]:
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


def _crate(root: Path, folder: Path, done: Audit, expected: Expected) -> Iterator[Finding]:
    """An archive's files against its ro-crate-metadata.json, and that against one made again.

    What comes from the repository has to be this repository's, and a lock that of its environment.
    """
    from dlperf.analysis.audit import archive

    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    try:
        stored = (root / CRATE).read_bytes()
        graph = strict_json.parse(stored)["@graph"]
        wanted = {unquote(each["@id"]): each["sha256"] for each in graph if "sha256" in each}
    except FileNotFoundError:
        yield Finding("missing file", CRATE)
        return
    except DAMAGED as error:
        if _is_own(error):
            raise
        yield Finding("unreadable file", CRATE, stored=f"{type(error).__name__}: {error}")
        return
    for name in sorted(wanted.keys() - there):
        yield Finding("missing file", name, column="sha256", stored=wanted[name])
    for name in sorted(there & wanted.keys()):
        sha256 = checksums.of_file(root / name)
        if sha256 != wanted[name]:
            yield Finding("changed file", name, "", "sha256", wanted[name], sha256)
    try:
        packed = archive.packed_from(root, folder)
        for name in sorted(there - packed.keys() - {CRATE}):
            yield Finding("extra file", name)
        made = archive.crate_of(
            folder, {each: (root / each).read_bytes() for each in there - {CRATE}}
        )
    except (AnalysisError, ConfigError, *DAMAGED) as error:
        if _is_own(error):
            raise
        yield Finding("cannot be regenerated", CRATE, stored=f"{type(error).__name__}: {error}")
        return
    for name in archive.COMMON:
        own, ours = (checksums.of_file(each / name) for each in (root, archive.ROOT))
        if own and own != ours and expected.other_versions:
            done.notes.append(f"{name} is another than this repository's")
        elif own and own != ours:
            yield Finding("changed file", name, "is not this repository's", "sha256", own, ours)
    for each in compare(CRATE, stored, made):
        yield Finding("changed file", CRATE, *each[:4])


def summary(done: Audit, out: Path) -> Iterator[str]:
    """For a terminal: what was looked at, notes, and the first findings."""
    yield (
        f"Round {done.round}: {labels.plural(done.listed, 'file')} of raw data compared with "
        f"{checksums.NAME}, {labels.plural(len(done.compared), 'file')} regenerated and compared"
    )
    if done.sums_sha256:
        yield f"sha256 of {checksums.NAME}: {done.sums_sha256}"
    if done.archive_sha256:
        yield f"sha256 of the archive: {done.archive_sha256}"
    yield from (f"Note: {note}" for note in done.notes[:SHOWN_OF_FILE])
    if len(done.notes) > SHOWN_OF_FILE:
        yield f"... and {len(done.notes) - SHOWN_OF_FILE} more notes"
    if done.rounding:
        count = len(done.rounding)
        number = "1 number differs" if count == 1 else f"{count:,} numbers differ"
        yield f"{number} by rounding only: {out} has all"
    if not done.findings:
        yield "Nothing differs." if not done.rounding else "Nothing else differs."
        return
    shown: Counter[str] = Counter()
    for finding in done.findings:
        shown[finding.file] += 1
        if shown[finding.file] <= SHOWN_OF_FILE and shown.total() <= SHOWN:
            yield _line(finding)
    more = {file: n - SHOWN_OF_FILE for file, n in shown.items() if n > SHOWN_OF_FILE}
    yield from (f"  {file}: {count} more" for file, count in more.items())
    if shown.total() > SHOWN:
        yield f"  and so on: {out} has all"


def _line(finding: Finding) -> str:
    place = ", ".join(filter(None, (finding.file, finding.row, finding.column)))
    values = ""
    if finding.stored and finding.recomputed:
        values = f": {_short(finding.stored)} is stored, {_short(finding.recomputed)} recomputed"
    elif finding.stored or finding.recomputed:
        values = f": {_short(finding.stored or finding.recomputed)}"
    return f"  {finding.what}: {place}{values}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
