"""Ways to tamper with a round: an audit fails, and names the file.

What one file says against the others is found in the folder alone. Where everything was made again
from a changed file, the sha256 that the author published finds it (docs/auditing.md).
"""

import csv
import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import analysis_steps
import generated_round
import pytest

from dlperf.analysis.__main__ import main
from dlperf.analysis.round import checksums

TABLE = "resnet50-train-fp32-b8"
CASE = "resnet50/pytorch/train-fp32-1n1d-b8-sample-px64"
RECORD = f"runs/{CASE}/rep1.json"
ATTEMPTS = f"attempts/{CASE}"
CERTIFICATE = "../certificates/resnet50/pytorch/cpu-fp32-1.json"
FIGURE = f"figures/{TABLE}-throughput"
FORGED = f'<svg id="{TABLE}-throughput"><text>999</text></svg>'
HIDING = f"<style>#a{{display:none}}</style><script>go()</script>{FORGED}"
ENVIRONMENT = "../environments/pytorch.cpu/env.json"

Attack = Callable[[Path], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A whole round with a calibration, whose first repetition was measured twice."""
    config = generated_round.config(frameworks=["pytorch"], topologies=["1n1d"], repetitions=2)
    folder = generated_round.write_round(tmp_path_factory.mktemp("made"), config)
    generated_round.calibrate(folder, "node1", {("fp32", 1): 0.08})
    record = json.loads((folder / RECORD).read_text())
    kept = folder / ATTEMPTS
    kept.mkdir(parents=True)
    shutil.copy(folder / RECORD, kept / "rep1-20261121T050000Z-7.json")
    record["provenance"]["start_utc"] = "2026-11-21T04:30:00Z"
    (kept / "rep1-20261121T043000Z-6.json").write_text(json.dumps(record))
    analysis_steps.everything(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent, tmp_path / "results")
    return tmp_path / "results" / made.name


def audited(where: Path, *options: str) -> tuple[int, list[tuple[str, str]]]:
    """(exit status, what differs of which file)."""
    out = where.parent / "audit.tsv"
    status = main(["audit", "--round", str(where), "--out", str(out), *options])
    with open(out, newline="") as stream:
        return status, [
            (row["what"], row["file"]) for row in csv.DictReader(stream, delimiter="\t")
        ]


def test_an_untouched_round_passes(folder, capsys):
    published = checksums.of_file(folder / "SHA256SUMS")
    assert audited(folder, "--sha256", published) == (0, [])
    said = capsys.readouterr().out
    assert "Nothing differs." in said and f"{RECORD} was measured 2 times" in said


def changed(name: str, pattern: str, by: str, times: int = 1) -> Attack:
    """A file whose text has `by` where `pattern` is."""

    def attack(folder: Path) -> None:
        path = folder / name
        text, count = re.subn(pattern, lambda _: by, path.read_text(), count=times)
        assert count, f"{path} has no {pattern}"
        path.write_text(text)

    return attack


def appended(name: str, content: bytes) -> Attack:
    def attack(folder: Path) -> None:
        with open(folder / name, "ab") as stream:
            stream.write(content)

    return attack


def written(name: str, content: str = "<h1>999 images/s</h1>") -> Attack:
    return lambda folder: (folder / name).write_text(content)


def deleted(name: str) -> Attack:
    return lambda folder: (folder / name).unlink()


def copied(name: str, to: str) -> Attack:
    return lambda folder: shutil.copy(folder / name, folder / to)


def both(*attacks: Attack) -> Attack:
    def attack(folder: Path) -> None:
        for each in attacks:
            each(folder)

    return attack


def claimed(name: str, version: str) -> Attack:
    """A report that says it was computed with another version."""
    now = next(each for each in checksums.computed_with() if each.startswith(f"{name} "))
    return changed("report.html", re.escape(now), f"{name} {version}")


def faster(folder: Path) -> None:
    """A record that took a tenth less time, in all that it says of it."""
    record = json.loads((folder / RECORD).read_text())
    generated_round.stretch(record, 0.9)
    (folder / RECORD).write_text(json.dumps(record))


def linked(folder: Path) -> None:
    """A record that lies elsewhere, where it can be changed later."""
    shutil.move(folder / RECORD, folder.parent / "elsewhere.json")
    (folder / RECORD).symlink_to(folder.parent / "elsewhere.json")


def packed_otherwise(folder: Path) -> None:
    path = folder / "measurements.tsv.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b"node1", b"node2")))


def listed_twice(folder: Path) -> None:
    path = folder / "SHA256SUMS"
    line = path.read_text().splitlines()[-1]
    path.write_text(f"{path.read_text()}{line}\n")


def other_order(folder: Path) -> None:
    path = folder / "SHA256SUMS"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def of_another_round(folder: Path) -> None:
    """A certificate that is there, and not this round's."""
    other = folder / CERTIFICATE.replace("fp32", "amp")
    shutil.copy(folder / CERTIFICATE, other)
    with open(folder / "SHA256SUMS", "a") as stream:
        stream.write(f"{checksums.of_file(other)}  {CERTIFICATE.replace('fp32', 'amp')}\n")


#: name: (attack, what is found, in which file)
IN_THE_FOLDER: dict[str, tuple[Attack, str, str]] = {
    "a number in cells.tsv": (
        *(changed("cells.tsv", r"images/s\t\d", "images/s\t9"), "changed cell", "cells.tsv"),
    ),
    "a number in measurements": (packed_otherwise, "changed cell", "measurements.tsv.gz"),
    "a number in a table": (
        changed(f"tables/{TABLE}.md", r"\(1\.00\)", "(9.00)"),
        "changed table",
        f"tables/{TABLE}.md",
    ),
    "a figure's path": (
        changed(f"{FIGURE}.svg", r'd="M \d+', 'd="M 1'),
        "changed figure",
        f"{FIGURE}.svg",
    ),
    "more bytes behind a picture": (
        appended(f"{FIGURE}.png", b"more"),
        "changed figure",
        f"{FIGURE}.png",
    ),
    "the page's text": (
        changed("report.html", "images/s", "images/h"),
        "changed report",
        "report.html",
    ),
    "a comment behind the page": (
        appended("report.html", b"<!-- more -->"),
        "changed report",
        "report.html",
    ),
    "a figure of the same id before the real one": (
        changed("report.html", f'(?=<svg [^>]*id="{TABLE}-throughput")', HIDING),
        "changed report",
        "report.html",
    ),
    "elements where the versions stand": (
        changed("report.html", '(?<=<dd id="computed-with">)', HIDING),
        "changed report",
        "report.html",
    ),
    "elements in place of the versions": (
        changed("report.html", '(?<=<dd id="computed-with">)[^<]*', HIDING),
        "changed report",
        "report.html",
    ),
    "a second line of versions before the real one": (
        changed("report.html", "(?=<main)", '<dd id="computed-with">Python 3</dd>'),
        "other versions",
        "report.html",
    ),
    "a commit beside the versions": (
        changed("report.html", '(?<=<dd id="computed-with">)', f"commit {'0' * 40}; "),
        "other versions",
        "report.html",
    ),
    "another Matplotlib claimed, and all figures forged": (
        both(
            claimed("matplotlib", "3.9.0"),
            changed(f"{FIGURE}.svg", r">\d+\n?[^<]*</text>", ">999</text>", times=0),
        ),
        "other versions",
        "report.html",
    ),
    "other code claimed": (claimed("code", "0123456789abcdef"), "other versions", "report.html"),
    "a record's seconds": (
        faster,
        "changed record",
        RECORD,
    ),
    "a deleted record": (deleted(RECORD), "deleted repetition", RECORD),
    "an added record": (
        copied(RECORD, RECORD.replace("rep1", "rep3")),
        "extra record",
        RECORD.replace("rep1", "rep3"),
    ),
    "a record that is a link": (linked, "link", RECORD),
    "a certificate": (
        changed(CERTIFICATE, "6.2e-08", "6.1e-08"),
        "changed certificate",
        CERTIFICATE,
    ),
    "the config": (changed("config.yaml", "seed: 1", "seed: 2"), "changed config", "config.yaml"),
    "a calibration": (
        changed("nodes/node1.json", "12.5", "1.5"),
        "changed calibration",
        "nodes/node1.json",
    ),
    "an added calibration": (
        copied("nodes/node1.json", "nodes/node2.json"),
        "extra calibration",
        "nodes/node2.json",
    ),
    "a stated peak": (
        changed("peaks.yaml", r"fp16: \d", "fp16: 9"),
        "changed peaks",
        "peaks.yaml",
    ),
    "the data's manifest": (
        changed("../data/sample/manifest.json", "512", "513"),
        "changed manifest",
        "../data/sample/manifest.json",
    ),
    "an environment's packages, with the page made again": (
        both(
            changed(ENVIRONMENT, "numpy==2.4.6", "numpy==2.4.7"),
            lambda folder: analysis_steps.show(folder),
        ),
        "changed environment",
        ENVIRONMENT,
    ),
    "a lock that an environment was not built from": (
        both(
            changed(ENVIRONMENT, '"lock_sha256": "', '"lock_sha256": "0'),
            lambda folder: analysis_steps.show(folder),
        ),
        "changed environment",
        ENVIRONMENT,
    ),
    "a second attempt that nobody listed": (
        copied(RECORD, f"{ATTEMPTS}/rep2-20261121T060000Z-9.json"),
        "extra attempt",
        f"{ATTEMPTS}/rep2-20261121T060000Z-9.json",
    ),
    "a changed attempt": (
        changed(f"{ATTEMPTS}/rep1-20261121T043000Z-6.json", "0.", "1."),
        "changed attempt",
        f"{ATTEMPTS}/rep1-20261121T043000Z-6.json",
    ),
    "a deleted attempt": (
        deleted(f"{ATTEMPTS}/rep1-20261121T043000Z-6.json"),
        "deleted attempt",
        f"{ATTEMPTS}/rep1-20261121T043000Z-6.json",
    ),
    "an earlier attempt as the record, with all made again": (
        both(
            copied(f"{ATTEMPTS}/rep1-20261121T043000Z-6.json", RECORD),
            analysis_steps.everything,
        ),
        "changed record",
        RECORD,
    ),
    "a line of the list twice": (listed_twice, "changed list", "SHA256SUMS"),
    "a line of the list that leads elsewhere": (
        appended("SHA256SUMS", f"{'0' * 64}  ../../../etc/passwd\n".encode()),
        "changed list",
        "SHA256SUMS",
    ),
    "an empty line in the list": (appended("SHA256SUMS", b"\n"), "changed list", "SHA256SUMS"),
    "the list in another order": (other_order, "changed list", "SHA256SUMS"),
    "another round's file in the list": (of_another_round, "changed list", "SHA256SUMS"),
    "a list without peaks and calibrations": (
        changed("SHA256SUMS", r"[0-9a-f]{64}  peaks.yaml\n", ""),
        "changed list",
        "SHA256SUMS",
    ),
    "an extra page": (written("index.html"), "extra file", "index.html"),
    "an extra page among records": (
        written(f"runs/{CASE}/report.html"),
        "extra file",
        f"runs/{CASE}/report.html",
    ),
    "an extra table": (
        copied(f"tables/{TABLE}.tsv", "tables/better.tsv"),
        "extra file",
        "tables/better.tsv",
    ),
    "a deleted figure": (deleted(f"{FIGURE}.svg"), "missing file", f"{FIGURE}.svg"),
}


@pytest.mark.parametrize(("attack", "what", "file"), IN_THE_FOLDER.values(), ids=IN_THE_FOLDER)
def test_what_contradicts_the_rest_is_named(folder, attack, what, file):
    attack(folder)
    status, found = audited(folder)
    assert status == 1
    assert (what, file) in found


#: What was changed before everything was made again from it.
MADE_AGAIN: dict[str, Attack] = {
    "a record and its copy": both(
        faster,
        copied(RECORD, f"{ATTEMPTS}/rep1-20261121T050000Z-7.json"),
    ),
    "a deleted attempt": deleted(f"{ATTEMPTS}/rep1-20261121T043000Z-6.json"),
    "a forged second attempt": copied(RECORD, f"{ATTEMPTS}/rep1-20261121T060000Z-9.json"),
    "a calibration": changed("nodes/node1.json", "12.5", "1.5"),
    "a deleted calibration": deleted("nodes/node1.json"),
    "a stated peak": changed("peaks.yaml", r"fp16: \d", "fp16: 9"),
    "a certificate": changed(CERTIFICATE, "6.2e-08", "6.1e-08"),
    "the config": changed("config.yaml", "timeout_seconds: 300", "timeout_seconds: 301"),
    "the data's manifest": changed("../data/sample/manifest.json", "512", "513"),
}


@pytest.mark.parametrize("attack", MADE_AGAIN.values(), ids=MADE_AGAIN)
def test_what_everything_was_made_from_again_has_another_sha256_than_published(folder, attack):
    published = checksums.of_file(folder / "SHA256SUMS")
    attack(folder)
    analysis_steps.everything(folder)
    status, found = audited(folder, "--sha256", published)
    assert status == 1
    assert found == [("other than published", "SHA256SUMS")]


def test_forged_figures_are_not_vouched_for_with_another_matplotlib(folder, capsys):
    """An auditor who allows other versions is told what was not compared."""
    claimed("matplotlib", "3.9.0")(folder)
    assert audited(folder, "--allow-other-versions") == (0, [])
    said = capsys.readouterr().out
    assert "cannot vouch for pictures and pages" in said and "matplotlib 3.9.0" in said
    changed("report.html", "matplotlib 3.9.0", "matplotlib 3.9.0 or 999 images/s")(folder)
    status, found = audited(folder, "--allow-other-versions")
    assert status == 1 and ("changed report", "report.html") in found


Contents = dict[str, bytes]
LOG = f"results/laptop/runs/{CASE}/rep1.log"


def crate_follows(contents: Contents) -> None:
    """The metadata of what is in the archive now."""
    crate = json.loads(contents["ro-crate-metadata.json"])
    for each in crate["@graph"]:
        if "sha256" in each and each["@id"] in contents:
            each["sha256"] = hashlib.sha256(contents[each["@id"]]).hexdigest()
            each["contentSize"] = str(len(contents[each["@id"]]))
    contents["ro-crate-metadata.json"] = (
        json.dumps(crate, indent=1, sort_keys=True) + "\n"
    ).encode()


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Contents], None]:
    def attack(contents: Contents) -> None:
        assert old in contents[name]
        contents[name] = contents[name].replace(old, new)

    return attack


#: name: (attack, file that is named); the archive's crate follows
IN_AN_ARCHIVE: dict[str, tuple[Callable[[Contents], None], str]] = {
    "its citation": (replaced("CITATION.cff", b"maintainers", b"others"), "CITATION.cff"),
    "its licence": (replaced("LICENSE", b"Apache", b"Mine"), "LICENSE"),
    "its lock": (
        replaced("envs/workflow.lock.txt", b"matplotlib==", b"matplotlib==9."),
        "envs/workflow.lock.txt",
    ),
    "a lock of an environment": (
        lambda contents: contents.update({"envs/pytorch.cpu.lock.txt": b"torch==9\n"}),
        "envs/pytorch.cpu.lock.txt",
    ),
    "its metadata": (
        replaced("ro-crate-metadata.json", b"ended ok", b"were the fastest"),
        "ro-crate-metadata.json",
    ),
    "an extra file": (
        lambda contents: contents.update({"README.html": b"999 images/s"}),
        "README.html",
    ),
    "a script": (
        lambda contents: contents.update({"scripts/dlperf/analysis/audit.py": b"pass"}),
        "scripts/dlperf/analysis/audit.py",
    ),
    "an environment": (
        replaced("results/environments/pytorch.cpu/env.json", b"numpy==2.4.6", b"numpy==2.4.7"),
        ENVIRONMENT,
    ),
}


@pytest.fixture
def archive(folder: Path) -> Path:
    (folder / RECORD.replace(".json", ".log")).write_text("rank 0: 14.2 images/s\n")
    packed = folder.parent / "round.zip"
    assert main(["archive", "--round", str(folder), "--out", str(packed)]) == 0
    return packed


def tampered(archive: Path, attack: Callable[[Contents], None]) -> None:
    with zipfile.ZipFile(archive) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()}
    attack(contents)
    crate_follows(contents)
    with zipfile.ZipFile(archive, "w") as packed:
        for name, content in contents.items():
            packed.writestr(name, content)


@pytest.mark.parametrize(("attack", "file"), IN_AN_ARCHIVE.values(), ids=IN_AN_ARCHIVE)
def test_an_archive_whose_crate_follows_the_change_is_found(archive, attack, file):
    tampered(archive, attack)
    status, found = audited(archive)
    assert status == 1
    assert file in {name for _, name in found}


def test_a_log_is_pinned_by_the_archives_own_sha256(archive):
    """Logs decide no number, and the machine's folders are left out of those in an archive."""
    published = checksums.of_file(archive)
    assert audited(archive, "--sha256", published) == (0, [])
    tampered(archive, replaced(LOG, b"14.2", b"99.9"))
    status, found = audited(archive, "--sha256", published)
    assert (status, found) == (1, [("other than published", "round.zip")])


@pytest.mark.parametrize(
    "place",
    [
        f"laptop/{RECORD.replace('.json', '.log')}",
        "laptop/notes",
        "certificates/resnet50/pytorch/cpu-fp32-1.log",
        "environments/pytorch.cpu",
    ],
)
def test_a_round_with_a_link_is_not_archived(folder, tmp_path, capsys, place):
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copytree(folder.parent / "environments/pytorch.cpu", secret, dirs_exist_ok=True)
    path = folder.parent / place
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(secret if path.suffix != ".log" else secret / "env.json")
    packed = tmp_path / "round.zip"
    assert main(["archive", "--round", str(folder), "--out", str(packed)]) == 1
    said = capsys.readouterr().err
    assert f"{path}\n" in said and "symbolic links, which may lead anywhere" in said
    assert not packed.exists()


def test_data_on_another_disk_are_archived(folder, tmp_path):
    for shared in ("data", "environments", "certificates"):
        shutil.move(folder.parent / shared, tmp_path / shared)
        (folder.parent / shared).symlink_to(tmp_path / shared)
    packed = tmp_path / "round.zip"
    assert main(["archive", "--round", str(folder), "--out", str(packed)]) == 0
    assert audited(packed) == (0, [])


def of_another_shape(name: str, content: str) -> Attack:
    return lambda folder: (folder / name).write_text(content)


def a_folder(name: str) -> Attack:
    def attack(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return attack


#: Files that are not what they should be, which a reader of JSON or TSV stumbles over.
HOSTILE: dict[str, Attack] = {
    "a record in a thousand lists": of_another_shape(RECORD, "[" * 100_000),
    "a certificate that is a list": of_another_shape(CERTIFICATE, "[]"),
    "a calibration of nothing": of_another_shape("nodes/node1.json", '{"schema": "dlperf.node/2"}'),
    "a manifest that is a number": of_another_shape("../data/sample/manifest.json", "1"),
    "an environment that is a list": of_another_shape(ENVIRONMENT, "[1]"),
    "peaks that are no mapping": of_another_shape("peaks.yaml", "[1]"),
    "a config that is no YAML": of_another_shape("config.yaml", "{"),
    "a list of bytes": appended("SHA256SUMS", b"\xff\xfe"),
    "measurements that are no gzip": of_another_shape("measurements.tsv.gz", "case\n"),
    "cells without columns": of_another_shape("cells.tsv", "x\n1\n"),
    "a page that is a folder": a_folder("report.html"),
    "a list that is a folder": a_folder("SHA256SUMS"),
    "a record that is a folder": a_folder(RECORD),
    "a table that is a folder": a_folder(f"tables/{TABLE}.tsv"),
}


@pytest.mark.parametrize("attack", HOSTILE.values(), ids=HOSTILE)
def test_a_round_of_broken_files_fails_without_a_traceback(folder, capsys, attack):
    attack(folder)
    out = folder.parent / "audit.tsv"
    assert main(["audit", "--round", str(folder), "--out", str(out)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_what_a_name_says_is_text_on_a_terminal(folder, capsys):
    (folder / "\x1b[2JNothing differs.\udcff").write_text("1")
    status, found = audited(folder)
    assert status == 1 and found == [("extra file", "\\x1b[2JNothing differs.\\udcff")]
    assert "\x1b" not in capsys.readouterr().out


@pytest.fixture
def refusing(monkeypatch) -> Callable[[int], None]:
    """The system refuses to write audit.tsv, with this error."""
    real = os.rename

    def refuse(number: int) -> None:
        def rename(old: str, new: str) -> None:
            if new.endswith("audit.tsv"):
                raise OSError(number, os.strerror(number), new)
            real(old, new)

        monkeypatch.setattr("os.rename", rename)

    return refuse


def test_an_audit_counts_where_its_report_cannot_be_written(folder, capsys, refusing):
    """An auditor may be let read only."""
    refusing(errno.EROFS)
    command = ["audit", "--round", str(folder), "--out", str(folder / "audit.tsv")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "Nothing differs." in said and "mounted read-only; name another place by `--out`" in said
    (folder / RECORD).unlink()
    assert main(command) == 1
    assert "differences; not written" in capsys.readouterr().err


def test_a_full_disk_is_one_message(folder, capsys, refusing):
    refusing(errno.ENOSPC)
    out = folder / "audit.tsv"
    assert main(["audit", "--round", str(folder), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said == f"error: {out}: the disk is full; make room and run the same command again\n"
