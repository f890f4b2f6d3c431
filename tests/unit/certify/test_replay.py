"""Which spot runs of a group are replayed where each has a size of its own."""

import argparse
import math

import pytest

from dlperf import plan
from dlperf.certify import replay
from dlperf.measure import bounds

LIMIT = 10**9
CONFIG = plan.load(
    {
        "round": "test",
        "device": "cpu",
        "frameworks": ["pytorch", "mxnet", "paddlepaddle"],
        "workloads": {
            "resnet50": {
                "precisions": ["fp32"],
                "compilers": ["off"],
                "batch_sizes": {"fp32": ["max"]},
                "image_size": 32,
            }
        },
        "topologies": ["1n1d"],
        "memory_limit": "1 GB",
        "repetitions": 1,
        "steps": {"warmup": 1, "measured": 4},
    }
)
SIZES = {"pytorch": 64, "mxnet": 16, "paddlepaddle": 32}


def runs():
    """A spot run of each framework, as far as it says what it is of."""
    for case in plan.expand(CONFIG):
        document = plan.document(case.sized(SIZES[case.framework]), CONFIG, 1)
        yield {"identity": document["identity"], "settings": document["settings"]}


def seconds_of(batch_size: int) -> float:
    case = plan.expand(CONFIG)[0].sized(batch_size)
    return bounds.cost(case, "cpu", 4)[0]


@pytest.fixture
def replayed(monkeypatch):
    """The frameworks that were replayed, in that order."""
    done = []

    def of(case, group):
        (run,) = group
        assert case.batch_size == SIZES[case.framework]
        done.append(run["identity"]["framework"])
        return {"windows": [], "projections": {}}

    monkeypatch.setattr(replay, "here", lambda: "cpu")
    monkeypatch.setattr(replay, "replayed", of)
    return done


def asked(seconds=math.inf, gigabytes=math.inf):
    return argparse.Namespace(seconds=seconds, gigabytes=gigabytes)


def test_each_size_that_a_search_found_is_replayed_by_itself(replayed):
    found = replay.of_own_sizes(runs(), asked())
    assert replayed == ["mxnet", "paddlepaddle", "pytorch"]
    assert {each["status"] for each in found.values()} == {"ok"}


def test_the_smallest_sizes_are_replayed_as_far_as_the_time_goes(replayed):
    found = replay.of_own_sizes(runs(), asked(1.01 * (seconds_of(16) + seconds_of(32))))
    assert replayed == ["mxnet", "paddlepaddle"]
    assert found["pytorch/none"]["status"] == "unavailable"
    assert "checks.seconds" in found["pytorch/none"]["reason"]


def test_what_filled_a_devices_memory_takes_three_times_as_much_in_float64(replayed):
    needed = bounds.IN_FLOAT64 * LIMIT / 1e9
    assert replay.of_own_sizes(runs(), asked(gigabytes=needed)) and len(replayed) == 3
    found = replay.of_own_sizes(runs(), asked(gigabytes=0.99 * needed))
    assert all("checks.gigabytes" in each["reason"] for each in found.values())
    assert len(replayed) == 3


def test_a_replay_by_hand_has_no_bounds_and_is_made_again_by_the_workflow():
    assert replay.bounds_of(asked()) == {}
    assert replay.bounds_of(asked(600, 8)) == {"seconds": 600, "gigabytes": 8}


def test_what_one_size_cannot_be_replayed_for_is_said_of_it_alone(replayed, monkeypatch):
    def of(case, group):
        if case.framework == "mxnet":
            raise replay.Unavailable("two words are too close")
        return {"windows": [], "projections": {}}

    monkeypatch.setattr(replay, "replayed", of)
    found = replay.of_own_sizes(runs(), asked())
    assert found["mxnet/none"] == {"status": "unavailable", "reason": "two words are too close"}
    assert found["pytorch/none"]["status"] == "ok"
