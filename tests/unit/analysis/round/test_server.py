"""Rounds with an open-loop server: what a cell says of one that keeps up, and of one that does not.

Made-up PyTorch answers 14.2 requests a second, OneFlow 8.9.
"""

import json

import pytest
from analysed_round import analyse, write_table
from analysis_steps import everything, merging
from generated_round import config, seen_by_ranks, write_round

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.report import distributions, explorer
from dlperf.analysis.round import metrics, names
from dlperf.analysis.schema.files import read_table

TABLE = "resnet50-server-fp32-b1-r10"


def serving(rates=(10,), frameworks=("pytorch", "oneflow"), **more):
    return config(
        frameworks=list(frameworks),
        topologies=["1n1d"],
        repetitions=4,
        resnet50_scenarios=["infer"],
        resnet50_infer={"steps": {"warmup": 5, "measured": 400}, "arrival_rate": list(rates)},
        **more,
    )


def slower(record):
    """Each answer of the first repetition takes so long that requests pile up."""
    if record["identity"]["repetition"] == 1 and "server" in record:
        for rank, window in zip(record["server"]["ranks"], record["window"], strict=True):
            last = 0.0
            for each, due in enumerate(rank["due"]):
                rank["begun"][each] = max(due, last)
                rank["ended"][each] = last = rank["begun"][each] + 0.109
            longer = last - (window["end"] - window["start"])
            window["end"] += longer
            window["end_utc"] += longer
        seen_by_ranks(record)
        record["provenance"]["seconds_total"] += 100


def of_server(results):
    rows = read_table(results / "cells.tsv")
    return {(row["framework"], row["metric"]): row for row in rows if row["scenario"] == "server"}


def test_tables_and_figures_of_a_server_are_named_by_its_rate():
    cases = plan.expand(plan.load(serving()))
    wanted = [TABLE, f"{TABLE}-server_p50", f"{TABLE}-server_p99"]
    assert [name for name in names.table_ids(cases) if "server" in name] == wanted
    assert f"{TABLE}-ecdf" in names.figure_ids(cases)
    assert names.have_latencies(cases)


def test_a_server_that_keeps_up_has_percentiles_and_one_that_does_not_has_none(tmp_path):
    results = write_round(tmp_path, serving())
    analyse(results)
    found = of_server(results)
    pytorch, oneflow = (found[name, "utilisation"] for name in ("pytorch", "oneflow"))
    assert pytorch["median"] == pytest.approx(100 * 10 / 14.2) and pytorch["flags"] == ""
    assert oneflow["median"] == pytest.approx(100 * 10 / 8.9) and oneflow["flags"] == "saturated"
    assert found["pytorch", "server_p99"]["median"] > 1000 / 14.2
    lost = found["oneflow", "server_p99"]
    assert (lost["status"], lost["median"]) == ("missing", None)
    assert lost["reason"] == "a p99 takes 368 requests in a repetition, and a queue that empties"
    said = write_table(results, TABLE)["md"]
    assert "10 requests/s per device" in said and "they pile up" in said
    assert "400 requests after 5 of warm-up" in said


def test_repetitions_that_kept_up_are_not_picked_out(tmp_path):
    """Of four, one piled up: the median of the other three would be too good."""
    results = write_round(tmp_path, serving(frameworks=["pytorch"]), change=slower)
    analyse(results)
    lost = of_server(results)["pytorch", "server_p50"]
    assert (lost["status"], lost["median"]) == ("missing", None)
    assert lost["reason"].endswith("a queue that empties (3 of 4 repetitions have it)")


def test_the_distribution_of_a_server_has_no_curve_where_requests_pile_up(tmp_path):
    results = write_round(tmp_path, serving())
    analyse(results)
    own = metrics.distribution(read_table(results / "cells.tsv"), TABLE)
    times = distributions.latencies(results / names.LATENCIES, own)
    assert sorted(len(values) for values in times.values()) == [0, 1600]


def test_a_round_with_a_server_is_reported_and_audited(tmp_path):
    results = write_round(tmp_path, serving(rates=(5, 10)))
    everything(results)
    page = (results / "report.html").read_text()
    assert "ResNet-50 v1.5 inference server" in page and f'id="{TABLE}-ecdf"' in page
    assert main(["audit", "--round", str(results), "--out", str(tmp_path / "audit.tsv")]) == 0


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda own: own["due"].__setitem__(3, own["due"][3] - 0.001), "are not due as scheduled"),
        (lambda own: own["ended"].pop(), "has not 400 requests"),
        (lambda own: own["begun"].__setitem__(3, 0.0), "not answered one after another"),
        (lambda own: own["ended"].__setitem__(-1, 1e6), "ends after its window"),
    ],
    ids=["schedule", "one less", "too early", "too late"],
)
def test_a_record_of_requests_that_cannot_be_is_refused(tmp_path, capsys, change, said):
    def changed(record):
        if "server" in record:
            change(record["server"]["ranks"][0])

    results = write_round(tmp_path, serving(frameworks=["pytorch"]), change=changed)
    assert main(merging(results)) == 1
    assert said in capsys.readouterr().err


def test_the_explorer_compares_servers_of_one_rate(tmp_path):
    results = write_round(tmp_path, serving(rates=(5, 10), frameworks=["pytorch"]))
    analyse(results)
    rows = read_table(results / "cells.tsv")
    measured = read_table(results / "measurements.tsv.gz")
    data = json.loads(explorer.explorer(rows, measured).json)
    said = [each["data"] for each in data["cells"] if each["scenario"] == "inference server"]
    assert [each.split(", ")[1] for each in said] == [
        "5 requests/s per device",
        "10 requests/s per device",
    ]
