"""What makes a cell suspect: hosts, clocks, losses, weights and windows that disagree."""

import dataclasses

import pandas
import pytest
from analysed_round import SMALL, analyse, cell
from generated_round import config, shift, stretch, write_round

from dlperf.analysis.report import captions
from dlperf.analysis.round import disturbances, names
from dlperf.analysis.schema.files import read_table
from dlperf.contract.layout import Layout


def test_repetitions_of_different_code_or_environment_are_flagged(tmp_path):
    def change(record):
        if record["identity"]["repetition"] == 2:
            record["provenance"]["git_commit"] = "0" * 40
            record["provenance"]["lock_sha256"] = "0" * 64

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    flags = "mixed-code mixed-environment certificate-stale check-stale"
    assert {row["flags"] for row in rows} == {flags}


def test_a_busy_host_makes_a_cell_suspect(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            record["host"]["idle_share_before"] = 0.4
        else:
            record["host"]["foreign_cpu_share"] = 0.3

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    assert cell(rows, "mxnet", 1)["flags"] == "suspect:busy-host-before"
    assert cell(rows, "pytorch", 1)["flags"] == "suspect:foreign-load"


def test_a_cell_whose_steps_waited_for_data_is_suspect(tmp_path):
    def change(record):
        start = min(rank["start"] for rank in record["window"])
        seconds = max(rank["end"] for rank in record["window"]) - start
        own = {"mxnet": 0.03, "pytorch": 0.01}[record["identity"]["framework"]]
        record["steps"]["loader_seconds"] = own * seconds

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    assert cell(rows, "mxnet", 1)["flags"] == "suspect:loader"
    assert cell(rows, "mxnet", 1)["loader_share"] == pytest.approx(0.03)
    assert cell(rows, "pytorch", 1)["flags"] == ""


@pytest.mark.parametrize(
    ("alone", "together", "flag"),
    [
        ("captured: 2, skipped: 0", "none", "unlike-baseline:cuda-graphs"),
        ("captured: 2, skipped: 0", "captured: 2, skipped: 0", ""),
        ("captured: 0, skipped: 4", "none", ""),
        ("none", "captured: 1, skipped: 0", ""),
        (None, None, ""),
    ],
)
def test_efficiency_over_a_baseline_with_cuda_graphs_is_marked(tmp_path, alone, together, flag):
    """What the graphs saved on one device would be charged to the exchange between several."""

    def change(record):
        if record["identity"]["framework"] == "pytorch":
            several = record["identity"]["devices_per_node"] == 2
            record["parity"]["cuda_graphs"] = together if several else alone

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    assert cell(rows, "pytorch", 2)["flags"] == flag
    assert cell(rows, "pytorch", 2)["efficiency"] < 1
    others = [row for row in rows if row["framework"] == "mxnet" or row["devices_per_node"] == 1]
    assert {row["flags"] for row in others} == {""}
    assert ("PyTorch: its speed-up" in captions.caption(rows, names.SCALING)) == bool(flag)


def test_scaling_above_100_percent_plus_noise_makes_a_cell_suspect(tmp_path):
    def change(record):
        if record["identity"]["devices_per_node"] == 2:
            stretch(record, 0.9)

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    for row in rows:
        suspect = row["devices_per_node"] == 2
        assert row["flags"] == ("suspect:scaling-above-100%" if suspect else "")


def test_repetitions_that_share_a_host_at_the_same_time_are_found(tmp_path):
    def change(record):
        identity = record["identity"]
        if (identity["framework"], identity["devices_per_node"]) == ("mxnet", 1):
            shift(record, -30, 0)  # into the run before

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    assert "suspect:overlapping-repetitions" in cell(rows, "mxnet", 1)["flags"]
    clean = analyse(write_round(tmp_path / "clean", SMALL))
    assert not any(row["flags"] for row in clean)


THROTTLED = {
    "reasons": {"gpus_after": [{"throttle_reasons": 0x40}]},
    "counter": {
        "gpus_before": [{"thermal_violation_seconds": 7.0}],
        "gpus_after": [{"thermal_violation_seconds": 8.5}],
    },
    "clock": {"clock_mhz_before": 3500.0, "clock_mhz_after": 2900.0},
}


COOL = {
    "idle, capped": {"gpus_after": [{"throttle_reasons": 0x1 | 0x4}]},
    "counter at rest": {
        "gpus_before": [{"thermal_violation_seconds": 7.0}],
        "gpus_after": [{"thermal_violation_seconds": 7.0}],
    },
    "clock that rose": {"clock_mhz_before": 800.0, "clock_mhz_after": 3500.0},
    "nothing known": {"gpus_before": [{}], "gpus_after": [{}], "clock_mhz_before": None},
}


@pytest.mark.parametrize("sign", [*THROTTLED, *COOL])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_processor_that_was_slowed_down_makes_a_cell_suspect(tmp_path, sign, nodes):
    def change(record):
        if record["identity"]["framework"] == "mxnet" and record["identity"]["repetition"] == 2:
            found = {**record["host"], **{**THROTTLED, **COOL}[sign]}
            record["host"] = found if nodes == 1 else {**record["host"], "nodes": [found]}

    results = write_round(tmp_path, SMALL, change=change)
    rows = analyse(results)
    expected = "suspect:throttled" if sign in THROTTLED else ""
    assert cell(rows, "mxnet", 1)["flags"] == expected
    assert cell(rows, "pytorch", 1)["flags"] == ""
    said = {row["throttled"] for row in read_table(results / "measurements.tsv.gz")}
    assert len(said) == (2 if expected else 1)


def test_a_cell_that_a_drifting_host_moved_is_suspect(tmp_path):
    def change(record):
        identity, window = record["identity"], record["window"]
        if (identity["framework"], identity["devices_per_node"]) == ("mxnet", 2):
            for rank in window:  # measured the evening after, when the host was slower
                rank["start_utc"] += 10 * 3600
                rank["end_utc"] += 10 * 3600
            shift(record, 10 * 3600, 10 * 3600)
        hours = (window[0]["start_utc"] - 1795237200) / 3600  # since the round began
        stretch(record, 1 + 0.02 * hours)

    mapping = config(repetitions=6, topologies=["1n1d", "1n2d"])
    rows = analyse(write_round(tmp_path, mapping, change=change, noise=0.001))
    assert {(row["framework"], row["devices_per_node"]) for row in rows if row["flags"]} == {
        ("mxnet", 2)
    }
    assert cell(rows, "mxnet", 2)["flags"] == "suspect:drift"


@pytest.mark.parametrize(
    "frameworks, change, suspect",
    [
        (3, lambda losses: losses, False),
        (3, lambda losses: [loss + 0.001 for loss in losses], False),  # rounding
        (3, lambda losses: [loss + 0.1 for loss in losses], True),  # another loss
        (3, lambda losses: [*losses[:-1], losses[-1] * 1.02], False),  # rounding that has grown
        (3, lambda losses: [losses[0] * 1.02, *losses[1:]], True),  # which it has not at first
        (3, lambda losses: [*losses[:-1], losses[-1] * 1.2], True),
        (2, lambda losses: [loss + 0.1 for loss in losses], False),  # which of two is wrong?
        (2, lambda losses: losses[:1] * len(losses), True),  # the same number again
    ],
)
def test_a_cell_whose_losses_are_not_those_of_the_others_is_suspect(
    tmp_path, frameworks, change, suspect
):
    def changed(record):
        if record["identity"]["framework"] == "mxnet":
            record["steps"]["loss"] = change(record["steps"]["loss"])

    names = ["pytorch", "mxnet", "tensorflow"][:frameworks]
    rows = analyse(write_round(tmp_path, config(frameworks=names), change=changed))
    assert {row["flags"] for row in rows if row["framework"] != "mxnet"} == {""}
    found = [row["flags"].split() for row in rows if row["framework"] == "mxnet"]
    assert all(("suspect:losses" in own) == suspect for own in found)


@pytest.mark.parametrize("searched, expected", [("", {2}), ("batch_size", set())])
def test_work_of_sizes_that_were_searched_is_not_held_to_that_of_the_others(searched, expected):
    columns = {
        "number": [0, 1, 2],
        "repetition": [1, 1, 1],
        "losses": [7.0, 7.0, 9.0],
        "table": ["t"] * 3,
        "workload": ["resnet50"] * 3,
        "precision": ["fp32"] * 3,
        "searched": [searched] * 3,
    }
    measured = pandas.DataFrame(columns).assign(
        nodes=1,
        devices_per_node=1,
        **dataclasses.asdict(Layout()),
        measured_steps=4,
        loss_first=lambda all: all["losses"],
        loss_last=lambda all: all["losses"] - 1,
    )
    assert disturbances.strange_losses(disturbances.placed(measured)) == expected


@pytest.mark.parametrize(
    "frameworks, changes, suspect",
    [
        (3, {"change": lambda change: change * 1.002}, False),  # rounding
        (3, {"change": lambda change: change / 2}, True),  # half of the steps
        (3, {"unchanged": lambda count: count + 1}, True),  # a layer that is not trained
        (2, {"change": lambda change: change / 2}, False),  # which of two is wrong?
    ],
)
def test_a_cell_that_trained_less_than_the_others_is_suspect(
    tmp_path, frameworks, changes, suspect
):
    def change(record):  # in one repetition of three
        identity = record["identity"]
        if (identity["framework"], identity["repetition"]) == ("mxnet", 2):
            for rank in record["weights"]:
                rank.update({key: of(rank[key]) for key, of in changes.items()})

    names = ["pytorch", "mxnet", "tensorflow"][:frameworks]
    assert suspects(tmp_path, change, frameworks=names) == ({"mxnet"} if suspect else set())


def test_ranks_that_end_with_different_weights_are_suspect(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            for rank in record["weights"]:
                rank["sha256"] = f"{rank['rank']:064x}"

    rows = analyse(write_round(tmp_path, SMALL, change=change))
    assert cell(rows, "mxnet", 2)["flags"] == "suspect:weights"
    assert cell(rows, "mxnet", 1)["flags"] == cell(rows, "pytorch", 2)["flags"] == ""


def test_batches_of_a_frameworks_own_move_weights_by_another_share(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            for rank in record["weights"]:
                rank["change"] *= 1.3

    names = ["pytorch", "mxnet", "tensorflow"]
    for data, expected in (("sample", {"mxnet"}), ("sample_native", set())):
        found = suspects(tmp_path / data, change, frameworks=names, resnet50_data=[data])
        assert found == expected


@pytest.mark.parametrize("tables", ["replicated", "sharded"])
def test_ranks_that_divide_tables_end_with_weights_of_their_own(tmp_path, tables):
    def change(record):
        for rank in record["weights"]:
            rank["sha256"] = f"{rank['rank']:064x}"

    section = {"precisions": ["fp32"], "data": ["synthetic"], "batch_sizes": {"fp32": [512]}}
    section |= {"vocabulary": 260_000, "tables": [tables]}
    mapping = config(frameworks=["pytorch"], topologies=["1n2d"], workloads={"wide_deep": section})
    row = cell(analyse(write_round(tmp_path, mapping, change=change)), "pytorch", 2)
    assert ("suspect:weights" in row["flags"]) == (tables == "replicated")


@pytest.mark.parametrize(("share", "expected"), [(1.1, set()), (1.3, {"mxnet"})])
def test_rounding_that_grows_moves_weights_by_another_share(tmp_path, share, expected):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            for rank in record["weights"]:
                rank["change"] *= share

    names = ["pytorch", "mxnet", "tensorflow"]
    assert suspects(tmp_path, change, frameworks=names) == expected


@pytest.mark.parametrize(("measured", "expected"), [(10, {2}), (50, set())])
def test_in_a_long_run_weights_move_by_another_share(measured, expected):
    """In a workload where rounding does not grow."""
    columns = {"number": [0, 1, 2], "weights_change": [0.01, 0.01, 0.0108]}
    measured_ones = pandas.DataFrame(columns).assign(
        **{"repetition": 1, "table": "t", "workload": "wide_deep", "precision": "fp32"},
        **{"searched": "", "data": "sample", "nodes": 1, "devices_per_node": 1},
        **{"warmup_steps": 2, "measured_steps": measured, "timed_steps": measured},
        **{"weights_unchanged": 0, "weights_distinct": 1},
        **dataclasses.asdict(Layout()),
    )
    rows = disturbances.placed(measured_ones)
    assert disturbances.strange_weights(rows) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([0.112], set()),  # in one repetition, as random numbers were drawn
        ([0.126], {2}),
        ([0.112, 0.112], set()),
        ([0.112, 0.112, 0.112], {2}),
        ([0.112, 0.09, 0.1], set()),
    ],
)
def test_in_a_long_run_that_draws_the_middle_of_several_repetitions_tells_more(changes, expected):
    rows = pandas.DataFrame(
        [
            {"number": number, "repetition": repetition, "weights_change": moved}
            for repetition, change in enumerate(changes, 1)
            for number, moved in enumerate((0.1, 0.1, change))
        ]
    ).assign(
        **{"table": "t", "workload": "electra", "precision": "fp32"},
        **{"searched": "", "data": "sample", "nodes": 1, "devices_per_node": 1},
        **{"warmup_steps": 2, "measured_steps": 64, "timed_steps": 64},
        **{"weights_unchanged": 0, "weights_distinct": 1},
        **dataclasses.asdict(Layout()),
    )
    assert disturbances.strange_weights(disturbances.placed(rows)) == expected


def test_how_far_weights_went_is_not_compared_in_windows_of_their_own_number_of_steps():
    def suspect(timed, unchanged=(0, 0, 0)):
        columns = {"number": [0, 1, 2], "weights_change": [0.01, 0.01, 0.05]}
        rows = pandas.DataFrame({**columns, "weights_unchanged": unchanged}).assign(
            **{"repetition": 1, "table": "t", "workload": "wide_deep", "precision": "fp32"},
            **{"searched": "", "data": "sample", "nodes": 1, "devices_per_node": 1},
            **{"warmup_steps": 2, "measured_steps": 10, "timed_steps": timed},
            **{"weights_distinct": 1, **dataclasses.asdict(Layout())},
        )
        return disturbances.strange_weights(disturbances.placed(rows))

    assert suspect([10, 10, 10]) == {2}
    assert suspect([10, 10, 50]) == suspect([30, 40, 50]) == set()
    assert suspect([30, 40, 50], unchanged=(0, 0, 1)) == {2}, "but what did not move is"


@pytest.mark.parametrize(
    ("trials", "timed", "expected"),
    [
        ([1.0, 1.0, 1.0], 100, set()),  # of 10 steps, beside 10 s of 100
        ([1.05, 1.09, 1.3], 100, set()),  # one trial that was disturbed
        ([1.2, 1.11, 1.0], 100, {7}),
        ([0.5, 0.5, 0.5], 100, set()),  # a card that grew hot
        ([1.5, 1.5, 1.5], 10, set()),  # a window that a spot run has whole
    ],
)
def test_a_window_that_is_faster_than_its_trial_is_suspect(trials, timed, expected):
    """Work that is left out behind as many steps as a spot run has."""
    rows = pandas.DataFrame({"trial_seconds": trials}).assign(
        **{"number": 7, "measured_steps": 10, "timed_steps": timed, "window_seconds": timed / 10}
    )
    assert disturbances.hurried(rows) == expected


def suspects(tmp_path, change, **round_):
    """The frameworks of a made-up round whose weights are suspect; nothing else is."""
    rows = analyse(write_round(tmp_path, config(**round_), change=change))
    raised = {flag for row in rows for flag in row["flags"].split()}
    assert raised <= {"suspect:weights", "suspect-baseline:speed-up"}
    return {row["framework"] for row in rows if row["flags"]}
