"""What the plan says of spot runs and their replays."""

import json

import pytest

from dlperf import plan
from dlperf.contract import draws
from dlperf.plan import checked

CONFIG = {
    "round": "mine",
    "device": "cpu",
    "frameworks": ["pytorch", "jax"],
    "workloads": {
        "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "image_size": 64},
        "bert": {"precisions": ["fp32"], "batch_sizes": {"fp32": [2]}, "sequence_length": 16},
    },
    "topologies": ["1n1d"],
    "repetitions": 1,
    "steps": {"warmup": 2, "measured": 4},
}


@pytest.fixture
def said(tmp_path):
    """A function: the plan's lines, of the round with these changes."""

    def lines(**changes):
        config = plan.load({**CONFIG, **changes})
        times = {"expected": lambda case: (10.0, "records"), "duration": "{:.0f} s".format}
        return list(checked.lines(config, plan.expand(config), results=tmp_path, **times))

    return lines


def group(workload: str) -> str:
    cases = plan.expand(plan.load(CONFIG))
    return draws.replay_of(next(each for each in cases if each.workload == workload))


def replays(said) -> int:
    (line,) = said()
    return int(line.rpartition("replays about ")[2].removesuffix(" s"))


def replayed(results, path: str, **provenance) -> None:
    (results / path).parent.mkdir(parents=True, exist_ok=True)
    (results / path).write_text(json.dumps({"provenance": provenance}))


def test_cases_and_groups_are_counted(said):
    (line,) = said()
    assert line.startswith("Spot checks of what is timed: 4 cases in 2 groups; spot runs about ")
    without = said(checks={"seconds": 0})
    assert without[0] == "Spot checks of what is timed: 0 cases in 0 groups"
    assert all(
        "certificate only: 2 cases: a replay would take about" in each for each in without[1:]
    )


def test_replays_take_what_those_of_other_rounds_took(said, tmp_path):
    before = replays(said)
    path = group("bert")
    replayed(tmp_path, f"other/{path}", seconds=90.0, expected_seconds=30.0)
    replayed(tmp_path, f"one-more/{path}", seconds=10.0, expected_seconds=10.0)
    replayed(tmp_path, f"third/{path}", seconds=300.0, expected_seconds=30.0)
    of_resnet = replays(lambda: said(workloads={"resnet50": CONFIG["workloads"]["resnet50"]}))
    of_bert = before - of_resnet
    assert replays(said) == pytest.approx(of_resnet + 3 * of_bert, abs=3)


@pytest.mark.parametrize(
    "provenance", [{}, {"seconds": 9.0}, {"seconds": 9, "expected_seconds": 0}]
)
def test_a_replay_that_does_not_say_what_was_expected_teaches_nothing(said, tmp_path, provenance):
    before = replays(said)
    replayed(tmp_path, f"other/{group('bert')}", **provenance)
    (tmp_path / f"other/{group('resnet50')}").write_text("{")
    assert replays(said) == before
