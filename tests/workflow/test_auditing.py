"""`snakemake audit` in a fresh clone: no environment, no data, no GPU; nothing is made again."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import analysis_steps
import disks
import generated_round
import pytest
from conftest import copy_repository, snakemake, the_first

from dlperf.analysis.__main__ import main
from dlperf.analysis.round import checksums

TABLE = "resnet50-train-fp32-b8"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the repository whose results/ is empty."""
    folder = copy_repository(tmp_path / "clone")
    for shared in ("environments", "data", "certificates"):
        (folder / "results" / shared).unlink()
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """An archive of a round that was made on another machine."""
    root = tmp_path_factory.mktemp("machine")
    config = generated_round.config(frameworks=["pytorch"], topologies=["1n1d"])
    folder = generated_round.write_round(root, config)
    analysis_steps.everything(folder)
    packed = root / "round.zip"
    assert main(["archive", "--round", str(folder), "--out", str(packed)]) == 0
    return packed


def test_an_archive_is_audited_in_a_fresh_clone(clone, archive):
    done = snakemake("audit", "--config", f"archive={archive}", cwd=clone)
    said = done.stdout + done.stderr
    assert "Nothing differs." in said
    made = {path.name for path in (clone / "results").iterdir() if path.name[0] != "."}
    assert made == {"README.md", "round.audit.tsv"}


def test_a_changed_table_is_audited_as_it_lies_there(clone, archive):
    """Snakemake would make it anew, were it asked for the table or the report."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(clone)
    table = clone / f"results/laptop/tables/{TABLE}.md"
    table.write_text(table.read_text().replace("(1.00)", "(9.00)"))
    changed = table.read_bytes()
    record = next((clone / "results/laptop/runs").rglob("rep1.json"))
    record.touch()  # newer than what was made of it
    done = snakemake("audit", cwd=clone, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"changed table: tables/{TABLE}.md, line " in said
    assert table.read_bytes() == changed
    assert "Traceback" not in said
    report = (clone / "results/laptop/audit.tsv").read_text().splitlines()
    assert len(report) == 2 and "(9.00)" in report[1]


def test_a_round_is_archived_by_one_command(clone, archive):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(clone)
    snakemake("archive", cwd=clone)
    assert (clone / "results/laptop.zip").read_bytes() == archive.read_bytes()


def test_the_published_sha256_is_compared(clone, archive):
    config = ["--config", f"archive={archive}", f"sha256={checksums.of_file(archive)}"]
    assert "Nothing differs." in snakemake("audit", *config, cwd=clone).stdout
    config[-1] = f"sha256={'0' * 64}"
    done = snakemake("audit", *config, cwd=clone, check=False)
    assert done.returncode != 0
    assert f"other than published: {archive.name}" in done.stdout + done.stderr


def test_other_versions_have_to_be_allowed(clone, archive):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(clone)
    page = clone / "results/laptop/report.html"
    code = checksums.computed_with()[0]
    page.write_text(page.read_text().replace(code, "code 0123456789abcdef"))
    done = snakemake("audit", cwd=clone, check=False)
    assert done.returncode != 0 and "allow_other_versions=true" in done.stdout + done.stderr
    done = snakemake("audit", "--config", "allow_other_versions=true", cwd=clone)
    assert "cannot vouch for pictures and pages" in done.stdout + done.stderr
    done = snakemake("audit", "--config", "allow_other_versions=perhaps", cwd=clone, check=False)
    assert "allowed are true and false" in done.stdout + done.stderr


def read_only(command: list[str], clone: Path, work: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the clone's, which nobody may write to, in the folder `work`."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    work.mkdir(exist_ok=True)
    return disks.run(command, clone, disks.READ_ONLY, cwd=work, env=environ)


@pytest.mark.parametrize(
    "asked", the_first(1, [["audit", "--config", "out=a.tsv"], ["audit"], ["plan"], ["-n"]])
)
def test_an_auditor_who_may_only_read_uses_a_folder_of_links(clone, archive, tmp_path, asked):
    """Snakemake itself writes its .snakemake/ where it works, so that is elsewhere."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(clone)
    for path in clone.rglob("*"):  # a zip keeps no times, by which Snakemake goes
        os.utime(path, (0, 1_800_000_000))
    before = {path.name for path in (clone / "results").iterdir()}
    work = tmp_path / "work"
    work.mkdir()
    for path in clone.iterdir():
        (work / path.name).symlink_to(path)
    snakemake = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local"]
    command = [*snakemake, *asked, "--configfile", "results/laptop/config.yaml"]
    done = read_only(command, clone, work)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Read-only file system" not in said and "Traceback" not in said
    if asked[0] == "audit":
        assert "Nothing differs." in said
        assert ("name another place by" in said) != (work / "a.tsv").exists()
    assert {path.name for path in (clone / "results").iterdir()} == before


def test_an_auditor_who_may_only_read_needs_no_snakemake(clone, archive, tmp_path):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(clone)
    command = ["env", f"PYTHONPATH={clone}/scripts", sys.executable, "-m", "dlperf.analysis"]
    command += ["audit", "--round", f"{clone}/results/laptop", "--out", "audit.tsv"]
    done = read_only(command, clone, tmp_path / "work")
    assert done.returncode == 0, done.stderr
    assert "Nothing differs." in done.stdout and (tmp_path / "work/audit.tsv").exists()
