"""`snakemake audit` in a fresh clone: no environment, no data, no GPU; nothing is made again."""

import zipfile
from pathlib import Path

import analysis_steps
import generated_round
import pytest
from conftest import copy_repository, snakemake

from dlperf.analysis.__main__ import main

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
