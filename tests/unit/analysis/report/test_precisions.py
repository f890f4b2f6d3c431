"""Mixed precision over full precision, with an equal batch: names, ratios, intervals, and gaps."""

import pytest
from analysed_round import analyse, write_figure, write_table
from generated_round import config, write_round

from dlperf import plan
from dlperf.analysis.report import tables
from dlperf.analysis.round import names
from dlperf.analysis.schema.files import read_table
from dlperf.analysis.statistics.medians import median, ratio_interval

OVER = "resnet50-train-amp-over-fp32-b8"


def asking(precisions=("fp32", "amp"), **batches):
    return config(
        frameworks=["pytorch", "mxnet"],
        topologies=["1n1d"],
        repetitions=5,
        resnet50_precisions=list(precisions),
        resnet50_batch_sizes={each: batches.get(each, [8]) for each in precisions},
    )


def tables_over(*args, **batches):
    return list(names.over_precision(plan.expand(plan.load(asking(*args, **batches)))))


def test_a_table_of_ratios_is_of_an_equal_batch():
    assert tables_over() == [OVER]
    assert tables_over(amp=[8, 16], fp32=[8]) == [OVER]
    assert tables_over(amp=[16], fp32=[8]) == []


def test_all_are_over_fp32_or_else_over_tf32():
    assert tables_over(("tf32", "amp")) == ["resnet50-train-amp-over-tf32-b8"]
    assert tables_over(("fp32", "tf32", "amp")) == ["resnet50-train-tf32-over-fp32-b8", OVER]
    assert tables_over(("fp32", "amp", "amp_fp16")) == [
        OVER,
        "resnet50-train-amp_fp16-over-fp32-b8",
    ]


def test_the_plan_names_the_tables_and_figures():
    cases = plan.expand(plan.load(asking()))
    assert OVER in names.table_ids(cases) and f"{OVER}-throughput" in names.figure_ids(cases)


def test_a_ratio_is_that_of_the_medians_with_the_interval_of_a_ratio(tmp_path):
    results = write_round(tmp_path, asking())
    analyse(results)
    values = {}
    for row in read_table(results / "measurements.tsv.gz"):
        key = row["framework"], row["precision"]
        values.setdefault(key, []).append(row["throughput"])
    rows = tables.select(read_table(results / "cells.tsv"), OVER)
    for row in rows:
        amp, fp32 = (values[row["framework"], each] for each in ("amp", "fp32"))
        interval = ratio_interval(amp, fp32)
        assert row["median"] == pytest.approx(median(amp) / median(fp32))
        assert (row["median_low"], row["median_high"]) == pytest.approx(interval[:2])
        assert row["coverage"] == pytest.approx(0.875)
        assert row["rank"] is None and row["unit"] == "× fp32"
    made = write_table(results, OVER)
    assert "amp over fp32, batch 8 per device" in made["md"]
    assert "with a coverage of at least 87.5 %" in made["md"]
    svg, _ = write_figure(results, f"{OVER}-throughput")
    assert "throughput, × fp32" in svg and "amp over fp32" in svg


def test_what_is_said_against_either_cell_is_said_of_their_ratio(tmp_path):
    """fp32 of MXNet ran out of memory, and PyTorch's is not certified: both stand at the ratio."""

    def fate(case, repetition):
        out = (case.framework, case.precision) == ("mxnet", "fp32")
        return ("oom", "no memory left") if out else ("ok", "")

    def verdict(case):
        wrong = (case.framework, case.precision) == ("pytorch", "fp32")
        return "timed-loss" if wrong else "passed"

    results = write_round(tmp_path, asking(), fate=fate, verdict=verdict)
    analyse(results)
    said = write_table(results, OVER)["md"]
    assert "*not equivalent*" in said
    assert "out of memory: in fp32: no memory left" in said
