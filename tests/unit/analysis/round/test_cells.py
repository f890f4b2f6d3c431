"""From records to cells: the arithmetic."""

import csv
import gzip
import math
import statistics
import time

import pytest
from analysed_round import SMALL, analyse, cell, mxnet_fails
from generated_round import config, stretch, write_round

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.round import flags, metrics
from dlperf.analysis.schema.files import read_table
from dlperf.analysis.statistics import separation
from dlperf.scenarios.train import window_seconds


def test_throughput_is_all_samples_over_the_time_of_all_ranks():
    window = [
        {"node": "a", "start": 10.0, "end": 20.0, "rank_start": 10.1, "rank_end": 19.9},
        {"node": "b", "start": 10.0, "end": 20.5, "rank_start": 7000.0, "rank_end": 7001.0},
    ]
    assert window_seconds({"window": window}) == 10.5, "by the stopwatch's clock, which is one"


def test_a_cell_is_the_median_over_its_repetitions(tmp_path):
    results = write_round(tmp_path, SMALL)
    rows = analyse(results)
    measured = read_table(results / "measurements.tsv.gz")
    for row in rows:
        speeds = [
            each["throughput"]
            for each in measured
            if (each["framework"], each["case"]) == (row["framework"], row["case"])
        ]
        assert row["median"] == statistics.median(speeds)
        assert (row["median_low"], row["median_high"]) == (min(speeds), max(speeds))
        assert (row["coverage"], row["n_ok"], row["n_asked"]) == (0.75, 3, 3)
        assert row["cv"] == pytest.approx(statistics.stdev(speeds) / statistics.mean(speeds))
        assert row["flags"] == ""


def test_measurements_have_what_the_records_say(tmp_path):
    results = write_round(tmp_path, SMALL, noise=0)
    analyse(results)
    for row in read_table(results / "measurements.tsv.gz"):
        assert row["throughput"] == pytest.approx(row["samples"] / row["window_seconds"])
        assert row["window_start_utc"] < row["window_end_utc"]
        assert (results / row["record"]).exists()
        assert len(row["record_sha256"]) == 64
        assert row["loss_first"] > row["loss_last"]


def test_speed_up_is_against_the_same_framework_on_one_device(tmp_path):
    rows = analyse(write_round(tmp_path, SMALL))
    for framework in ("pytorch", "mxnet"):
        one, two = cell(rows, framework, 1), cell(rows, framework, 2)
        assert (one["ratio"], one["efficiency"]) == (1, 1)
        assert two["ratio"] == pytest.approx(two["median"] / one["median"])
        assert two["efficiency"] == pytest.approx(two["ratio"] / 2)
        assert two["ratio_low"] <= two["ratio"] <= two["ratio_high"]
        assert two["ratio_coverage"] == 0.5


def test_another_batch_is_never_the_base_of_a_speed_up(tmp_path):
    mapping = config(
        frameworks=["pytorch"],
        resnet50_batch_sizes={"fp32": [8, 16]},
    )

    def only_8_on_one(case, repetition):
        fails = case.batch_size == 16 and case.devices_per_node == 1
        return ("oom", "no memory") if fails else ("ok", "")

    rows = analyse(write_round(tmp_path, mapping, fate=only_8_on_one))
    two = {row["batch_size"]: row for row in rows if row["devices_per_node"] == 2}
    assert two[8]["ratio"] is not None
    assert two[16]["ratio"] is None and two[16]["status"] == "ok"


def test_what_failed_is_a_cell_with_its_reason(tmp_path):
    rows = analyse(write_round(tmp_path, SMALL, fate=mxnet_fails))
    failed, partial = cell(rows, "mxnet", 2), cell(rows, "mxnet", 1)
    assert (failed["status"], failed["reason"]) == ("oom", "rank 0: no memory left")
    assert (failed["n_ok"], failed["n_oom"], failed["median"]) == (0, 3, None)
    assert (partial["status"], partial["n_ok"], partial["n_oom"]) == ("ok", 2, 1)
    assert partial["flags"] == "partial"
    assert partial["coverage"] == 0.5


def test_what_is_not_measured_yet_and_what_is_unsupported_have_rows(tmp_path):
    mapping = config(frameworks=["pytorch"], resnet50_compilers=["off", "static"])
    mapping["frameworks"] = ["pytorch", "mxnet"]
    results = write_round(tmp_path, mapping, fate=lambda case, repetition: ("missing", ""))
    rows = analyse(results)
    asked = plan.expand(plan.load(mapping))
    assert len(rows) == len(asked)
    for row, case in zip(rows, asked, strict=True):
        assert row["status"] == ("unsupported" if case.unsupported else "missing")
        assert row["reason"] == (case.unsupported or "not measured yet")
    assert {"unsupported", "missing"} == {row["status"] for row in rows}


def test_a_cell_says_which_difference_it_could_show(tmp_path):
    three = analyse(write_round(tmp_path / "3", SMALL))
    assert {row["detectable"] for row in three} == {None}
    for noise in (0.01, 0.1):
        rows = analyse(write_round(tmp_path / str(noise), {**SMALL, "repetitions": 6}, noise=noise))
        for row in rows:  # of two cells: benchmarks/intervals.py
            assert row["detectable"] == pytest.approx(separation.shift(6, 2) * row["cv"], rel=0.3)


def test_what_a_cell_could_show_depends_on_how_many_are_ranked_with_it(tmp_path):
    mapping = {**config(), "repetitions": 6}
    rows = analyse(write_round(tmp_path / "all", mapping))
    ranked = len({row["framework"] for row in rows})
    assert ranked > 4
    for row in rows:
        assert row["detectable"] == pytest.approx(separation.shift(6, ranked) * row["cv"], rel=0.3)
    alone = analyse(write_round(tmp_path / "one", {**mapping, "frameworks": ["jax"]}))
    for row in alone:
        assert row["detectable"] == pytest.approx(separation.shift(6, 2) * row["cv"], rel=0.3)


def test_frameworks_are_ranked_where_they_are_told_apart(tmp_path):
    frameworks = ["pytorch", "paddlepaddle", "mxnet", "tensorflow1"]
    mapping = config(frameworks=frameworks, repetitions=6)
    rows = analyse(write_round(tmp_path, mapping, noise=0.04))
    for devices in (1, 2):
        places = {
            name: (own["rank"], own["rank_last"])
            for name in frameworks
            for own in [cell(rows, name, devices)]
        }
        assert list(places.values()) == [(1, 2), (1, 2), (3, 3), (4, 4)]


def test_less_is_better_in_ranks_by_step_time(tmp_path):
    results = write_round(tmp_path, {**SMALL, "repetitions": 4})
    analyse(results)
    ranks = {
        (row["metric"], row["framework"]): row["rank"]
        for row in read_table(results / "cells.tsv")
        if row["devices_per_node"] == 1 and row["metric"] in ("throughput", "step_time")
    }
    for metric in ("throughput", "step_time"):
        assert (ranks[metric, "pytorch"], ranks[metric, "mxnet"]) == (1, 2)


def test_three_repetitions_share_all_ranks(tmp_path):
    rows = analyse(write_round(tmp_path, config()))
    ranked = len({row["framework"] for row in rows})
    assert {(row["rank"], row["rank_last"]) for row in rows} == {(1, ranked)}


def test_a_cell_with_too_few_repetitions_shares_its_rank_and_leaves_those_of_others(tmp_path):
    def fate(case, repetition):
        few = case.framework == "jax" and repetition > 3
        return ("oom", "no memory") if few else ("ok", "")

    mapping = config(frameworks=["pytorch", "mxnet", "jax"], repetitions=6)
    rows = analyse(write_round(tmp_path, mapping, fate=fate))
    places = {row["framework"]: (row["rank"], row["rank_last"]) for row in rows}
    assert places == {"jax": (1, 3), "pytorch": (1, 2), "mxnet": (2, 3)}
    assert {row["detectable"] is None for row in rows if row["framework"] == "jax"} == {True}


def test_what_is_not_equivalent_and_what_was_measured_once_has_no_rank(tmp_path):
    mapping = config(frameworks=["pytorch", "tensorflow", "mxnet", "jax"])

    def verdict(case):
        return "float64-update" if case.framework == "pytorch" else "passed"

    def fate(case, repetition):
        once = case.framework == "jax" and repetition > 1
        return ("oom", "no memory") if once else ("ok", "")

    rows = analyse(write_round(tmp_path, mapping, verdict=verdict, fate=fate))
    ranked = {row["framework"] for row in rows if row["rank"] is not None}
    assert ranked == {"tensorflow", "mxnet"}
    assert cell(rows, "mxnet", 1)["rank"] == 1  # only pytorch, which is not ranked, is faster


def test_an_outlier_is_marked_counted_and_kept(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet" and record["identity"]["repetition"] == 2:
            stretch(record, 1.5)

    results = write_round(tmp_path, {**SMALL, "repetitions": 5}, change=change)
    rows = analyse(results)
    marked = [row for row in read_table(results / "measurements.tsv.gz") if row["outlier"]]
    assert {(row["framework"], row["repetition"], row["outlier"]) for row in marked} == {
        ("mxnet", 2, "low")
    }
    kept = cell(rows, "mxnet", 1)
    assert (kept["n_outliers"], kept["n_ok"], kept["flags"]) == (1, 5, "")
    assert kept["median_low"] == min(row["throughput"] for row in marked[:1])
    assert cell(rows, "pytorch", 1)["n_outliers"] == 0


def test_energy_and_memory_are_kept_where_they_were_counted(tmp_path):
    mapping = config(frameworks=["pytorch"], device="cuda")
    results = write_round(tmp_path, mapping)
    (one, two) = analyse(results)
    assert one["device_peak_bytes"] == 9_000_000_000
    first, second = metrics.select(read_table(results / "cells.tsv"), "energy")
    assert first["median"] == pytest.approx(210 / one["median"], rel=0.02)
    assert second["median"] == pytest.approx(2 * 210 / two["median"], rel=0.02)
    assert (first["unit"], first["better"]) == ("J/image", "lower")


def test_a_case_has_a_row_for_each_metric(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    analyse(results)
    rows = read_table(results / "cells.tsv")
    names = ["throughput", "step_time", "memory", "tflops"]  # energy nobody counted
    assert [row["metric"] for row in rows] == names * 4
    pytorch = {row["metric"]: row for row in rows[:4]}
    samples = 8 * 1
    seconds = samples / pytorch["throughput"]["median"]
    assert pytorch["step_time"]["median"] == pytest.approx(1000 * seconds)
    assert (pytorch["step_time"]["unit"], pytorch["step_time"]["better"]) == ("ms", "lower")
    assert pytorch["step_time"]["flags"] == pytorch["throughput"]["flags"]
    failed = [row for row in rows if row["framework"] == "mxnet" and row["devices_per_node"] == 2]
    assert {(row["status"], row["median"]) for row in failed} == {("oom", None)}


def test_where_lower_is_better_the_lowest_is_first(tmp_path):
    mapping = config(frameworks=["pytorch", "mxnet", "jax"], repetitions=6)
    results = write_round(tmp_path, mapping)
    analyse(results)
    rows = [row for row in read_table(results / "cells.tsv") if row["devices_per_node"] == 1]
    rank = {
        name: {row["framework"]: row["rank"] for row in metrics.select(rows, name)}
        for name in ("throughput", "step_time")
    }
    assert rank["step_time"] == rank["throughput"]  # at one batch they say the same
    times = metrics.select(rows, "step_time")
    assert min(times, key=lambda row: row["median"])["rank"] == 1
    one, two = metrics.select(
        (row for row in read_table(results / "cells.tsv") if row["framework"] == "jax"), "step_time"
    )
    assert two["ratio"] == pytest.approx(two["median"] / one["median"])
    assert two["efficiency"] is None, "times do not add up over devices"


def test_the_same_records_give_the_same_bytes(tmp_path):
    results = write_round(tmp_path, SMALL)
    files = ("measurements.tsv.gz", "parity.tsv", "certificates.tsv", "checks.tsv", "cells.tsv")
    analyse(results)
    first = [(results / name).read_bytes() for name in files]
    time.sleep(1.1)  # a time stamp in the gzip would differ by now
    analyse(results)
    assert first == [(results / name).read_bytes() for name in files]


def test_measurements_can_be_read_with_anything(tmp_path):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    with gzip.open(results / "measurements.tsv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert len(rows) == 12
    assert list(rows[0])[:22] == [
        *("round", "workload", "framework", "scenario", "precision", "compiler", "nodes"),
        *("devices_per_node", "tensor_parallel", "pipeline_parallel", "zero_stage"),
        *("accumulation", "activation_checkpointing", "batch_size", "searched", "epochs"),
        *("arrival_rate", "data"),
        *("image_size", "fold", "mixup"),
        "repetition",
    ]
    assert all(math.isfinite(float(row["throughput"])) for row in rows)


def test_1000_records_become_cells_and_tables_and_none_is_lost(tmp_path):
    mapping = config(
        frameworks=["pytorch"],
        topologies=[f"1n{devices}d" for devices in range(1, 6)],
        repetitions=10,
        resnet50_compilers=["off", "on"],
        resnet50_batch_sizes={"fp32": list(range(1, 11))},
    )
    results = write_round(tmp_path, mapping)
    rows = analyse(results)
    for name in dict.fromkeys(row["table"] for row in rows):
        out = [str(results / "tables" / f"{name}.{kind}") for kind in ("tsv", "md", "html")]
        kinds = ["--tsv", out[0], "--md", out[1], "--html", out[2]]
        cells = str(results / "cells.tsv")
        assert main(["table", "--cells", cells, "--table", name, *kinds]) == 0
    assert sum(row["n_ok"] for row in rows) == 1000


def test_the_seconds_of_a_trial_stand_beside_its_window(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            record["steps"]["trial"]["seconds"] = 12.5

    asked = config(frameworks=["pytorch", "mxnet"], minimum_seconds=10)
    analyse(results := write_round(tmp_path, asked, change=change))
    rows = read_table(results / "measurements.tsv.gz")
    assert {(row["framework"], row["trial_seconds"]) for row in rows} == {
        ("pytorch", 10.0),
        ("mxnet", 12.5),
    }
    assert "suspect:pace" in flags.EXCLUDING
