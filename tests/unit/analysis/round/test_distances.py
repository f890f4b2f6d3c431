"""Measured steps beside what arithmetic and memory allow: roofline.tsv and the report."""

import re

import pytest
from analysed_round import Page, analyse, write_report
from generated_round import calibrate, config, write_round

from dlperf import workloads
from dlperf.analysis.round import metrics, roofline
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import read_table

TWO = {"frameworks": ["pytorch", "mxnet"], "resnet50_data": ["synthetic"]}
#: TFLOP/s of products and GB/s of memory: one core alone, and each of two at once.
MEASURED = {("fp32", 1): 0.080, ("fp32", 2): 0.050}
MEASURED |= {("copy", 1): 9.0, ("triad", 1): 10.0, ("copy", 2): 6.0, ("triad", 2): 5.0}


def rows_of(results) -> list[dict]:
    analyse(results)
    return read_table(results / "roofline.tsv")


def section(results) -> str:
    """The table of the report, as text of its HTML; "" where there is none."""
    text = (results / "report.html").read_text()
    found = re.search(r'<table id="roofline-resnet50".*?</table>', text, re.DOTALL)
    return found[0] if found else ""


def test_a_cell_stands_beside_what_as_many_devices_reach(tmp_path):
    results = write_round(tmp_path, config(**TWO), noise=0)
    calibrate(results, "node1", MEASURED)
    rows = rows_of(results)
    assert len(rows) == 4
    counted = roofline.step("resnet50", {"image_size": 64}, 8, "fp32")
    steps = metrics.select(read_table(results / "cells.tsv"), "step_time")
    for row, cell in zip(rows, steps, strict=True):
        assert row["case"] == cell["case"] and row["step_ms"] == cell["median"]
        tflops, gigabytes = {1: (0.080, 10.0), 2: (0.050, 6.0)}[row["devices_per_node"]]
        assert (row["peak_measured_tflops"], row["memory_measured"]) == (tflops, gigabytes)
        assert row["flops_per_step"] == counted.flops
        assert row["arithmetic_ms"] == pytest.approx(counted.flops / tflops / 1e9)
        assert row["least_ms"] == pytest.approx(counted.bytes("least") / gigabytes / 1e6)
        for roof in columns.ROOFS:
            assert row[f"over_{roof}"] == pytest.approx(row["step_ms"] / row[f"{roof}_ms"])
    assert rows[0]["arithmetic_ms"] == pytest.approx(
        8 * workloads.of("resnet50").flops_per_sample({"image_size": 64}, "train") / 0.080e9
    )


@pytest.mark.parametrize(
    "measured",
    [
        {},
        {key: rate for key, rate in MEASURED.items() if key[0] == "fp32"},
        {key: rate for key, rate in MEASURED.items() if key[0] != "fp32"},
    ],
    ids=["no calibration", "no memory", "no products"],
)
def test_without_both_speeds_nothing_is_compared(tmp_path, measured):
    results = write_round(tmp_path, config(**TWO), noise=0)
    if measured:
        calibrate(results, "node1", measured)
    write_report(results)
    assert read_table(results / "roofline.tsv") == [] and section(results) == ""


def test_failed_cells_and_other_workloads_and_scenarios_have_no_row(tmp_path):
    of_all = {"precisions": ["fp32"], "data": ["synthetic"]}
    mapping = config(
        frameworks=["pytorch", "tensorflow"],
        workloads={
            "resnet50": {**of_all, "scenarios": ["train", "infer"], "batch_sizes": {"fp32": [8]}},
            "wide_deep": {**of_all, "batch_sizes": {"fp32": [512]}},
        },
        topologies=["1n1d"],
    )

    def fate(case, repetition):
        return ("oom", "no memory") if case.framework == "tensorflow" else ("ok", "")

    results = write_round(tmp_path, mapping, fate=fate, noise=0)
    calibrate(results, "node1", MEASURED)
    found = {(row["workload"], row["framework"], row["scenario"]) for row in rows_of(results)}
    assert found == {("resnet50", "pytorch", "train")}


def test_the_report_shows_each_step_and_says_what_is_not_equivalent(tmp_path):
    def verdict(case):
        return "float64-loss" if case.framework == "mxnet" else "passed"

    results = write_round(tmp_path, config(**TWO), noise=0, verdict=verdict)
    calibrate(results, "node1", MEASURED)
    page = write_report(results)
    shown = section(results)
    assert page.open == [] and shown
    for row in read_table(results / "roofline.tsv"):
        assert row["case"] in shown and f">{row['step_ms']:.2f}</td>" in shown
        for roof in columns.ROOFS:
            assert f">{row[f'{roof}_ms']:.2f} ({row[f'over_{roof}']:.2f})<" in shown
    marked = [line for line in shown.splitlines() if "not equivalent" in line]
    assert len(marked) == 2 and all("MXNet" in Page(line).text for line in marked)
