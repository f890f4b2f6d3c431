"""Does a round say what its raw records say? Everything is made again and compared.

In: a round's folder as it lies there, or an archive of one. Out: audit.tsv, a row for each thing
that differs, and a summary. Records, certificates and config are compared with SHA256SUMS; from
them measurements, cells, tables, figures and the report are made again in a temporary folder and
compared with those of the round, which is not touched: tables (TSV) cell by cell, what is derived
from them by bytes. docs/auditing.md says what can
be found so, and what cannot.
"""

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from dlperf import plan
from dlperf.analysis.audit.differences import (
    TABLES,
    Difference,
    compare,
    computed_with,
    pinned,
    without_computed_with,
)
from dlperf.analysis.round import checksums, labels, names
from dlperf.analysis.schema.files import AnalysisError, write_table
from dlperf.contract.files import write
from dlperf.plan import ConfigError

#: How many findings of a file, and of all files, are printed; audit.tsv has all.
SHOWN_OF_FILE = 6
SHOWN = 60
CRATE = "ro-crate-metadata.json"
OWN = "audit.tsv"
#: What figures are drawn with.
DRAWING = ("matplotlib ", "pillow ")
ROUNDING = "rounding"
#: What is not made from the records, so not made again.
NOT_MADE = {"config.yaml", checksums.NAME, "runs", "attempts", "nodes", "logs", "compare", OWN}
PEAKS = Path(__file__).parents[4] / "config/peaks.yaml"
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
    compared: list[str] = field(default_factory=list)


def audit(where: Path, out: Path) -> None:
    """Audit a round's folder or an archive, print the summary and write audit.tsv to `out`.

    Raises AnalysisError where anything differs, or where there is no round.
    """
    done = of_archive(where) if where.is_file() else of_round(where)
    write_table(out, COLUMNS, map(asdict, [*done.findings, *done.rounding]))
    for line in summary(done, out):
        print(line)
    if done.findings:
        count = labels.plural(len(done.findings), "difference")
        raise AnalysisError(f"{where}: {count}; {out} has all of them")


def of_archive(path: Path) -> Audit:
    """Audit what `dlperf.analysis.audit.archive` packed, unpacked in a temporary folder."""
    from dlperf.data.prefetch import DataError
    from dlperf.data.unpack import unpack

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
        found = list(_crate(root))
        done = of_round(rounds[0].parent)
        done.findings[:0] = found
        return done


def of_round(folder: Path) -> Audit:
    """Audit the round in `folder`, beside which are the folders that rounds share."""
    if not (folder / "config.yaml").exists():
        raise AnalysisError(
            f"{folder}: is no round: it has no config.yaml; name a round's folder or an archive"
        )
    done = Audit(folder.name)
    done.findings += raw(folder)
    if (folder / checksums.NAME).exists():
        done.listed = len(checksums.read(folder / checksums.NAME))
        done.sums_sha256 = checksums.of_file(folder / checksums.NAME)
    done.findings += [*_pinned(folder), *_attempts(folder, done)]
    expected = expectation(folder, done)
    with tempfile.TemporaryDirectory(prefix="dlperf-audit-") as scratch:
        try:
            for name, differences in made_again(folder, Path(scratch), expected):
                done.compared.append(name)
                for finding in _findings(name, differences):
                    kept = done.rounding if finding.what == ROUNDING else done.findings
                    kept.append(finding)
        except (AnalysisError, ConfigError) as error:
            # findings so far say why; what follows from it cannot be made
            done.findings += [
                Finding("cannot be made again", "", stored=line) for line in str(error).splitlines()
            ]
        else:
            done.findings += _others(folder, done)
    return done


def raw(folder: Path) -> Iterator[Finding]:
    """Records, certificates and config against SHA256SUMS."""
    path = folder / checksums.NAME
    if not path.exists():
        yield Finding("missing file", checksums.NAME)
        return
    listed = checksums.read(path)
    for name, wanted in listed.items():
        there = checksums.of_file(folder / name)
        kind = {"runs": "record", "..": "certificate"}.get(name.split("/")[0], "config")
        if not there:
            what = "deleted repetition" if kind == "record" else f"deleted {kind}"
            yield Finding(what, name, column="sha256", stored=wanted)
        elif there != wanted:
            yield Finding(f"changed {kind}", name, "", "sha256", wanted, there)
    for name in _json_files(folder / "runs"):
        if f"runs/{name}" not in listed:
            there = checksums.of_file(folder / "runs" / name)
            yield Finding("extra record", f"runs/{name}", column="sha256", recomputed=there)


def _pinned(folder: Path) -> Iterator[Finding]:
    """The list itself against its sha256 in the report: a line less there is a record less."""
    page = folder / "report.html"
    there = checksums.of_file(folder / checksums.NAME)
    stated = pinned(page.read_bytes()) if page.exists() else there
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
        elif len(kept) > 1:
            done.notes.append(
                f"{record} was measured {len(kept)} times; attempts/ has every record"
            )


@dataclass(frozen=True)
class Expected:
    """What can be expected of what is made again here. `exact`: numbers to the last digit;
    otherwise they may differ by rounding. `drawn`: the same figures."""

    exact: bool = True
    drawn: bool = True


def expectation(folder: Path, done: Audit) -> Expected:
    """By what the round's report says that it was computed with."""
    page = folder / "report.html"
    said = computed_with(page.read_bytes()) if page.exists() else []
    here = list(checksums.computed_with())
    if not said:
        done.notes.append("the report does not say what it was computed with")
    code = [each for each in said if each.startswith("code ")]
    if code and code[0] != here[1]:
        done.notes.append(
            f"the report was computed with other code than this ({said[0]}, {code[0]}; here "
            f"{here[0]}, {here[1]}): what differs may come from that; `git checkout` that commit"
        )
    # commit and code stand first; what is left are versions and the processor
    apart = sorted({*said[2:]} ^ {*here[2:]})
    if not apart and said:
        return Expected()
    if apart:
        done.notes.append(
            "the report was computed with other libraries or on another processor "
            f"({', '.join(each for each in said[2:] if each in apart) or 'nothing more'}; here "
            f"{', '.join(each for each in here[2:] if each in apart) or 'nothing more'}): numbers "
            "may differ by rounding, in the ninth digit and after it"
        )
    drawn = not any(each.startswith(DRAWING) for each in apart)
    if not drawn:
        done.notes.append(
            "figures were not drawn again: Matplotlib or Pillow is another; cells.tsv, which they "
            "draw, was compared, and that the report shows these figures. A .venv from the round's "
            "envs/workflow.lock.txt compares them too"
        )
    return Expected(exact=False, drawn=drawn)


def made_again(
    folder: Path, scratch: Path, expected: Expected = Expected()
) -> Iterator[tuple[str, list[Difference] | None]]:
    """Make everything that is made from records, in `scratch`: (file, what differs) when made.

    What differs is None where the round does not have the file. A table that differs by rounding
    only is replaced by the round's own: what is derived from it has the same bytes then. A step of
    the analysis that writes a file of its own has its place here.
    """
    from dlperf.analysis.report.markdown import markdown
    from dlperf.analysis.report.page import report
    from dlperf.analysis.round.calibration.limits import limits
    from dlperf.analysis.round.cells import cells
    from dlperf.analysis.round.merge import merge
    from dlperf.plan.show import tsv

    def compared(name: str) -> tuple[str, list[Difference] | None]:
        return name, _compared(name, folder, scratch, expected)

    config_path, shared = folder / "config.yaml", folder.parent
    config = plan.load(config_path)
    cases = plan.expand(config)
    if (folder / "plan.tsv").exists():
        (scratch / "plan.tsv").write_text(tsv(config, cases))
        yield compared("plan.tsv")
    merged = ("measurements.tsv.gz", "parity.tsv", "certificates.tsv", checksums.NAME)
    tables, figures = names.table_ids(cases), names.figure_ids(cases)
    for other in names.of_other_metrics(cases):  # made on request
        tables += [other] if any(folder.glob(f"tables/{other}.*")) else []
        figures += [other] if any(folder.glob(f"figures/{other}.*")) else []
    with ProcessPoolExecutor(min(len(tables) + 1, len(os.sched_getaffinity(0)))) as pool:

        def shown(of: Path) -> list[Future[list[str]]]:
            draw = partial(_figure, of) if expected.drawn else partial(_kept_figure, folder)
            drawn = [pool.submit(draw, scratch, name) for name in figures]
            return drawn + [pool.submit(_table, of, scratch, name) for name in tables]

        # Drawn from the round's cells while records are read: of use where those turn out right.
        there = folder / "cells.tsv"
        waiting = shown(there) if there.exists() else []
        try:
            merge(config_path, folder / "runs", shared, *(scratch / name for name in merged))
            yield from map(compared, merged[:-1])  # the list itself was compared with the files
            own, measured = scratch / "cells.tsv", scratch / "measurements.tsv.gz"
            limits(config_path, measured, folder / "nodes", PEAKS, scratch / "limits.tsv")
            yield compared("limits.tsv")
            cells(measured, scratch / "certificates.tsv", scratch / "limits.tsv", own)
            yield compared("cells.tsv")
            if not waiting or there.read_bytes() != own.read_bytes():
                _forget(waiting)
                waiting = shown(own)
            for each in waiting:
                yield from map(compared, each.result())
            markdown(own, measured, scratch / "tables.md")
            yield compared("tables.md")
        finally:
            _forget(waiting)
    if (folder / "nodes").exists():
        (scratch / "nodes").symlink_to((folder / "nodes").resolve())
    report(config_path, scratch, shared, scratch / "report.html")
    yield compared("report.html")


def _forget(waiting: list[Future[list[str]]]) -> None:
    for each in waiting:
        each.cancel()
    wait(waiting)


def _table(cells: Path, scratch: Path, name: str) -> list[str]:
    from dlperf.analysis.report.tables import table

    made = [f"tables/{name}.{kind}" for kind in ("tsv", "md", "html")]
    table(cells, name, *(scratch / each for each in made))
    return made


def _figure(cells: Path, scratch: Path, name: str) -> list[str]:
    from dlperf.analysis.report.figures import figure

    made = [f"figures/{name}.{kind}" for kind in ("svg", "png")]
    figure(cells, name, *(scratch / each for each in made))
    return made


def _kept_figure(folder: Path, scratch: Path, name: str) -> list[str]:
    """The round's own figure, for the report, where it cannot be drawn again."""
    kept = [f"figures/{name}.{kind}" for kind in ("svg", "png")]
    for each in kept:
        if (folder / each).exists():
            write(scratch / each, (folder / each).read_bytes())
    return kept


def _compared(
    name: str, folder: Path, scratch: Path, expected: Expected
) -> list[Difference] | None:
    if not (folder / name).exists():
        return None
    stored, made = ((each / name).read_bytes() for each in (folder, scratch))
    if name == "report.html":
        stored, made = map(without_computed_with, (stored, made))
    found = compare(name, stored, made, expected.exact)
    if name.endswith(TABLES) and found and all(each.rounding for each in found):
        write(scratch / name, stored)
    return found


def _findings(name: str, differences: list[Difference] | None) -> list[Finding]:
    if differences is None:
        return [Finding("missing file", name)]
    kinds = {"figures": "changed figure", "report.html": "changed report"}
    what = kinds.get(
        name.split("/")[0], "changed cell" if name.endswith(TABLES) else "changed table"
    )
    return [Finding(ROUNDING if each.rounding else what, name, *each[:4]) for each in differences]


def _others(folder: Path, done: Audit) -> Iterator[Finding]:
    """Files of the round that nothing here makes."""
    for path in sorted(folder.iterdir()):
        if path.name in NOT_MADE or path.name.startswith("."):
            continue
        if path.name in ("tables", "figures"):
            for each in sorted(path.iterdir()):
                if f"{path.name}/{each.name}" not in done.compared:
                    yield Finding("extra file", f"{path.name}/{each.name}")
        elif path.name not in done.compared:
            done.notes.append(f"{path.name} was not compared: it is not made from the records")


def _crate(root: Path) -> Iterator[Finding]:
    """The files of an archive against the sha256 in its ro-crate-metadata.json."""
    try:
        graph = json.loads((root / CRATE).read_text())["@graph"]
        wanted = {unquote(each["@id"]): each["sha256"] for each in graph if "sha256" in each}
    except FileNotFoundError:
        yield Finding("missing file", CRATE)
        return
    except (ValueError, KeyError, TypeError) as error:
        yield Finding("unreadable file", CRATE, stored=f"{type(error).__name__}: {error}")
        return
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    for name in sorted(wanted.keys() - there):
        yield Finding("missing file", name, column="sha256", stored=wanted[name])
    for name in sorted(there - wanted.keys() - {CRATE}):
        yield Finding("extra file", name)
    for name in sorted(there & wanted.keys()):
        sha256 = checksums.of_file(root / name)
        if sha256 != wanted[name]:
            yield Finding("changed file", name, "", "sha256", wanted[name], sha256)


def summary(done: Audit, out: Path) -> Iterator[str]:
    """For a terminal: what was looked at, notes, and the first findings."""
    yield (
        f"Round {done.round}: {labels.plural(done.listed, 'file')} of raw data compared with "
        f"{checksums.NAME}, {labels.plural(len(done.compared), 'file')} made again and compared"
    )
    if done.sums_sha256:
        yield f"sha256 of {checksums.NAME}: {done.sums_sha256}"
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
