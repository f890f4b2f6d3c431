"""One global batch, beside one batch per device: names, speed-ups, ranks, titles."""

import pytest
from analysed_round import analyse, write_table
from analysis_steps import everything
from generated_round import config, write_round

from dlperf import plan
from dlperf.analysis import frames
from dlperf.analysis.report import tables
from dlperf.analysis.round import metrics, names
from dlperf.analysis.schema.files import read_table
from dlperf.analysis.statistics.medians import median, ratio_interval

EACH, TOTAL = "resnet50-train-fp32-b16", "resnet50-train-fp32-total16"


def asking(topologies=("1n1d", "1n2d"), total=(16,), each=(16,), **changes):
    return config(
        frameworks=["pytorch", "mxnet"],
        topologies=list(topologies),
        repetitions=5,
        resnet50_batch_sizes={"fp32": list(each)},
        resnet50_global_batch_sizes={"fp32": list(total)} if total else None,
        **changes,
    )


def cases(*args, **named):
    return plan.expand(plan.load(asking(*args, **named)))


def of_total(results):
    return tables.select(read_table(results / "cells.tsv"), TOTAL)


def test_a_batch_of_all_devices_has_a_table_and_two_figures_of_its_own():
    assert names.table_ids(cases()) == [EACH, "resnet50-train-fp32-b8", TOTAL]
    drawn = [name for name in names.figure_ids(cases()) if name.startswith(TOTAL)]
    assert drawn == [f"{TOTAL}-throughput", f"{TOTAL}-scaling"]
    assert f"{TOTAL}-step_time" in names.of_other_metrics(cases())


@pytest.mark.parametrize("asked", [{"total": ()}, {"topologies": ["1n2d"]}])
def test_without_one_or_on_one_topology_there_is_no_such_table(asked):
    """Equal by chance (16 on one device, 8 on each of two) is not asked for."""
    assert not names.of_totals(cases(each=(8, 16), **asked))


def test_devices_that_hold_no_replica_have_no_such_table():
    """Their batch of all devices is 0: a table of it would have no cells."""
    asked = cases(resnet50_layouts=[{"tensor_parallel": 4}], topologies=["1n1d", "1n2d", "1n4d"])
    assert {case.global_batch_size for case in asked if case.together} == {0, 16}
    assert all(case.unsupported for case in asked) and not names.of_totals(asked)


def test_where_a_size_is_searched_nothing_is_over_one_device(tmp_path):
    """On other devices another size may be the largest: other work."""
    section = {"precisions": ["fp32"], "data": ["synthetic"], "vocabulary": "max"}
    section |= {"batch_sizes": {"fp32": [512]}, "global_batch_sizes": {"fp32": [512]}}
    mapping = config(
        frameworks=["pytorch"], workloads={"wide_deep": section}, memory_limit="4 GB", repetitions=5
    )
    results = write_round(tmp_path, mapping)
    analyse(results)
    table = "wide_deep-train-fp32-total512-vocmax"
    found = tables.select(read_table(results / "cells.tsv"), table)
    assert [row["batch_size"] for row in found] == [512, 256]
    assert {row["ratio"] for row in found} == {None}
    of_table = [
        name for name in names.figure_ids(plan.expand(plan.load(mapping))) if name.startswith(table)
    ]
    assert of_table == [f"{table}-throughput"]


def test_each_batch_of_all_devices_has_its_own():
    assert list(names.of_totals(cases(total=(16, 32)))) == [TOTAL, "resnet50-train-fp32-total32"]


def test_speed_ups_are_over_the_same_batch_on_one_device(tmp_path):
    results = write_round(tmp_path, asking())
    analyse(results)
    values = {}
    for row in read_table(results / "measurements.tsv.gz"):
        key = row["framework"], row["devices_per_node"], row["batch_size"]
        values.setdefault(key, []).append(row["throughput"])
    found = of_total(results)
    places = [(row["devices_per_node"], row["batch_size"]) for row in found]
    assert sorted(places) == [(1, 16), (1, 16), (2, 8), (2, 8)]
    for row in found:
        alone, own = (
            values[row["framework"], *place]
            for place in ((1, 16), (row["devices_per_node"], row["batch_size"]))
        )
        assert row["ratio"] == pytest.approx(median(own) / median(alone))
        assert row["efficiency"] == pytest.approx(row["ratio"] / row["devices_per_node"])
        if row["devices_per_node"] > 1:
            interval = ratio_interval(own, alone)
            assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(interval[:2])
        assert row["rank"] is not None
    # the table of batch 16 per device has its own speed-up, of another case on two devices
    each = tables.select(read_table(results / "cells.tsv"), EACH)
    assert {(row["devices_per_node"], row["batch_size"]) for row in each} == {(1, 16), (2, 16)}
    ratios = [{row["ratio"] for row in own if row["devices_per_node"] > 1} for own in (each, found)]
    assert not ratios[0] & ratios[1]


def test_a_reader_sees_which_table_is_which(tmp_path):
    results = write_round(tmp_path, asking())
    everything(results)
    each, total = (write_table(results, name)["md"] for name in (EACH, TOTAL))
    assert "fp32, batch 16 per device" in each and "together" not in each
    assert "fp32, batch 16 of all devices together" in total and "a device\n" not in total
    assert [
        line.split("|")[1].strip() for line in total.splitlines() if line.startswith("| 1n")
    ] == [
        "1n1d, b16",
        "1n2d, b8",
    ]
    svg = (results / f"figures/{TOTAL}-scaling.svg").read_text()
    assert "batch 16 of all devices together" in svg and "1n2d, b8" in svg
    svg = (results / f"figures/{TOTAL}-throughput.svg").read_text()
    assert "1 node × 2 devices, batch 8 per device" in svg
    assert f"{TOTAL}-scaling" in (results / "report.html").read_text()


def test_what_failed_on_one_device_leaves_no_speed_up(tmp_path):
    def fate(case, repetition):
        lost = (case.framework, case.devices) == ("mxnet", 1)
        return ("oom", "no memory left") if lost else ("ok", "")

    results = write_round(tmp_path, asking(), fate=fate)
    analyse(results)
    found = {(row["framework"], row["devices_per_node"]): row for row in of_total(results)}
    assert found["mxnet", 1]["status"] == "oom"
    assert found["mxnet", 2]["ratio"] is None and found["mxnet", 2]["median"]
    assert "out of memory: no memory left" in write_table(results, TOTAL)["md"]


def test_derived_rows_stand_in_the_cells_and_count_as_no_measurement(tmp_path):
    results = write_round(tmp_path, asking())
    analyse(results)
    rows = read_table(results / "cells.tsv")
    derived = [row for row in rows if metrics.is_derived(row)]
    assert {row["table"] for row in derived} == {TOTAL}
    assert rows[-len(derived) :] == derived
    assert metrics.measured(rows) == rows[: -len(derived)]
    assert len(frames.cells(results)) == len(rows) - len(derived)
