"""A process that drives all devices of its node: how it is started, what its record counts."""

import functools
import io
import json
import math
import os
import sys

import fake_nvml
import pytest
from conftest import ROOT
from fake_nvml import hopper

from dlperf import plan
from dlperf.analysis.round.records import parse
from dlperf.measure import host, node, stopwatch

CONFIG = {
    "round": "clicks",
    "device": "cuda",
    "frameworks": ["hugectr", "pytorch"],
    "workloads": {
        "wide_deep": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [16]},
            "data": ["synthetic"],
            "vocabulary": 2600,
            "tables": ["sharded"],
        }
    },
    "topologies": ["1n2d"],
    "repetitions": 1,
    "steps": {"warmup": 1, "measured": 3},
    "timeout_seconds": 60,
    "minimum_seconds": 0,
}


@pytest.fixture
def cards(monkeypatch):
    found = [hopper(0), hopper(1)]
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.pynvml(found))
    return found


def cases(**changes):
    config = plan.load({**CONFIG, **changes})
    found = {case.framework: case for case in plan.expand(config)}
    return config, found


def measured(monkeypatch, document):
    """The record of a case whose ranks are stand-ins."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support"))
    monkeypatch.setattr(
        stopwatch, "Attempt", functools.partial(stopwatch.Attempt, program=("rank_of_a_node",))
    )
    with open(os.devnull, "w") as log:
        return stopwatch.measure(document, log=log)


def test_hugectr_has_one_process_and_a_record_of_all_its_nodes_gpus(cards, monkeypatch):
    config, found = cases()
    case = found["hugectr"]
    assert not case.unsupported
    document = plan.document(case, config, 1)
    record = measured(monkeypatch, document)
    assert record["status"] == "ok", record["reason"]
    parity = record["parity"]
    assert (parity["visible"], parity["devices"], parity["global_batch_size"]) == ("0,1", 2, 32)
    assert parity["cores"] == len(host.cores())
    assert [len(record[key]) for key in ("window", "memory", "energy", "weights")] == [1] * 4
    assert record["samples"] == 2 * 16 * 3
    _, problems = parse(json.dumps(record).encode(), document, case)
    assert problems == []
    assert case.identity("clicks", 1) == record["identity"]


def test_a_window_lasts_long_enough_and_its_record_says_how_many_steps_it_had(cards, monkeypatch):
    """The stand-in's steps take 0.05 s, so that 0.4 s take 8 of them, or a few less on a busy
    machine, where the trial is slower; a longer trial than the minimum asks for no more steps."""
    config, found = cases(minimum_seconds=0.4)
    case = found["hugectr"]
    document = plan.document(case, config, 1)
    assert document["settings"]["minimum_seconds"] == 0.4
    record = measured(monkeypatch, document)
    assert record["status"] == "ok", record["reason"]
    count, trial = record["steps"]["measured"], record["steps"]["trial"]
    assert trial["seconds"] >= 0.15 and trial["most"] is None
    assert count == max(3, math.ceil(0.4 * 3 / trial["seconds"])) and 3 < count <= 8
    assert record["samples"] == 2 * 16 * count and len(record["steps"]["seconds"]) == count
    assert record["drawn"]["windows"] == [[document["settings"]["seed"], count]]
    assert record["settings"] == document["settings"], "what was asked for stays as it is"
    _, problems = parse(json.dumps(record).encode(), document, case)
    assert problems == []


def test_a_number_of_steps_that_the_trial_does_not_give_is_refused(cards, monkeypatch):
    config, found = cases(minimum_seconds=0.4)
    document = plan.document(found["hugectr"], config, 1)
    record = measured(monkeypatch, document)

    def refused(**steps):
        wrong = {**record, "steps": {**record["steps"], **steps}}
        _, problems = parse(json.dumps(wrong).encode(), document, found["hugectr"])
        return problems

    count = record["steps"]["measured"]
    said = f"steps.measured is {count}, but by steps.trial it should be 3"
    assert refused(trial={"seconds": 60.0, "most": None})[0] == said
    assert refused(trial={"seconds": 0.01, "most": 2})[0] == said
    assert refused(trial={"seconds": 0, "most": None})
    del record["steps"]["trial"]
    assert "steps.trial is missing: settings.minimum_seconds is not 0" in refused()


def test_a_trial_that_nobody_asked_for_is_refused(cards, monkeypatch):
    config, found = cases()
    document = plan.document(found["hugectr"], config, 1)
    assert "minimum_seconds" not in document["settings"]
    record = measured(monkeypatch, document)
    record["steps"]["trial"] = {"seconds": 1.0, "most": None}
    _, problems = parse(json.dumps(record).encode(), document, found["hugectr"])
    assert problems == ["steps.trial is there, but settings.minimum_seconds is 0"]


def test_a_record_of_another_number_of_processes_is_refused(cards, monkeypatch):
    config, found = cases()
    document = plan.document(found["hugectr"], config, 1)
    record = measured(monkeypatch, document)
    for key, message in (
        ("memory", "memory does not have each of the 1 ranks once"),
        ("energy", "energy does not have each of the 1 devices once"),
    ):
        twice = {**record, key: record[key] * 2}
        _, problems = parse(json.dumps(twice).encode(), document, found["hugectr"])
        assert problems == [message]
    losses = {**record["steps"], "loss": [0.5] * 3}
    _, problems = parse(
        json.dumps({**record, "steps": losses}).encode(), document, found["hugectr"]
    )
    assert problems == ["steps.loss has 3 values for 3 measured steps"]


def about(number):
    return {
        "address": f"10.0.0.{number}",
        "interface": "eth0",
        "cores": list(range(8)),
        "threads": [[each] for each in range(8)],
        "gpu_cores": [[0, 1, 2, 3], [4, 5, 6, 7]],
        "ports": [1, 2, 3],
        "facts": {"memory_bytes": 64 * 10**9, "gpus": []},
    }


@pytest.mark.parametrize(
    "framework, ranks, cores",
    [("hugectr", 1, [[*range(8)]]), ("pytorch", 2, [[0, 1, 2, 3], [4, 5, 6, 7]])],
)
def test_ranks_of_two_nodes_are_numbered_by_processes(framework, ranks, cores):
    config, found = cases(topologies=["2n2d"])
    document = plan.document(found[framework], config, 1)
    placed = node.placed(document, [about(1), about(2)], sys.executable, "10.0.0.1:9")
    assert [[run["rank"] for run in each] for each in placed] == [
        list(range(ranks)),
        list(range(ranks, 2 * ranks)),
    ]
    assert [run["cores"] for run in placed[1]] == cores
    (first, *_), _ = placed
    assert (first["ranks"], first["local_ranks"], len(first["peers"])) == (
        2 * ranks,
        ranks,
        2 * ranks,
    )
    assert first.get("devices", 1) == 2 // ranks


def test_a_rank_has_the_capability_of_its_first_card(cards):
    cards[1].capability = (8, 0)
    there = node.Node("cuda", 2, log=io.StringIO())
    try:
        assert there._capability({"local_rank": 0, "devices": 2}) == "9.0"
        assert there._capability({"local_rank": 1}) == "8.0"
    finally:
        there.stop()
