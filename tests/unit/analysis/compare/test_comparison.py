"""Comparison of rounds: verdicts, what differs beside them, the page, the exit status."""

import json
import re
import shutil
from pathlib import Path

import pytest
from analysed_round import Page, analyse
from generated_round import config, stretch, write_environment, write_round

from dlperf.analysis.__main__ import main
from dlperf.analysis.compare import rounds
from dlperf.analysis.schema.files import Row, read_table
from dlperf.measure.record import sha256

FRAMEWORKS = ["pytorch", "mxnet", "jax"]


def made(root: Path, name: str, change=None, analysed: bool = True, **options) -> Path:
    """A round of three frameworks on one and two devices, five repetitions of each case."""
    keys = {key: options.pop(key) for key in list(options) if key not in ("fate", "verdict")}
    mapping = config(**{"round": name, "frameworks": FRAMEWORKS, "repetitions": 5, **keys})
    results = write_round(root, mapping, change=change, **options)
    if analysed:
        analyse(results)
    return results


def faster(by: float, framework: str = "pytorch"):
    """Changes records of a framework to this many times their throughput."""

    def change(record) -> None:
        if record["identity"]["framework"] == framework:
            stretch(record, 1 / by)

    return change


def compared(old: Path, new: Path, *more: str) -> tuple[int, list[Row], Page]:
    """(exit status, rows of the TSV, page)"""
    tsv, html = new / "compare/old.tsv", new / "compare/old.html"
    folders = ["--baseline", str(old), "--round", str(new)]
    status = main(["compare", *folders, "--out-tsv", str(tsv), "--out-html", str(html), *more])
    return status, read_table(tsv), Page(html.read_text())


def verdicts(rows: list[Row]) -> dict[str, str]:
    """framework and devices -> verdict"""
    return {f"{row['framework']} {row['devices_per_node']}": row["verdict"] for row in rows}


def test_a_slower_framework_is_a_regression_and_comes_first(tmp_path, capsys):
    old = made(tmp_path, "old")
    status, rows, page = compared(old, made(tmp_path, "new", faster(0.85)))
    assert status == 3
    assert [row["verdict"] for row in rows] == ["regression"] * 2 + [
        "not significantly different"
    ] * 4
    for row in rows[:2]:
        assert row["framework"] == "pytorch"
        assert row["ratio"] == pytest.approx(0.85, rel=1e-4)
        assert row["ratio_low"] < 0.85 < row["ratio_high"] < 1
        assert row["p"] <= row["p_corrected"] <= 0.05
    assert "regression: ResNet-50 v1.5, PyTorch" in capsys.readouterr().out
    assert "6 cells compared: 2 regressions, 4 not significantly different." in page.text


def test_of_a_metric_that_is_better_lower_more_is_a_regression(tmp_path, capsys):
    def twice(record) -> None:
        if record["identity"]["framework"] == "jax":
            for rank in record["memory"]:
                rank["host_peak_rss_bytes"] *= 2

    def apart(record) -> None:
        for rank in record["memory"]:
            rank["host_peak_rss_bytes"] += record["identity"]["repetition"] * 2**20

    old = made(tmp_path, "old", apart)
    new = made(tmp_path, "new", lambda record: (apart(record), twice(record)))
    status, rows, page = compared(old, new, "--metric", "memory")
    assert status == 3
    assert verdicts(rows) == {
        **{"pytorch 1": "not significantly different", "pytorch 2": "not significantly different"},
        **{"mxnet 1": "not significantly different", "mxnet 2": "not significantly different"},
        **{"jax 1": "regression", "jax 2": "regression"},
    }
    assert {(row["metric"], row["unit"], row["better"]) for row in rows} == {
        ("memory", "GiB", "lower")
    }
    assert rows[0]["ratio"] == pytest.approx(2, rel=1e-3)
    assert "Lower | higher" in page.text
    # their throughputs are the same
    assert compared(old, new)[0] == 0


def test_what_is_faster_or_the_same_is_no_reason_to_fail(tmp_path):
    old = made(tmp_path, "old")
    status, rows, _ = compared(old, made(tmp_path, "new", faster(1.2, "jax")))
    assert status == 0
    assert [row["verdict"] for row in rows] == ["improvement"] * 2 + [
        "not significantly different"
    ] * 4
    status, rows, page = compared(old, made(tmp_path, "same"))
    assert status == 0
    assert {row["verdict"] for row in rows} == {"not significantly different"}
    assert "Nothing is shown to be worse or broken." in page.text


def test_a_change_within_the_tolerance_is_no_regression_however_sure(tmp_path):
    old, new = made(tmp_path, "old"), made(tmp_path, "new", faster(0.93))
    status, rows, _ = compared(old, new, "--tolerance", "0.1")
    assert status == 0
    assert [row["verdict"] for row in rows[:2]] == ["small difference"] * 2
    assert compared(old, new)[0] == 3


def test_three_repetitions_say_plainly_that_they_cannot_tell(tmp_path):
    old = made(tmp_path, "old", repetitions=3)
    status, rows, page = compared(old, made(tmp_path, "new", faster(0.5), repetitions=3))
    assert status == 0
    assert [row["verdict"] for row in rows] == ["possible regression"] * 2 + [
        "too few repetitions"
    ] * 4
    assert all(row["p"] is None for row in rows)
    assert "3 repetitions a side cannot show a significant difference" in page.text
    assert "would be below all of the other in about 0.6 of 6 cells" in page.text


def test_a_cell_that_fails_now_is_broken(tmp_path):
    def fate(case, repetition):
        crashes = case.framework == "mxnet" and case.devices_per_node == 2
        return ("crashed", "rank 1: Segmentation fault") if crashes else ("ok", "")

    old = made(tmp_path, "old")
    status, rows, page = compared(old, made(tmp_path, "new", fate=fate))
    assert status == 3
    assert (rows[0]["framework"], rows[0]["verdict"]) == ("mxnet", "broken")
    assert rows[0]["reason"] == "crashed: rank 1: Segmentation fault"
    # the other way round, it is mended, and there is nothing to compare
    status, rows, _ = compared(tmp_path / "results/new", old)
    assert status == 0
    assert rows[-1]["verdict"] == "not compared"
    assert rows[-1]["reason"].startswith("baseline: crashed")


def test_work_that_is_not_equal_any_more_is_broken_however_fast(tmp_path):
    old = made(tmp_path, "old")
    fails = lambda case: "timed-loss" if case.framework == "jax" else "passed"  # noqa: E731
    status, rows, _ = compared(old, made(tmp_path, "new", faster(1.5, "jax"), verdict=fails))
    assert status == 3
    assert [row["verdict"] for row in rows[:2]] == ["broken"] * 2
    assert rows[0]["reason"].startswith("not equivalent: its certificate fails")
    # without a certificate on either side nothing is held against the other
    missing = made(tmp_path, "missing", verdict=lambda case: "missing")
    for path in (tmp_path / "results/certificates").rglob("cpu-*.json"):
        path.unlink()
    status, rows, _ = compared(old, analysed_again(missing))
    assert status == 0
    assert {row["verdict"] for row in rows} == {"not compared"}
    assert rows[0]["reason"] == "equal work is not certified: in this round missing"
    assert rows[0]["ratio"] == pytest.approx(1, abs=0.05)


def analysed_again(results: Path) -> Path:
    analyse(results)
    return results


def test_other_settings_are_named_and_other_cells_are_listed(tmp_path):
    old = made(tmp_path, "old", steps={"warmup": 2, "measured": 20}, topologies=["1n1d"])
    status, rows, _ = compared(old, made(tmp_path, "new", frameworks=["pytorch", "mxnet"]))
    assert status == 0
    assert verdicts(rows) == {
        "pytorch 1": "not compared",
        "mxnet 1": "not compared",
        "pytorch 2": "new",
        "mxnet 2": "new",
        "jax 1": "gone",
    }
    assert rows[0]["reason"] == "measured otherwise: measured steps 20 → 10"


def test_what_differs_is_said_once_and_beside_the_cell_that_it_is_of(tmp_path):
    def change(record) -> None:
        identity, parity = record["identity"], record["parity"]
        record["host"]["kernel"] = "6.9.9"
        record["host"]["clock_mhz_after"] = 2300.0
        record["provenance"]["git_commit"] = "b" * 40
        if identity["framework"] == "pytorch":
            parity["framework_version"] = "9.9.9"
        if identity["framework"] == "jax" and identity["devices_per_node"] == 2:
            parity["threads"] = 4

    old = made(tmp_path, "old")
    _, rows, page = compared(old, made(tmp_path, "new", change, seed=5))
    said = page.text
    assert said.count("6.9.9") == 1 and "kernel 6.1.0 6.9.9" in said
    assert "commit 4f2c0d9b7a1e bbbbbbbbbbbb" in said
    assert "In all cells of PyTorch" in said and "framework version 7.1.0 9.9.9" in said
    assert said.count("threads: 1 → 4") == 1
    assert "CPU clock after a repetition 2500 MHz 2300 MHz" in said
    assert "seed 1 5" in said
    assert re.search(r"The same in both: .*CPU, cores", said)
    (row,) = [each for each in rows if each["framework"] == "jax" and each["devices_per_node"] == 2]
    assert "kernel: 6.1.0 → 6.9.9" in row["differs"] and "threads: 1 → 4" in row["differs"]


def test_packages_that_differ_are_named_where_both_environments_are_kept(tmp_path):
    def measured_with(freeze):
        def change(record) -> None:
            if record["identity"]["framework"] == "pytorch":
                record["provenance"]["freeze_sha256"] = sha256("\n".join(freeze).encode())

        return change

    packages = {}
    for name, numpy in (("old", "2.4.6"), ("new", "2.5.0")):
        root = tmp_path / name
        packages[name] = ["pytorch==1.2.3", f"numpy=={numpy}", "six==1.17.0"]
        made(root, name, measured_with(packages[name]))
        path = root / "results/environments/pytorch.cpu/env.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "freeze": packages[name]}))
    old, new = (tmp_path / name / "results" / name for name in ("old", "new"))
    said = compared(old, new)[2].text
    assert "Packages of PyTorch Baseline: old Round: new numpy 2.4.6 2.5.0" in said
    # the baseline's environment was built anew since
    write_environment(tmp_path / "old", "pytorch", "cpu", reason="no wheel")
    assert "Which packages of PyTorch differ is not known" in compared(old, new)[2].text


def test_repetitions_that_failed_and_flags_stand_beside_the_cell(tmp_path):
    def fate(case, repetition):
        fails = case.framework == "jax" and repetition == 2
        return ("timeout", "not done after 300 s") if fails else ("ok", "")

    def change(record) -> None:
        record["host"]["foreign_cpu_share"] = 0.5

    old = made(tmp_path, "old")
    _, rows, page = compared(old, made(tmp_path, "new", change, fate=fate))
    assert "4 of 5 repetitions ok in this round" in page.text
    assert "other processes used the host's CPU in the timed window (this round)" in page.text
    assert {(row["baseline_n_ok"], row["n_ok"]) for row in rows} == {(5, 5), (5, 4)}


def test_the_page_needs_nothing_but_itself(tmp_path):
    old = made(tmp_path, "old")
    _, _, page = compared(old, made(tmp_path, "new", faster(0.8)))
    assert page.open == [] and "script" not in page.tags
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert {reference[1:] for reference in page.references if reference[0] == "#"} <= {*page.ids}
    assert len(page.ids) == len(set(page.ids))


def test_a_wrong_tolerance_or_folder_is_one_message(tmp_path, capsys):
    old, new = made(tmp_path, "old"), made(tmp_path, "new", analysed=False)
    out = ["--out-tsv", str(tmp_path / "a.tsv"), "--out-html", str(tmp_path / "a.html")]
    folders = ["--baseline", str(old), "--round", str(new)]
    assert main(["compare", *folders, *out, "--tolerance", "2"]) == 1
    assert "tolerance: 2.0 is not a share from 0 to below 1" in capsys.readouterr().err
    assert main(["compare", *folders, *out]) == 1
    assert "cells.tsv: cannot be read" in capsys.readouterr().err


@pytest.fixture
def results(tmp_path) -> Path:
    """results/ with two rounds that can be a baseline, and one that is not analysed."""
    folder = tmp_path / "results"
    for name, files in (("a", rounds.FILES), ("b", rounds.FILES), ("raw", ["config.yaml"])):
        (folder / name).mkdir(parents=True)
        for each in files:
            (folder / name / each).write_text("")
    return folder


def test_a_baseline_is_found_by_name_by_path_and_in_an_archive(results, tmp_path):
    assert rounds.find("a", results, own="b") == results / "a"
    assert rounds.find(str(results / "a"), results, own="b") == results / "a"
    unpacked = tmp_path / "unpacked"
    shutil.copytree(results / "a", unpacked / "results/a")
    assert rounds.find(str(unpacked), results, own="a") == unpacked / "results/a"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("", "say which round to compare with: --config baseline=<round> [there are: a, raw]"),
        ("aa", "no round 'aa' in {results}/; did you mean 'a'? [there are: a, raw]"),
        ("b", "'b' is the round itself; name another one [there are: a, raw]"),
        ("raw", "{results}/raw/measurements.tsv.gz does not exist; make it with: snakemake"),
        ("{results}", "{results} has several rounds; name one of them [there are: {results}/a"),
        ("{results}/a/none", "no round '{results}/a/none'"),
        ("{empty}", "{empty} has no round's config.yaml"),
    ],
)
def test_a_baseline_that_is_not_there_is_told_with_those_that_are(
    results, tmp_path, asked, message
):
    (tmp_path / "empty").mkdir()
    places = {"results": results, "empty": tmp_path / "empty"}
    with pytest.raises(LookupError) as caught:
        rounds.find(asked.format(**places), results, own="b")
    assert message.format(**places) in caught.value.args[0]


def other_losses(framework: str = "pytorch"):
    """Changes records of a framework to losses that its rivals do not have, and to be faster."""

    def change(record) -> None:
        if record["identity"]["framework"] == framework:
            record["steps"]["loss"] = [loss + 0.1 for loss in record["steps"]["loss"]]
            stretch(record, 0.5)

    return change


def test_a_cell_whose_work_is_in_doubt_now_is_broken_however_fast(tmp_path):
    old, new = made(tmp_path, "old"), made(tmp_path, "new", other_losses())
    status, rows, page = compared(old, new)
    assert status == 3
    assert [row["verdict"] for row in rows] == ["broken"] * 2 + ["not significantly different"] * 4
    assert "suspect cell, excluded from ranks: its losses are not those" in page.text
    assert rows[0]["ratio"] == pytest.approx(2, rel=0.05), "its number is shown all the same"


@pytest.mark.parametrize("both", [False, True])
def test_with_a_baseline_in_doubt_nothing_is_compared(tmp_path, both):
    old = made(tmp_path, "old", other_losses())
    status, rows, page = compared(old, made(tmp_path, "new", other_losses() if both else None))
    assert status == 0
    found = {row["framework"]: (row["verdict"], row["reason"]) for row in rows}
    where = "in both rounds" if both else "in the baseline"
    assert found["pytorch"][0] == "not compared" and found["pytorch"][1].startswith(where)
    assert found["mxnet"][0] == "not significantly different"


def test_a_disturbed_host_does_not_prevent_a_comparison(tmp_path):
    def busy(record) -> None:
        record["host"]["idle_share_before"] = 0.4

    _, rows, _ = compared(made(tmp_path, "old"), made(tmp_path, "new", busy))
    assert {row["verdict"] for row in rows} == {"not significantly different"}


@pytest.mark.parametrize("by", [0.85, 0.985, 0.999])
def test_a_verdict_and_the_interval_beside_it_agree(tmp_path, by):
    old, new = made(tmp_path, "old"), made(tmp_path, "new", faster(by))
    _, rows, page = compared(old, new)
    different = ("regression", "improvement", "small difference")
    for row in rows:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        excludes = not row["ratio_low"] <= 1 <= row["ratio_high"]
        assert excludes == (row["verdict"] in different) == (row["p_corrected"] <= 0.05)
    assert "it excludes 0 % where a cell is significantly different" in page.text
