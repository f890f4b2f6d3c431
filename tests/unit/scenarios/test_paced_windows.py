"""A window that lasts at least `minimum_seconds`: how many steps it has, and who may ask for it."""

import json
import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import frameworks, plan, workloads
from dlperf.contract.case import Known, problems
from dlperf.contract.draws import Draw
from dlperf.measure import by_hand, host, stopwatch
from dlperf.measure.door import listener
from dlperf.measure.meeting import Guest, Meeting
from dlperf.scenarios import infer, train

KNOWN = Known(workloads.NAMES, frameworks.NAMES, workloads.dimensions, workloads.data)
ASKED = {"workload": "resnet50", "framework": "pytorch", "device": "cpu"}


@pytest.mark.parametrize(
    ("asked", "least", "seconds", "most", "expected"),
    [
        (100, 10, 1.0, None, 1000),  # a step takes 0.01 s
        (100, 10, 0.999, None, 1002),  # 1001 steps would end before
        (100, 10, 10.0, None, 100),
        (100, 10, 60.0, None, 100),
        (3, 0.5, 1.0, None, 3),
        (1, 10, 0.003, None, 3334),
        (100, 10, 1.0, 700, 700),
        (100, 10, 1.0, 7, 100),  # what is asked for is timed, whatever it takes
        (100, 10, 60.0, 7, 100),
    ],
)
def test_a_window_has_as_many_steps_as_fill_its_time_and_no_fewer_than_are_asked_for(
    asked, least, seconds, most, expected
):
    settings = {"measured_steps": asked, "minimum_seconds": least}
    assert train.timed_steps(settings, {"seconds": seconds, "most": most}) == expected


def test_an_inference_has_no_more_batches_than_whose_outputs_can_be_held():
    outputs = np.zeros((64, 128, 768), "float32")
    work = SimpleNamespace(outputs=lambda handle: outputs)
    card = SimpleNamespace(pool_bytes=14 * 10**9)
    assert infer.most_steps(card, work, 0) == 14 * 10**9 // outputs.nbytes == 556
    assert infer.most_steps(SimpleNamespace(pool_bytes=0), work, 0) == 2**30 // outputs.nbytes
    assert infer.most_steps(SimpleNamespace(pool_bytes=1000), work, 0) == 1
    assert train.most_steps(card, work, 0) is None


def test_ranks_are_told_one_number_by_the_parents_clock_however_often_they_ask():
    attempt = stopwatch.Attempt.__new__(stopwatch.Attempt)
    attempt._case = {"settings": {"measured_steps": 2, "minimum_seconds": 0.6}}
    attempt.trial = attempt.timed_steps = None
    told = {"paced": attempt._paced}
    attempt._meeting = Meeting(2, listener("127.0.0.1"), "secret", told=told)
    heard = []

    def rank(number, most):
        guest = Guest(attempt._meeting.address, number, "secret")
        guest.wait("trial")
        threading.Event().wait(0.1)
        heard.append(guest.wait("paced", most))
        heard.append(guest.wait("paced", 1))

    ranks = [threading.Thread(target=rank, args=each) for each in enumerate((None, 11))]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    attempt._meeting.close()
    assert attempt.trial["seconds"] >= 0.1 and attempt.trial["most"] == 11
    count = min(11, math.ceil(0.6 * 2 / attempt.trial["seconds"]))
    assert heard == [count] * 4 and attempt._steps() == count


def asked(**values):
    return by_hand.document({**ASKED, **values})


def test_a_repetition_and_a_spot_run_have_a_trial_and_the_spot_run_its_own_windows():
    draw = Draw("group", "0" * 32)
    for case in (asked(minimum_seconds=2), asked(minimum_seconds=2, scenario="infer")):
        for drawn in (draw, None):
            orders = stopwatch.ordered(case, drawn)
            assert orders.trial_steps == orders.windows[0].steps == 5
            assert orders.steps == 2 + 5 + 5
            assert stopwatch.told(orders)["orders"]()[2] == 5
            assert "paced" not in stopwatch.told(orders)
        spot = stopwatch.ordered(case, draw, spot=True)
        assert spot.trial_steps == 5 and stopwatch.told(spot)["paced"]() is None
    assert stopwatch.ordered(asked(), draw).trial_steps == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"minimum_seconds": -1}, "settings.minimum_seconds: -1; at least 0"),
        ({"minimum_seconds": "2"}, "settings.minimum_seconds: '2' is not a number"),
        ({"minimum_seconds": True}, "settings.minimum_seconds: True is not a number"),
        (
            {"minimum_seconds": math.inf},
            "settings.minimum_seconds: inf; a finite number is needed",
        ),
        (
            {"minimum_seconds": 2, "scenario": "server", "arrival_rate": 4},
            "settings.minimum_seconds: 2; 0 but in the scenarios train and infer",
        ),
    ],
)
def test_a_wrong_value_is_told(values, said):
    document = asked()
    for key, value in values.items():
        document["identity" if key in document["identity"] else "settings"][key] = value
    assert problems(document, KNOWN) == [said]


def test_a_document_without_it_stays_one():
    document = asked()
    del document["settings"]["minimum_seconds"]
    assert problems(document, KNOWN) == []


def test_by_hand_it_is_ten_seconds_on_a_gpu(monkeypatch):
    monkeypatch.setattr(host, "visible_gpus", lambda: ["0"])
    on_a_card = {**ASKED, "device": "cuda"}
    assert by_hand.document(on_a_card)["settings"]["minimum_seconds"] == 10
    served = {**on_a_card, "scenario": "server", "arrival_rate": 4, "batch_size": 1}
    assert by_hand.document(served)["settings"]["minimum_seconds"] == 0
    assert asked()["settings"]["minimum_seconds"] == 0


def round_of(**changes):
    section = {"batch_sizes": {"fp32": [8]}, "precisions": ["fp32"], "data": ["synthetic"]}
    section |= {"scenarios": ["train", "infer"], "infer": {"arrival_rate": [4]}}
    section["infer"]["batch_sizes"] = {"fp32": [1]}
    return plan.load(
        {
            "round": "mine",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {"resnet50": section},
            "topologies": ["1n1d"],
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"device": "cuda"}, 10),
        ({"device": "cuda", "minimum_seconds": 0}, None),
        ({"device": "cuda", "minimum_seconds": 2.5}, 2.5),
        ({"minimum_seconds": 3}, 3),
    ],
)
def test_a_rounds_windows_last_as_its_config_says_or_as_suits_its_device(changes, expected):
    config = round_of(**changes)
    found = {}
    for case in plan.expand(config):
        document = plan.document(case, config, 1)
        found[case.scenario] = document["settings"].get("minimum_seconds")
        assert problems(json.loads(json.dumps(document)), KNOWN) == []
    assert found == {"train": expected, "infer": expected, "server": None}


def test_a_loss_is_compared_at_the_step_that_all_repetitions_have():
    from dlperf.analysis.round.merge import _last_loss

    def record(losses, measured):
        steps = {"loss": losses, "measured": measured}
        return {"steps": steps, "settings": {"measured_steps": 2}}

    assert _last_loss(record([3.0, 2.0], 2)) == 2.0
    assert _last_loss(record([3.0, 2.0, 1.0], 3)) == 2.0
    assert _last_loss(record([2.0], 2)) == 2.0, "a framework may keep the last one alone"
    assert _last_loss(record([1.0], 3)) is None
    assert _last_loss(record([], 3)) is None
