"""`compare` as its users call it: a real Snakemake run beside rounds that are there."""

import csv
import shutil
from pathlib import Path

import analysis_steps
import generated_round
import pytest
import yaml
from conftest import copy_repository, snakemake

from dlperf import plan
from dlperf.analysis.__main__ import main

OLD = generated_round.config(
    round="old", frameworks=["pytorch", "mxnet"], topologies=["1n1d"], repetitions=5
)
NEW = {**OLD, "round": "new"}


def slower(record) -> None:
    """PyTorch's repetitions take 20 % longer."""
    if record["identity"]["framework"] == "pytorch":
        generated_round.stretch(record, 1.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A copy of the repository with an analysed round 'old', and the records of a slower 'new'."""
    made = copy_repository(tmp_path_factory.mktemp("compare") / "checkout")
    for shared in ("environments", "data", "certificates"):
        (made / "results" / shared).unlink()  # generated ones stand here instead
    for mapping, change in ((OLD, None), (NEW, slower)):
        generated_round.write_round(made, mapping, change=change)
    (made / "new.yaml").write_text(yaml.safe_dump(NEW, sort_keys=False))
    (made / "results/new/config.yaml").unlink()  # for the workflow to write
    for step in ("merging", "limiting", "summarising", "bounding"):
        assert main(getattr(analysis_steps, step)(made / "results/old")) == 0
    return made


def compare(folder: Path, baseline: str, *more: str):
    options = ("--configfile", "new.yaml", "--config", f"baseline={baseline}", *more)
    return snakemake(*options, "--", "compare", cwd=folder, check=False)


def test_a_regression_fails_the_call_and_keeps_what_was_found(folder):
    done = compare(folder, "old")
    assert done.returncode == 1
    assert "regression: ResNet-50 v1.5, PyTorch" in done.stdout
    with (folder / "results/new/compare/old.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert {row["framework"]: row["verdict"] for row in rows} == {
        "pytorch": "regression",
        "mxnet": "not significantly different",
    }
    assert "Round new beside old" in (folder / "results/new/compare/old.html").read_text()
    # the baseline is no part of the round
    made = (folder / "results/new/config.yaml").read_text()
    assert made == plan.dump(plan.load(folder / "new.yaml"))


def test_a_round_without_a_regression_succeeds_and_may_lie_anywhere(folder, tmp_path):
    """The same round, unpacked elsewhere and under another name."""
    elsewhere = tmp_path / "archive"
    shutil.copytree(folder / "results/new", elsewhere / "results/new")
    done = compare(folder, str(elsewhere))
    assert done.returncode == 0, done.stderr
    assert "2 cells compared: 2 not significantly different" in done.stdout


def test_a_wrong_baseline_is_told_at_once(folder):
    done = compare(folder, "odl")
    assert done.returncode != 0
    assert "no round 'odl' in results/; did you mean 'old'? [there are: old]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_round_is_held_against_another_one_wherever_that_lies(folder, tmp_path):
    """And its verdicts stay when the other one is gone: its tables were copied. Their figure is
    made alone, by its name."""
    elsewhere = tmp_path / "before"
    shutil.copytree(folder / "results/old", elsewhere)
    mapping = {**NEW, "beside": [str(elsewhere)]}
    (folder / "beside.yaml").write_text(yaml.safe_dump(mapping, sort_keys=False))
    figures = [f"results/new/figures/beside-before.{kind}" for kind in ("svg", "pdf")]
    asked = ("--configfile", "beside.yaml", "--", "results/new/beside.tsv", *figures)
    snakemake(*asked, cwd=folder)
    drawn = {path.name for path in (folder / "results/new/figures").iterdir()}
    assert drawn == {"beside-before.svg", "beside-before.png", "beside-before.pdf"}
    with (folder / "results/new/beside.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    verdicts = {row["framework"]: row["verdict"] for row in rows}
    assert verdicts == {"pytorch": "slower", "mxnet": "reproduced"}
    shutil.rmtree(elsewhere)
    assert "Nothing to be done" in (done := snakemake(*asked, cwd=folder)).stdout + done.stderr


def test_what_is_no_round_to_be_held_against_is_told_at_once(folder):
    for entry, said in (
        ("results/odl", "beside: no round 'results/odl' in results/"),
        ("results/new", "is the round itself"),
        ("odl", "beside[0]: 'odl' is no file of config/published, and no round in results"),
    ):
        (folder / "odd.yaml").write_text(yaml.safe_dump({**NEW, "beside": [entry]}))
        done = snakemake("--configfile", "odd.yaml", "-n", cwd=folder, check=False)
        assert done.returncode != 0 and said in done.stderr
        assert "Traceback" not in done.stderr


def test_the_report_of_a_round_waits_for_all_that_it_shows_of_a_publication(folder):
    mapping = {**NEW, "beside": ["dlperf-v1"]}
    (folder / "published.yaml").write_text(yaml.safe_dump(mapping))
    target = "results/new/report.html"
    done = snakemake("--configfile", "published.yaml", "-n", "--", target, cwd=folder)
    planned = done.stdout + done.stderr
    imported = ("import_round", "merge_imported", "cells_imported", "values_imported")
    for rule in (*imported, "verdicts", "beside_figure"):
        assert rule in planned
