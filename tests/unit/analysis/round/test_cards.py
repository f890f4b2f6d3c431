"""What a record says of its GPUs in the window: clocks, the power cap, ranks far from them."""

import jsonschema
import pytest
from analysed_round import SMALL, analyse, cell
from generated_round import write_round

from dlperf.analysis.round import cards, merge
from dlperf.analysis.schema import documents
from dlperf.analysis.schema.files import read_table


def reading(moment, utc, **said):
    return {"moment": moment, "utc": utc, **said}


CARD = [
    reading("window", 100.0, sm_clock_mhz=345, power_violation_seconds=7.0),
    reading("within", 100.4, sm_clock_mhz=1700, power_violation_seconds=7.2),
    reading("within", 102.0, sm_clock_mhz=1600, power_violation_seconds=8.5),
    reading("end", 104.0, sm_clock_mhz=1980, power_violation_seconds=10.0),
]


def record(*loads, **host):
    return {"host": {"gpu_load": list(loads), **host}}


def test_clocks_are_those_under_load_and_not_at_rest():
    assert cards.clock_mhz_within(record(CARD)) == 1650.0


def test_the_power_caps_counter_is_a_share_of_the_window():
    assert cards.power_capped_share(record(CARD)) == 0.75


def test_the_worst_card_of_all_nodes_counts():
    cool = [{**each, "power_violation_seconds": 7.0} for each in CARD]
    nodes = {"host": {"nodes": [{"gpu_load": [cool]}, {"gpu_load": [cool, CARD]}]}}
    assert cards.power_capped_share(nodes) == 0.75
    assert cards.power_capped_share(record(cool)) == 0.0


@pytest.mark.parametrize(
    "load",
    [
        [],
        [CARD[0]],
        CARD[:3],  # the window did not end
        [{"moment": "window", "utc": 1.0}, {"moment": "end", "utc": 3.0}],  # no counter
        [{**CARD[0], "power_violation_seconds": None}, CARD[3]],
        [CARD[0], {**CARD[3], "utc": 100.0}],  # no time between
    ],
)
def test_what_was_not_read_is_not_known(load):
    assert cards.power_capped_share(record(load)) is None
    assert cards.power_capped_share({"host": {}}) is None
    assert cards.clock_mhz_within({"host": {}}) is None


def test_a_counter_that_runs_ahead_of_the_clock_is_the_whole_window():
    load = [CARD[0], {**CARD[3], "power_violation_seconds": 12.0}]
    assert cards.power_capped_share(record(load)) == 1.0


FAR = [{"rank": 0, "by": "nvml", "beside": False}]


@pytest.mark.parametrize(
    ("placement", "flag"),
    [
        (FAR, "suspect:placement"),
        ([{"rank": 0, "by": "sysfs", "beside": True}], ""),
        ([{"rank": 0, "by": "", "beside": None}], ""),
        ([], ""),
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_rank_far_from_its_card_makes_a_cell_suspect(tmp_path, placement, flag, nodes):
    def change(record):
        if record["identity"]["framework"] == "mxnet":
            found = {**record["host"], "placement": placement, "gpu_load": [CARD]}
            record["host"] = found if nodes == 1 else {**record["host"], "nodes": [found]}

    results = write_round(tmp_path, SMALL, change=change)
    rows = analyse(results)
    assert cell(rows, "mxnet", 1)["flags"] == flag
    assert cell(rows, "pytorch", 1)["flags"] == ""
    measured = read_table(results / "measurements.tsv.gz")
    own = [row for row in measured if row["framework"] == "mxnet"]
    said = "rank 0: cores on another side than its card (nvml)"
    assert {row["placement"] for row in own} == {said if flag else ""}
    assert {row["gpu_power_capped_share"] for row in own} == {0.75}
    assert {row["gpu_clock_mhz_within"] for row in own} == {1650.0}


@pytest.mark.parametrize(
    "host",
    [
        {"gpu_load": [[reading("never", 1.0)]]},
        {"gpu_load": [[{"moment": "window"}]]},
        {"placement": [{"rank": 0, "by": "nvml"}]},
        {"exchange": {"library": "MPI", "version": None, "transports": {}, "networks": []}},
    ],
)
@pytest.mark.parametrize("schema", [documents.RECORD, documents.NODE], ids=lambda path: path.name)
def test_schemas_refuse_what_they_do_not_know(host, schema):
    whole = documents.load(schema)
    part = {"$defs": whole["$defs"], "$ref": "#/$defs/host"}
    jsonschema.validate({"gpu_load": [CARD], "placement": FAR}, part)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(host, part)


@pytest.mark.parametrize(
    ("device", "clock", "known"),
    [("cuda", "host", False), ("cuda", "device", True), ("cpu", "host", True)],
)
def test_steps_by_the_hosts_clock_on_a_gpu_have_no_spread(device, clock, known):
    """They are the times to queue them; the window alone says how long they take."""
    steps = {"clock": clock, "seconds": [0.1, 0.3, 0.2]}
    found = merge._steps({"steps": steps, "settings": {"device": device}})
    values = {"median": 0.2, "min": 0.1, "max": 0.3}
    assert found == {f"step_seconds_{name}": value for name, value in values.items() if known}
