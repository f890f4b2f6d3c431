"""Cells whose timed work is in doubt keep their number and leave ranks, winners and baselines."""

import json
import math
import re

import pytest
from analysed_round import NAME, analyse, cell, write_figure, write_report, write_table
from generated_round import config, stretch, write_round

from dlperf.analysis.audit.check import of_round
from dlperf.analysis.audit.summary import summary as audit_summary
from dlperf.analysis.report import summary, tables
from dlperf.analysis.round import flags, metrics
from dlperf.analysis.schema.files import read_table

THREE = config(frameworks=["pytorch", "mxnet", "tensorflow"], repetitions=5)
SPEED_UP = flags.NO_SPEED_UP


def fast(record):
    """What makes MXNet 2.6 times as fast as PyTorch, its best rival."""
    stretch(record, 1 / 2.95)


def other_losses(record):
    record["steps"]["loss"] = [loss + 0.1 for loss in record["steps"]["loss"]]


def constant_loss(record):
    record["steps"]["loss"] = record["steps"]["loss"][:1] * len(record["steps"]["loss"])


def fewer_trained(record):
    for rank in record["weights"]:
        rank["unchanged"] += 1


def half_of_the_change(record):
    for rank in record["weights"]:
        rank["change"] /= 2


def diverging_ranks(record):
    for rank in record["weights"]:
        rank["sha256"] = f"{rank['rank']:064x}"


def busy(record):
    record["host"]["idle_share_before"] = 0.4


def loaded(record):
    record["host"]["foreign_cpu_share"] = 0.3


def throttled(record):
    record["host"] |= {"clock_mhz_before": 3500.0, "clock_mhz_after": 2900.0}


def other_commit(record):
    if record["identity"]["repetition"] == 2:
        record["provenance"]["git_commit"] = "0" * 40


def a_stranger(record):
    record["ran_beside"]["strangers"] = ["/home/me/faster.py"]


def an_altered_file(record):
    if record["identity"]["repetition"] == 3:
        record["ran_beside"]["altered"] = ["site-packages/mxnet/ndarray.py"]


def other_imports(record):
    if record["identity"]["repetition"] == 2:
        record["ran_beside"]["sha256"] = "0" * 64


def a_page_that_reads_variables(record):
    page = "workloads/resnet50/mxnet.py: os.environ"
    record["provenance"]["unexplained"] = [page]


CODE = [a_stranger, an_altered_file, other_imports, a_page_that_reads_variables]


def of(framework, *changes, devices=(1, 2)):
    """Changes a framework's records on so many devices."""

    def change(record):
        identity = record["identity"]
        if identity["framework"] == framework and identity["devices_per_node"] in devices:
            for each in changes:
                each(record)

    return change


def ranks(rows):
    return {(row["framework"], row["devices_per_node"]): row["rank"] for row in rows}


@pytest.mark.parametrize(
    "doubt", [other_losses, constant_loss, fewer_trained, half_of_the_change, diverging_ranks]
)
def test_a_cell_whose_work_is_in_doubt_keeps_its_number_and_has_no_rank(tmp_path, doubt):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, doubt, devices=(2,)))
    rows = analyse(results)
    suspect, rival = cell(rows, "mxnet", 2), cell(rows, "pytorch", 2)
    assert suspect["median"] > 2 * rival["median"] and flags.excluding(suspect)
    assert ranks(rows)["mxnet", 2] is None and ranks(rows)["pytorch", 2] == 1
    assert ranks(rows)["mxnet", 1] == 2  # only that cell is excluded
    every = read_table(results / "cells.tsv")
    excluded = [row for row in every if (row["framework"], row["devices_per_node"]) == ("mxnet", 2)]
    assert len(excluded) > 2 and {row["rank"] for row in excluded} == {None}  # in no metric


@pytest.mark.parametrize("doubt", CODE)
def test_a_cell_beside_which_other_code_ran_has_no_rank(tmp_path, doubt):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, doubt, devices=(2,)))
    rows = analyse(results)
    assert flags.excluding(cell(rows, "mxnet", 2)) == [flags.CODE]
    assert ranks(rows)["mxnet", 2] is None and ranks(rows)["pytorch", 2] == 1
    assert ranks(rows)["mxnet", 1] == 2


@pytest.mark.parametrize("doubt", CODE[:2] + CODE[3:])
def test_the_report_and_an_audit_name_the_code_that_nobody_vouches_for(tmp_path, doubt):
    results = write_round(tmp_path, THREE, change=of("mxnet", doubt, devices=(2,)))
    analyse(results)
    write_report(results)
    page = (results / "report.html").read_text()
    audited = "\n".join(audit_summary(of_round(results), tmp_path / "audit.tsv"))
    named = ("faster.py", "mxnet/ndarray.py", "workloads/resnet50/mxnet.py: os.environ")
    assert sum(each in page for each in named) == 1
    assert "nobody vouches for all code that ran" in audited


def test_a_spot_run_that_imported_something_else_excludes_its_cell(tmp_path):
    results = write_round(tmp_path, THREE)
    path = results / "checks/resnet50/mxnet/train-fp32-static-1n2d-b8-sample-px64.run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "ran_beside": {**run["ran_beside"], "sha256": "0" * 64}}))
    assert flags.excluding(cell(analyse(results), "mxnet", 2)) == [flags.CODE]
    # of other code it is stale, and may import something else
    run["provenance"] = {**run["provenance"], "code_sha256": "0" * 64}
    path.write_text(json.dumps({**run, "ran_beside": {**run["ran_beside"], "sha256": "0" * 64}}))
    found = cell(analyse(results), "mxnet", 2)
    assert found["check"] == "stale" and flags.excluding(found) == []
    strangers = {**run["ran_beside"], "strangers": ["/home/me/faster.py"]}
    path.write_text(json.dumps({**run, "ran_beside": strangers}))
    assert flags.excluding(cell(analyse(results), "mxnet", 2)) == [flags.CODE]


@pytest.mark.parametrize("accident", [busy, loaded, throttled, other_commit])
def test_what_only_disturbed_a_host_excludes_nothing(tmp_path, accident):
    rows = analyse(write_round(tmp_path, THREE, change=of("mxnet", fast, accident)))
    found = cell(rows, "mxnet", 1)
    assert found["flags"] and not flags.excluding(found)
    if found["certificate"] == "passed":
        assert found["rank"] == 1 and SPEED_UP not in cell(rows, "mxnet", 2)["flags"]


def test_every_excluding_flag_is_a_suspect_that_the_documentation_names():
    assert set(flags.EXCLUDING) <= set(flags.FLAGS)
    for text in flags.EXCLUDING:
        assert flags.flag(text).startswith("suspect cell, excluded from ranks: ")
        row = {"status": "ok", "certificate": "passed", "flags": f"partial {text}"}
        assert not flags.rankable(row) and flags.mark(row) == "suspect"
    for text in set(flags.FLAGS) - set(flags.EXCLUDING):
        row = {"status": "ok", "certificate": "passed", "flags": text}
        assert flags.rankable(row) and flags.mark(row) == ""


def test_a_speed_up_over_a_suspect_baseline_is_left_out_and_the_table_says_so(tmp_path):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, other_losses, devices=(1,)))
    rows = analyse(results)
    scaled = cell(rows, "mxnet", 2)
    assert scaled["ratio"] is scaled["efficiency"] is None and scaled["flags"] == SPEED_UP
    assert scaled["rank"] is not None, "its own work is not in doubt"
    assert cell(rows, "pytorch", 2)["efficiency"] > 0.9
    text = write_table(results)["md"]
    assert re.search(rf"\| +{scaled['median']:.2f} \[\d\] +\|", text)
    assert (
        "no speed-up or ratio: its baseline is a suspect cell that is excluded from ranks" in text
    )
    svg, _ = write_figure(results, f"{NAME}-scaling")
    assert "suspect: excluded from ranks (see the table)" in svg


def test_a_ratio_of_precisions_over_a_suspect_cell_is_left_out_and_one_of_it_is_marked(tmp_path):
    def change(record):
        precision = record["identity"]["precision"]
        if (record["identity"]["framework"], precision) in (("mxnet", "fp32"), ("jax", "amp")):
            constant_loss(record)

    mapping = config(
        frameworks=["pytorch", "mxnet", "jax"],
        topologies=["1n1d"],
        resnet50_precisions=["fp32", "amp"],
        resnet50_batch_sizes={"fp32": [8], "amp": [8]},
    )
    results = write_round(tmp_path, mapping, change=change)
    analyse(results)
    name = "resnet50-train-amp-over-fp32-b8"
    rows = tables.select(read_table(results / "cells.tsv"), name)
    found = {row["framework"]: row for row in rows}
    assert found["pytorch"]["median"] > 1 and flags.mark(found["pytorch"]) == ""
    assert found["mxnet"]["status"] == "excluded" and found["mxnet"]["median"] is None
    assert found["jax"]["median"] > 1 and flags.mark(found["jax"]) == "suspect"
    text = write_table(results, name)["md"]
    assert "no baseline: in fp32: suspect cell, excluded from ranks: its losses" in text
    assert "*suspect*" in text


def test_a_ratio_with_an_equal_global_batch_over_a_suspect_cell_is_left_out(tmp_path):
    def change(record):
        identity = record["identity"]
        place = identity["framework"], identity["devices_per_node"], identity["batch_size"]
        if place == ("mxnet", 1, 16):
            constant_loss(record)

    mapping = config(
        frameworks=["pytorch", "mxnet"],
        resnet50_batch_sizes={"fp32": [16]},
        resnet50_global_batch_sizes={"fp32": [16]},
    )
    results = write_round(tmp_path, mapping, change=change)
    analyse(results)
    name = "resnet50-train-fp32-total16"
    rows = tables.select(read_table(results / "cells.tsv"), name)
    assert cell(rows, "pytorch", 2)["ratio"] is not None
    found = cell(rows, "mxnet", 2)
    assert found["ratio"] is None and found["flags"] == SPEED_UP
    assert (
        "no speed-up or ratio: its baseline is a suspect cell" in write_table(results, name)["md"]
    )


def test_every_form_of_a_table_marks_a_suspect_and_says_why_it_is_excluded(tmp_path):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, other_losses))
    analyse(results)
    forms = write_table(results)
    for text in (forms["md"], forms["html"]):
        assert "suspect cell, excluded from ranks: its losses are not those" in text
        assert "1n1d: 1 PyTorch, 2 TensorFlow; excluded as suspect: MXNet" in text
    assert forms["md"].count("*suspect*") == forms["html"].count("✗ suspect") == 2
    svg, _ = write_figure(results, f"{NAME}-throughput")
    assert "suspect: excluded from ranks (see the table)" in svg


def test_a_suspect_that_leads_wins_nowhere_in_the_report(tmp_path):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, other_losses))
    page = write_report(results)
    top = page.text[page.text.index("What won ") :].partition("How sure")[0]
    assert "In 2 of 2 comparisons one is significantly better than all others: PyTorch" in top
    assert "MXNet" not in top
    assert "2 cells are suspect, and the tables say why; 2 of them excluded from ranks" in page.text
    assert "Suspect cells, excluded from ranks: MXNet [static], fp32 b8 1n1d; MXNet" in page.text
    assert set(re.findall(r"the highest median is (\w+)", page.text)) == {"PyTorch"}
    assert "because they are suspect cells, whose timed work is in doubt" in page.text
    fastest = cell(metrics.select(read_table(results / "cells.tsv")), "mxnet", 1)
    assert f"{fastest['median']:.2f}" in page.text, "its speed is shown all the same"
    text = (results / "report.html").read_text()
    explored = json.loads(re.search(r'id="explorer-data">(.*?)</script>', text, re.DOTALL)[1])
    for each in explored["cells"]:
        assert each["ranked"] == (each["framework"] != "MXNet")
        assert ("excluded: suspect" in each["doubts"]) == (each["framework"] == "MXNet")


def test_where_all_rivals_are_excluded_nothing_is_ranked_and_it_says_why(tmp_path):
    two = config(frameworks=["pytorch", "mxnet"])
    page = write_report(write_round(tmp_path, two, change=of("mxnet", constant_loss)))
    assert "Nothing is ranked: nowhere do two implementations have a number" in page.text
    assert "2 cells are excluded as suspect" in page.text
    assert "So nothing is ranked here." in page.text
    assert "1n1d: nothing is ranked; excluded as suspect: MXNet" in page.text


def test_a_winner_that_was_disturbed_is_ranked_and_not_named_in_the_first_sentence(tmp_path):
    results = write_round(tmp_path, THREE, change=of("mxnet", fast, throttled, devices=(1,)))
    rows = analyse(results)
    assert cell(rows, "mxnet", 1)["rank"] == 1
    found = summary.standings(rows, read_table(results / "measurements.tsv.gz"))
    said = summary.won(found, rows)
    assert said.startswith("In 1 of 2 comparisons one is significantly better than all others")
    assert "PyTorch in ResNet-50" in said and "MXNet [static] in" not in said
    assert "In 1 the best is a suspect cell: the table below says which and why." in said


def test_a_verdict_and_the_interval_beside_it_never_contradict_each_other(tmp_path):
    """Of eight frameworks whose speeds are close; of speeds and of times, which are better low."""
    results = write_round(tmp_path, config(repetitions=5), noise=0.04)
    analyse(results)
    runs, tied = read_table(results / "measurements.tsv.gz"), 0
    for metric in ("throughput", "step_time", "memory"):
        rows = metrics.select(read_table(results / "cells.tsv"), metric)
        for each in summary.standings(rows, runs):
            low, high = each.over_second_interval
            assert low <= each.over_second <= high and 0 < low and math.isfinite(high)
            assert (each.second in each.tied) == (low <= 1)
            tied += bool(each.tied)
    assert tied


def test_the_intervals_of_three_repetitions_are_unbounded(tmp_path):
    results = write_round(tmp_path, config(frameworks=["pytorch", "mxnet"]))
    page = write_report(results)
    assert "unbounded" in page.text
