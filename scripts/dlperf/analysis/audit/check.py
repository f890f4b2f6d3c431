"""Does a round say what its raw records say? Everything is regenerated and compared.

In: a round's folder as it lies there, or an archive of one. Out: audit.tsv, a row for each thing
that differs, and a summary. Raw data are compared with SHA256SUMS (`raw.py`); from them
measurements, cells, tables, figures and the report are made again in a temporary folder and
compared with those of the round (`recompute.py`); of an archive also its own list of files
(`crate.py`). docs/auditing.md says what can be found so, and what cannot.
"""

import tempfile
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

from dlperf.analysis.audit.crate import check_crate
from dlperf.analysis.audit.differences import ROUNDING as ROUNDED
from dlperf.analysis.audit.differences import TABLES, Difference
from dlperf.analysis.audit.findings import (
    ALLOW,
    DAMAGED,
    NOTHING_PUBLISHED,
    ROUNDING,
    Audit,
    Expected,
    Finding,
    is_own,
    own_cause,
)
from dlperf.analysis.audit.raw import attempts, environments, others, pinned_by_report, raw
from dlperf.analysis.audit.recompute import made_again
from dlperf.analysis.audit.summary import as_text, summary
from dlperf.analysis.audit.versions import expectation
from dlperf.analysis.round import checksums, labels
from dlperf.analysis.schema.files import AnalysisError, read_table, write_table
from dlperf.contract import storage
from dlperf.plan import ConfigError
from dlperf.plan.peaks import PEAKS

COLUMNS = ("what", "file", "row", "column", "stored", "recomputed")
OUT = "`--out` (`--config out=FILE`)"


def audit(where: Path, out: Path, expected: Expected = NOTHING_PUBLISHED) -> None:
    """Audit a round's folder or an archive, print the summary and write audit.tsv to `out`.

    Raises AnalysisError where anything differs, or where there is no round.
    """
    try:
        done = of_archive(where, expected) if where.is_file() else of_round(where, expected)
    except (OSError, MemoryError, BrokenProcessPool) as error:
        if not is_own(error):
            raise
        told = f"the audit could not be done: {own_cause(error)}; it says nothing about {where}"
        raise AnalysisError(told) from None
    done.findings = list(map(as_text, done.findings))
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


def of_archive(path: Path, expected: Expected = NOTHING_PUBLISHED) -> Audit:
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
        found = list(check_crate(root, rounds[0].parent, done, expected))
        done.findings[:0] = found
        done.archive_sha256 = checksums.of_file(path)
        return done


def of_round(folder: Path, expected: Expected = NOTHING_PUBLISHED) -> Audit:
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
    done.findings += [*pinned_by_report(folder), *attempts(folder, done)]
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
            if is_own(error):
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
            done.findings += environments(folder.parent, measured)
            done.findings += others(folder, done)
    if rounded and not expected.other_versions:
        done.notes.append(
            f"numbers differ by less than {ROUNDED} of their value, which another processor may "
            f"round; {ALLOW} lets that pass"
        )
    return done


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
