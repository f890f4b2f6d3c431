"""An audit finds what was changed in a round, and names the cell; an archive can be audited."""

import csv
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import analysis_steps
import generated_round
import pytest
from conftest import ROOT
from published_round import copy_beside
from rocrate.rocrate import ROCrate

from dlperf.analysis.__main__ import main
from dlperf.analysis.audit.differences import compare
from dlperf.analysis.round import checksums

CONFIG = generated_round.config(frameworks=["pytorch", "jax"])
TABLE = "resnet50-train-fp32-b8"
ALLOW = "--allow-other-versions"
RECORD = "runs/resnet50/pytorch/train-fp32-1n2d-b8-sample-px64/rep2.json"
ROW = "resnet50 pytorch train-fp32-1n2d-b8-sample-px64"
CERTIFICATE = "../certificates/resnet50/jax/cpu-fp32-xla-dp2.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A whole round; tests change copies of it."""
    root = tmp_path_factory.mktemp("made")
    folder = generated_round.write_round(root, CONFIG)
    analysis_steps.everything(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent, tmp_path / "results")
    return tmp_path / "results" / made.name


def audited(where: Path, out: Path, *options: str) -> tuple[int, list[dict[str, str]]]:
    """(exit status, rows of audit.tsv)."""
    status = main(["audit", "--round", str(where), "--out", str(out), *options])
    with open(out, newline="") as stream:
        return status, list(csv.DictReader(stream, delimiter="\t"))


def change(path: Path, pattern: str, by: str) -> str:
    """Change what `pattern` finds first in a file of text; its old text."""
    text = path.read_text()
    found = re.search(pattern, text)
    assert found, f"{path} has no {pattern}"
    path.write_text(text[: found.start()] + by + text[found.end() :])
    return found[0]


def other_digit(path: Path, before: str) -> tuple[str, str]:
    """Change the last digit of the first number with decimals that follows `before`: old, new."""
    text = path.read_text()
    found = re.compile(r"\d+\.\d+").search(text, text.index(before) + len(before))
    number = found[0][:-1] + str((int(found[0][-1]) + 1) % 10)
    path.write_text(text[: found.start()] + number + text[found.end() :])
    return found[0], number


def faster(record: Path) -> None:
    """Change one digit of a record: a thousandth of a second less for the last rank.

    As little as the rank's own clock beside it does not contradict.
    """
    before, after = record.read_text().rsplit('"end": ', 1)
    place = after.index(".") + 3
    digit = str((int(after[place]) - 1) % 10)
    record.write_text(f'{before}"end": {after[:place]}{digit}{after[place + 1 :]}')


def digests(folder: Path) -> dict[str, str]:
    return {str(path): checksums.of_file(path) for path in folder.rglob("*") if path.is_file()}


def test_an_untouched_round_passes_and_stays_untouched(folder, tmp_path, capsys):
    before = digests(folder)
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert (status, rows) == (0, [])
    assert digests(folder) == before
    said = capsys.readouterr().out
    assert "Nothing differs." in said
    assert "Note:" not in said  # libraries, code and processor are those of the report
    # what a reader of the printed report compares with
    listed = checksums.of_file(folder / "SHA256SUMS")
    assert listed in said and listed in (folder / "report.html").read_text()


def test_tables_and_figures_of_other_metrics_are_audited_where_there_are_some(folder, tmp_path):
    name = f"{TABLE}-memory"
    for what in ("table", "figure"):
        assert main(analysis_steps.shown(what, folder, name)) == 0
    assert audited(folder, tmp_path / "audit.tsv") == (0, [])
    change(folder / f"tables/{name}.md", r"GiB, lower", "GiB, higher")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    assert [(row["what"], row["file"]) for row in rows] == [("changed table", f"tables/{name}.md")]


def test_figures_as_pdf_are_audited_where_there_are_some(folder, tmp_path):
    """Of the figures that are always made, and of another metric that has no other file."""
    for name in (f"{TABLE}-scaling", f"{TABLE}-memory"):
        pdf = folder / f"figures/{name}.pdf"
        cells = ["--cells", str(folder / "cells.tsv")]
        assert main(["figure", *cells, "--figure", name, "--pdf", str(pdf)]) == 0
    assert audited(folder, tmp_path / "audit.tsv") == (0, [])
    shutil.copy(pdf, folder / f"figures/{TABLE}-scaling.pdf")
    shutil.copy(pdf, folder / "figures/another.pdf")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    found = {(row["what"], row["file"]) for row in rows}
    assert status == 1 and found == {
        ("changed figure", f"figures/{TABLE}-scaling.pdf"),
        ("extra file", "figures/another.pdf"),
    }


def test_the_list_is_one_that_sha256sum_checks(folder):
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=folder).returncode == 0
    listed = checksums.read(folder / "SHA256SUMS")
    others = {"config.yaml", "peaks.yaml", "../data/sample/manifest.json"}
    assert {RECORD, CERTIFICATE, *others} <= listed.keys()
    assert len([name for name in listed if name.startswith("runs/")]) == 12


def test_a_changed_digit_in_a_record_is_found_with_every_cell_that_rests_on_it(folder, tmp_path):
    faster(folder / RECORD)
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    first = rows[0]
    assert (first["what"], first["file"]) == ("changed record", RECORD)
    assert first["recomputed"] == checksums.of_file(folder / RECORD) != first["stored"]
    found = {(row["file"], row["row"], row["column"]) for row in rows}
    assert ("measurements.tsv.gz", f"{ROW} 2", "throughput") in found
    assert ("measurements.tsv.gz", f"{ROW} 2", "record_sha256") in found
    assert not any(file == "cells.tsv" and "jax" in row for file, row, _ in found)


def test_a_deleted_repetition_is_found(folder, tmp_path):
    (folder / RECORD).unlink()
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    assert (rows[0]["what"], rows[0]["file"]) == ("deleted repetition", RECORD)
    found = {(row["file"], row["row"], row["column"]): row for row in rows}
    cell = found["cells.tsv", f"{ROW} throughput", "n_ok"]
    assert (cell["stored"], cell["recomputed"]) == ("3", "2")
    assert found["measurements.tsv.gz", f"{ROW} 2", "status"]["recomputed"] == "missing"


def test_a_repetition_deleted_from_the_list_too_is_found(folder, tmp_path):
    (folder / RECORD).unlink()
    change(folder / "SHA256SUMS", rf"[0-9a-f]{{64}}  {re.escape(RECORD)}\n", "")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    assert any(row["row"] == f"{ROW} 2" and row["recomputed"] == "missing" for row in rows)
    assert any(row["column"] == "sha256 of SHA256SUMS" for row in rows)


def test_every_changed_cell_is_named(folder, tmp_path):
    """One change in each file that people read, all in one audit."""
    other_digit(folder / "cells.tsv", "images/s\t")
    other_digit(folder / f"tables/{TABLE}.tsv", "images/s\t")
    numbers = {
        name: other_digit(folder / name, before)
        for name, before in (
            (f"tables/{TABLE}.md", "1n2d"),
            (f"tables/{TABLE}.html", 'class="value">'),
            ("report.html", 'class="value">'),
        )
    }
    change(folder / f"figures/{TABLE}-scaling.svg", r">1\n?[^<]*</text>", ">9</text>")
    line = re.search(r'd="M (\d+\.\d)', (folder / f"figures/{TABLE}-throughput.svg").read_text())[1]
    change(folder / f"figures/{TABLE}-throughput.svg", re.escape(f"M {line}"), "M 1.5")
    shutil.copy(folder / f"figures/{TABLE}-scaling.png", folder / f"figures/{TABLE}-throughput.png")
    change(folder / "parity.tsv", "NHWC", "NCHW")
    change(folder / "certificates.tsv", "\ttrue\t", "\tfalse\t")
    measurements = folder / "measurements.tsv.gz"
    text = gzip.decompress(measurements.read_bytes()).replace(b"node1", b"node2", 1)
    measurements.write_bytes(gzip.compress(text))

    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    found = {(row["what"], row["file"], row["row"], row["column"]) for row in rows}
    first = "resnet50 pytorch train-fp32-1n1d-b8-sample-px64"
    for expected in (
        ("changed cell", "cells.tsv", f"{first} throughput", "median"),
        ("changed cell", f"tables/{TABLE}.tsv", f"{first} throughput", "median"),
        ("changed cell", "parity.tsv", f"{first} layout", "value"),
        ("changed cell", "certificates.tsv", "resnet50 pytorch cpu fp32 none 1 shapes")
        + ("tier_passed",),
        ("changed cell", "measurements.tsv.gz", f"{first} 1", "nodes_used"),
    ):
        assert expected in found, expected
    for name, (before, after) in numbers.items():
        (row,) = [row for row in rows if row["file"] == name]
        assert row["what"] == ("changed report" if name == "report.html" else "changed table")
        assert row["row"].startswith("line ")
        assert after in row["stored"] and before in row["recomputed"]
    files = {row["file"] for row in rows if row["what"] == "changed figure"}
    assert files == {
        f"figures/{TABLE}-scaling.svg",
        f"figures/{TABLE}-throughput.svg",
        f"figures/{TABLE}-throughput.png",
    }
    assert all(row["stored"] != row["recomputed"] for row in rows)


def test_raw_files_that_are_other_more_or_fewer_are_named(folder, tmp_path):
    change(folder / "config.yaml", "seed: 1", "seed: 2")
    change(folder / CERTIFICATE, "6.2e-08", "6.1e-08")
    shutil.copy(folder / RECORD, folder / RECORD.replace("rep2", "rep4"))
    (folder / f"tables/{TABLE}.md").unlink()
    shutil.copy(folder / f"tables/{TABLE}.tsv", folder / "tables/better.tsv")
    (folder / "notes.txt").write_text("mine")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    found = {(row["what"], row["file"]) for row in rows}
    assert {
        ("changed config", "config.yaml"),
        ("changed certificate", CERTIFICATE),
        ("extra record", RECORD.replace("rep2", "rep4")),
        ("missing file", f"tables/{TABLE}.md"),
        ("extra file", "tables/better.tsv"),
        ("extra file", "notes.txt"),
    } <= found


def test_a_record_that_is_none_is_named_and_nothing_is_made_of_it(folder, tmp_path):
    (folder / RECORD).write_text("{")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    assert rows[0]["what"] == "changed record"
    assert any("perhaps half-written" in row["stored"] for row in rows)


def test_a_changed_record_that_all_was_made_from_again_differs_from_what_was_kept(
    folder, tmp_path, capsys
):
    """The stopwatch's copy in attempts/, and the sha256 in a report that was published before."""
    published = (folder / "report.html").read_text()
    kept = folder / "attempts" / RECORD.removeprefix("runs/").replace("rep2", "rep2-20261121T05-7")
    kept.parent.mkdir(parents=True)
    shutil.copy(folder / RECORD, kept)
    faster(folder / RECORD)
    analysis_steps.everything(folder)
    status, rows = audited(folder, tmp_path / "audit.tsv")
    assert status == 1
    assert [(row["what"], row["file"], row["row"]) for row in rows] == [
        ("changed record", RECORD, "is no copy of attempts/")
    ]
    now = checksums.of_file(folder / "SHA256SUMS")
    assert now in capsys.readouterr().out and now not in published


def say(page: Path, **versions: str) -> None:
    """Let a report name other versions than those that it was computed with."""
    for name, version in versions.items():
        now = next(each for each in checksums.computed_with() if each.startswith(f"{name} "))
        text = page.read_text()
        assert text.count(now) == 1
        page.write_text(text.replace(now, f"{name} {version}"))


def test_other_libraries_pass_where_an_auditor_allows_them(folder, tmp_path, capsys):
    """Then it is said what was not compared; what else differs is found."""
    say(folder / "report.html", matplotlib="3.9.0")
    status, rows = audited(folder, tmp_path / "audit.tsv")
    said = capsys.readouterr().out
    assert status == 1 and [row["what"] for row in rows] == ["other versions"]
    assert "matplotlib 3.9.0" in said and "cannot vouch for pictures and pages" in said
    assert "--allow-other-versions" in said
    assert audited(folder, tmp_path / "audit.tsv", ALLOW) == (0, [])
    said = capsys.readouterr().out
    assert "cannot vouch for pictures and pages" in said and "were not drawn again" in said
    # a figure that cannot be drawn again is still the one that the report shows
    change(folder / f"figures/{TABLE}-scaling.svg", r">1\n?[^<]*</text>", ">9</text>")
    status, rows = audited(folder, tmp_path / "audit.tsv", ALLOW)
    assert status == 1 and {row["what"] for row in rows} == {"changed report"}


def test_what_another_processor_rounds_passes_where_an_auditor_allows_it(folder, tmp_path, capsys):
    change(folder / "cells.tsv", r"(?<=images/s\t\d\d\.\d{13})\d", "0")
    analysis_steps.show(folder)  # all that is derived has the digits of its own cells
    status, rows = audited(folder, tmp_path / "audit.tsv")
    first = rows[0]
    assert (status, first["what"], first["file"]) == (1, "changed cell", "cells.tsv")
    assert "which another processor may round" in capsys.readouterr().out
    status, rows = audited(folder, tmp_path / "audit.tsv", ALLOW)
    where = [(row["what"], row["file"], row["column"]) for row in rows]
    assert (status, where) == (0, [("rounding", "cells.tsv", "median")])
    assert "1 number differs by rounding only" in capsys.readouterr().out
    change(folder / "cells.tsv", r"(?<=images/s\t\d\d\.\d{6})\d", "0")
    assert audited(folder, tmp_path / "audit.tsv", ALLOW)[0] == 1


def test_only_tables_may_be_rounded():
    """By another processor; what is derived from tables is made from the round's own."""
    header, near, far = b"case\tspeed\n", b"a\t12.345678901234\n", b"a\t12.345\n"
    stored = header + b"a\t12.345678901235\n"
    for name in ("cells.tsv", "tables/x.tsv"):
        assert [each.rounding for each in compare(name, stored, header + near)] == [True]
        assert [each.rounding for each in compare(name, stored, header + far)] == [False]
    for name in ("x.md", "x.svg", "report.html"):
        (found,) = compare(name, stored, header + near)
        assert (found.row, found.rounding) == ("line 2", False)


def test_a_table_that_is_packed_otherwise_is_the_same_table():
    text = b"case\tspeed\na\t1\n"
    packed = [gzip.compress(text, level, mtime=0) for level in (0, 9)]
    assert packed[0] != packed[1] and compare("measurements.tsv.gz", *packed) == []


def test_other_code_is_said(folder, tmp_path, capsys):
    say(folder / "report.html", code="0123456789abcdef")
    assert audited(folder, tmp_path / "audit.tsv")[0] == 1
    assert "Of other code, check out the commit" in capsys.readouterr().out


def test_what_is_no_round_is_answered_with_one_message(tmp_path, capsys):
    assert main(["audit", "--round", str(tmp_path), "--out", str(tmp_path / "a.tsv")]) == 1
    assert "is no round" in capsys.readouterr().err
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("../outside", "1")
    assert main(["audit", "--round", str(bad), "--out", str(tmp_path / "a.tsv")]) == 1
    assert "leads outside its folder" in capsys.readouterr().err


def archived(folder: Path, out: Path) -> Path:
    assert main(["archive", "--round", str(folder), "--out", str(out)]) == 0
    return out


def test_an_archive_is_audited_elsewhere(folder, tmp_path, capsys):
    log = folder / RECORD.replace(".json", ".log")
    log.write_text(f"File '{folder.parent.parent}/scripts/x.py' of {Path.home()}/me\n")
    shared = folder.parent
    (shared / "certificates/resnet50/reference/weights.npy").write_bytes(b"large")
    (folder / "audit.tsv").write_text("")
    first = archived(folder, tmp_path / "first.zip")
    second = archived(folder, tmp_path / "second.zip")
    assert first.read_bytes() == second.read_bytes()
    assert checksums.of_file(first) in capsys.readouterr().out
    elsewhere = tmp_path / "elsewhere/round.zip"
    elsewhere.parent.mkdir()
    shutil.move(first, elsewhere)
    shutil.rmtree(shared)
    assert audited(elsewhere, tmp_path / "audit.tsv") == (0, [])
    with zipfile.ZipFile(elsewhere) as archive:
        there = set(archive.namelist())
        assert archive.read(f"results/laptop/{RECORD.replace('.json', '.log')}") == (
            b"File 'scripts/x.py' of ~/me\n"
        )
        for name in there:
            assert str(tmp_path).encode() not in archive.read(name), name
    assert {
        "CITATION.cff",
        "LICENSE",
        "envs/workflow.lock.txt",
        "results/certificates/resnet50/jax/cpu-fp32-xla-dp2.json",
        "results/certificates/resnet50/reference/manifest.json",
        "results/data/sample/manifest.json",
        "results/environments/jax.cpu/env.json",
        "results/laptop/SHA256SUMS",
        "results/laptop/config.yaml",
        "results/laptop/plan.tsv",
        "results/laptop/report.html",
        f"results/laptop/{RECORD}",
    } <= there
    assert not {name for name in there if name.endswith((".npy", "audit.tsv"))}


def test_an_archive_has_the_locks_that_environments_were_built_from(folder, tmp_path, capsys):
    """And leaves out one that has changed since."""
    lock = ROOT / "envs/pytorch.cpu.lock.txt"
    path = folder.parent / "environments/pytorch.cpu/env.json"
    built = json.loads(path.read_text())
    built["interpreter"] = f"{folder.parent.parent}/results/environments/pytorch.cpu/bin/python"
    path.write_text(json.dumps({**built, "lock_sha256": checksums.of_file(lock)}))
    made = archived(folder, tmp_path / "round.zip")
    said = capsys.readouterr().out
    with zipfile.ZipFile(made) as archive:
        there = archive.namelist()
        packed = json.loads(archive.read("results/environments/pytorch.cpu/env.json"))
    assert "envs/pytorch.cpu.lock.txt" in there
    assert "envs/jax.cpu.lock.txt" not in there and "jax.cpu.lock.txt changed since" in said
    assert packed["interpreter"] == "results/environments/pytorch.cpu/bin/python"


def test_a_changed_archive_is_found(folder, tmp_path):
    made = archived(folder, tmp_path / "round.zip")
    changed = tmp_path / "changed.zip"
    md = f"results/laptop/tables/{TABLE}.md"
    manifest = "results/data/sample/manifest.json"
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            if name != manifest:
                content = old.read(name)
                new.writestr(name, content.replace(b"1n2d", b"1n3d") if name == md else content)
        new.writestr("results/laptop/more.txt", "1")
    status, rows = audited(changed, tmp_path / "audit.tsv")
    assert status == 1
    found = {(row["what"], row["file"]) for row in rows}
    assert ("changed file", md) in found
    assert ("changed table", f"tables/{TABLE}.md") in found
    assert ("missing file", manifest) in found
    assert ("extra file", "more.txt") in found
    assert ("changed file", "ro-crate-metadata.json") in found


def test_an_archive_is_an_ro_crate(folder, tmp_path):
    """Read by the library of the RO-Crate community."""
    made = archived(folder, tmp_path / "round.zip")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "crate")
        there = set(archive.namelist())
    raw = json.loads((tmp_path / "crate/ro-crate-metadata.json").read_text())
    assert "https://w3id.org/ro/crate/1.1/context" in raw["@context"]
    crate = ROCrate(tmp_path / "crate")
    root = crate.root_dataset
    assert root["name"].startswith("Round laptop") and root["datePublished"].startswith("2026-11-2")
    assert root["license"].id == "https://spdx.org/licenses/Apache-2.0"
    assert [author["name"] for author in root["author"]] == ["The dlperf maintainers"]
    files = {each.id: each for each in crate.data_entities}
    assert files.keys() == there - {"ro-crate-metadata.json"}
    for name, entity in files.items():
        content = (tmp_path / "crate" / name).read_bytes()
        assert entity["sha256"] == hashlib.sha256(content).hexdigest()
        assert entity["contentSize"] == str(len(content))
        assert "/" in entity["encodingFormat"]
    run = root["mentions"]
    assert run.type == "CreateAction" and run["instrument"]["name"] == "dlperf"
    assert run["startTime"].startswith("2026-11-21T05:00:00")
    assert f"results/laptop/{RECORD}" in {each.id for each in run["result"]}
    assert "results/laptop/config.yaml" in {each.id for each in run["object"]}


def test_a_round_whose_records_were_changed_is_not_archived(folder, tmp_path, capsys):
    faster(folder / RECORD)
    command = ["archive", "--round", str(folder), "--out", str(tmp_path / "round.zip")]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"{RECORD}: changed record" in said and "nothing was packed" in said
    assert not (tmp_path / "round.zip").exists()


def test_verdicts_on_another_round_are_recomputed_also_of_an_archive(tmp_path, capsys):
    keys = {"frameworks": ["pytorch"], "repetitions": 5, "topologies": ["1n1d"]}
    for name, beside in (("old", []), ("new", ["/gone/old"])):
        mapping = generated_round.config(round=name, **keys, beside=beside)
        folder = generated_round.write_round(tmp_path, mapping)
        if beside:
            copy_beside(folder, tmp_path / "results/old")
        analysis_steps.everything(folder)
    packed = tmp_path / "new.zip"
    assert main(["archive", "--round", str(folder), "--out", str(packed)]) == 0
    assert "results/new/beside/old/cells.tsv" in zipfile.ZipFile(packed).namelist()
    shutil.rmtree(tmp_path / "results/old")
    assert audited(packed, tmp_path / "of-archive.tsv") == (0, [])
    assert "beside/old: tables of other rounds, taken as they are" in capsys.readouterr().out
    change(folder / "beside.tsv", "reproduced", "faster")
    change(folder / "figures/beside-old.svg", "reproduced", "faster")
    status, rows = audited(folder, tmp_path / "changed.tsv")
    assert status == 1
    row, drawn = rows
    assert (drawn["what"], drawn["file"]) == ("changed figure", "figures/beside-old.svg")
    assert (row["what"], row["file"], row["column"]) == ("changed cell", "beside.tsv", "verdict")
    assert (row["stored"], row["recomputed"]) == ("faster", "reproduced")
