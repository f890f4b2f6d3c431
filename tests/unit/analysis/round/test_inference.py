"""Rounds that infer: latency in cells, tables and figures, and answers that are not the others'."""

import json

import pytest
from analysed_round import analyse
from analysis_steps import everything, merging
from generated_round import config, write_round

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.report import captions, distributions, drawing, figures, tables
from dlperf.analysis.round import labels, metrics, names
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import read_table, write_table


def inferring(frameworks=("pytorch", "mxnet", "tensorflow"), batches=(1, 8), measured=400, **more):
    return config(
        frameworks=list(frameworks),
        topologies=["1n1d"],
        resnet50_scenarios=["infer"],
        resnet50_batch_sizes={"fp32": list(batches)},
        steps={"warmup": 20, "measured": measured},
        **more,
    )


@pytest.fixture
def rows(tmp_path):
    results = write_round(tmp_path, inferring())
    analyse(results)
    return read_table(results / "cells.tsv")


def test_latency_is_a_metric_of_which_less_is_better(rows):
    own = metrics.select(rows, "latency_p50")
    assert {(row["unit"], row["better"], row["status"]) for row in own} == {("ms", "lower", "ok")}
    speeds = {
        row["framework"]: row["median"] for row in metrics.select(rows) if row["batch_size"] == 8
    }
    waits = {row["framework"]: row["median"] for row in own if row["batch_size"] == 8}
    assert sorted(speeds, key=speeds.get) == sorted(waits, key=waits.get, reverse=True)
    assert all(
        wait == pytest.approx(1.1 * 8000 / speeds[name], rel=0.03) for name, wait in waits.items()
    )


def test_tables_and_figures_of_latency_are_made_unasked_and_one_over_batch_sizes():
    cases = plan.expand(plan.load(inferring()))
    table = "resnet50-infer-fp32-b1"
    assert names.table_ids(cases)[:3] == [table, f"{table}-latency_p50", f"{table}-latency_p99"]
    assert names.figure_ids(cases)[-1] == "resnet50-infer-fp32-batches"
    assert f"{table}-latency_p90" in names.of_other_metrics(cases)
    (one,) = [plan.expand(plan.load(inferring(batches=[4])))]
    assert not names.over_batches(one)


def test_what_is_folded_and_what_is_not_never_stand_in_one_table(tmp_path):
    asked = inferring(frameworks=["pytorch", "jax"], resnet50_fold=[False, True], batches=[1, 8])
    results = write_round(tmp_path, asked)
    analyse(results)
    rows = read_table(results / "cells.tsv")
    table = "resnet50-infer-fp32-b1-fold"
    assert {row["table"] for row in rows} == {
        f"resnet50-infer-fp32-b{batch}-fold{fold}" for batch in (1, 8) for fold in (0, 1)
    }
    said = [tables.lines(tables.select(rows, f"{table}{fold}")) for fold in (0, 1)]
    assert "batch-norm left to the framework" in said[0]
    assert "batch-norm folded" in said[1]
    own, kind = figures.select(rows, "resnet50-infer-fp32-fold1-batches")
    assert {row["fold"] for row in own} == {1}
    assert "batch-norm folded" in captions.caption(own, kind)
    listed = read_table(results / "certificates.tsv")
    assert {row["variant"] for row in listed} == {"infer", "fold1-infer"}


def test_what_a_figure_is_of_fits_into_its_width(tmp_path):
    """The longest such facts, in two lines: a server's, at another size, folded."""
    asked = inferring(frameworks=["pytorch"], resnet50_fold=[True], batches=[1], measured=100)
    asked["workloads"]["resnet50"]["infer"] = {"arrival_rate": [100]}
    results = write_round(tmp_path, asked)
    analyse(results)
    rows = [row for row in read_table(results / "cells.tsv") if row["scenario"] == "server"]
    made, *_ = drawing.canvas(rows, "utilisation", 1.0, [])
    first, second = made.texts[1:3]
    assert "requests/s" in first.get_text() and second.get_text().endswith("pinned to 1 core")
    assert max(line.get_window_extent().x1 for line in (first, second)) < made.bbox.x1


def test_a_training_says_nothing_of_folding(tmp_path):
    results = write_round(tmp_path, config(frameworks=["pytorch"], topologies=["1n1d"]))
    analyse(results)
    (own, *_) = metrics.select(read_table(results / "cells.tsv"))
    assert not [text for text in labels.sizes(own) if "batch-norm" in text]


def test_a_report_has_no_table_without_a_value(tmp_path):
    results = write_round(tmp_path, inferring(measured=100, batches=[1]))
    analyse(results)
    rows = read_table(results / "cells.tsv")
    table = "resnet50-infer-fp32-b1"
    assert [name for name, _ in metrics.shown(rows)] == [table, f"{table}-latency_p50"]
    (missing, *_) = metrics.select(rows, "latency_p99")
    assert (missing["status"], missing["reason"]) == (
        "missing",
        "a p99 takes 368 batches in a repetition",
    )


def test_the_figure_over_batch_sizes_has_both_and_says_so_in_words(rows):
    name = "resnet50-infer-fp32-batches"
    own, kind = figures.select(rows, name)
    assert {row["metric"] for row in own} == {"throughput", "latency_p50"}
    svg = figures.draw(own, kind, name)["svg"].decode()
    assert "Latency, p50" in svg and "Throughput" in svg and "batch size" in svg
    assert "ms at batch 8" in captions.describe(own, kind)
    assert captions.caption(own, kind).startswith("ResNet-50 v1.5 inference, fp32")


def test_the_distribution_of_latencies_is_a_figure_of_all_answers(tmp_path):
    """Of 2 x 400 answers, p50 and p99 are marked where the cells have them."""
    results = write_round(tmp_path, inferring(batches=[1], repetitions=2))
    analyse(results)
    name = "resnet50-infer-fp32-b1-ecdf"
    assert name in names.figure_ids(plan.expand(plan.load(results / "config.yaml")))
    own, kind = figures.select(read_table(results / "cells.tsv"), name)
    assert {row["metric"] for row in own} == {"latency_p50", "latency_p99"}
    times = distributions.latencies(results / names.LATENCIES, own)
    assert [len(values) for values in times.values()] == [800] * 3
    p50 = next(row["median"] for row in own if row["framework"] == "pytorch")
    pytorch = times[distributions.place_of(own[0])]
    assert pytorch[399] == pytest.approx(p50, rel=0.01)
    svg = figures.draw(own, kind, name, times)["svg"].decode()
    assert "answers that took no longer" in svg and "Marks: p50 and p99" in svg
    assert "p99 " in captions.describe(own, kind)
    assert "share of answers that took no longer" in captions.caption(own, kind)


def test_steps_of_a_distribution_keep_its_first_value_and_its_tail():
    values = list(map(float, range(1, 10_001)))
    times, shares = distributions._steps(values)
    assert (times[0], shares[0]) == (1, 0) and (times[-1], shares[-1]) == (10_000, 100)
    assert len(times) < 230
    assert all(value in times for value in values[-20:])
    assert all(share == value / 100 for value, share in zip(times[1:], shares[1:], strict=True))


def test_a_round_that_infers_is_audited_with_its_latencies(tmp_path, capsys):
    results = write_round(tmp_path, inferring(batches=[1], measured=40, repetitions=2))
    everything(results)
    asked = ["audit", "--round", str(results), "--out", str(tmp_path / "audit.tsv")]
    assert main(asked) == 0
    assert 'id="resnet50-infer-fp32-b1-ecdf"' in (results / "report.html").read_text()
    path = results / names.LATENCIES
    rows = read_table(path)
    rows[0]["milliseconds"] = "1 " + rows[0]["milliseconds"]
    write_table(path, columns.LATENCIES, rows)
    assert main(asked) == 1
    assert "latencies.tsv.gz" in capsys.readouterr().out


def test_a_round_without_inference_has_no_file_of_latencies():
    assert not names.have_latencies(plan.expand(plan.load(config())))


def test_a_table_counts_batches_not_steps(rows):
    made = tables.build("x", metrics.select(rows)[:3])
    assert any("400 batches after 20 of warm-up" in line for line in made.lines)


@pytest.mark.parametrize("outputs", [[0.3102, 42.0], [0.31, 42.1]], ids=["elsewhere", "longer"])
def test_answers_that_are_not_those_of_the_others_are_suspect(tmp_path, outputs):
    def changed(record):
        if record["identity"]["framework"] == "mxnet":
            for rank in record["latency"]["ranks"]:
                rank["outputs"] = outputs

    rows = analyse(write_round(tmp_path, inferring(batches=[8]), change=changed))
    flagged = {row["framework"]: row["flags"] for row in rows}
    assert flagged == {"pytorch": "", "mxnet": "suspect:outputs", "tensorflow": ""}


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda record: record.pop("latency"), "latency is missing"),
        (lambda record: record["latency"]["ranks"][0]["seconds"].pop(), "has 399 values, not 400"),
        (lambda record: record["latency"]["ranks"].pop(), "latency.ranks: [] "),
        (lambda record: record["steps"].update(loss=[1.0] * 400), "steps.loss has 400 values"),
        (
            lambda record: record["latency"]["ranks"][0].update(seconds=[9.0] * 400),
            "is longer than all of it (seconds_total)",
        ),
    ],
    ids=["none", "one less", "no rank", "losses", "too long"],
)
def test_a_record_that_cannot_be_is_refused(tmp_path, capsys, change, said):
    mapping = inferring(frameworks=["pytorch"], batches=[8])
    results = write_round(tmp_path, mapping, change=change)
    assert main(merging(results)) == 1
    assert said in capsys.readouterr().err


def test_the_certificate_of_an_inference_is_one_for_any_number_of_devices(tmp_path):
    mapping = inferring(frameworks=["pytorch"], batches=[8]) | {"topologies": ["1n1d", "1n2d"]}
    results = write_round(tmp_path, mapping)
    rows = analyse(results)
    assert {row["certificate"] for row in rows} == {"passed"}
    listed = read_table(results / "certificates.tsv")
    assert {(row["variant"], row["layout"]) for row in listed} == {("infer", "1")}
    json.loads((results.parent / listed[0]["certificate"]).read_text())
