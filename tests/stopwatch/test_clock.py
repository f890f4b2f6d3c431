"""The clock is not the page's, nor are more cores than the case's, nor time outside of the window.

Real ranks and a real stopwatch; in place of a framework, steps of a stated user time
(tests/support/computing_rank.py), so that each repetition takes seconds.
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from dlperf import plan
from dlperf.analysis.round.records import parse
from dlperf.measure import stopwatch

STEP = 0.05  # computing_rank.STEP
STEPS = 10
CONFIG = {
    "round": "clocks",
    "device": "cpu",
    "frameworks": ["pytorch"],
    "workloads": {
        "wide_deep": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [16]},
            "data": ["synthetic"],
            "vocabulary": 260,
            "width": 4,
            "layers": 2,
        }
    },
    "repetitions": 1,
    "steps": {"warmup": 1, "measured": STEPS},
    "timeout_seconds": 120,
}


def record(monkeypatch, kind: str, devices: int = 1, environ=()) -> dict:
    """The record of a repetition whose implementation is of this kind; what merge says of it."""
    config = plan.load({**CONFIG, "topologies": [f"1n{devices}d"]})
    (case,) = plan.expand(config)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support"))
    for name, value in dict(environ).items():
        monkeypatch.setenv(name, value)
    program = ("computing_rank", kind)
    monkeypatch.setattr(stopwatch, "Attempt", functools.partial(stopwatch.Attempt, program=program))
    document = plan.document(case, config, 1)
    with open(os.devnull, "w") as log:
        found = stopwatch.measure(document, log=log)
    if found["status"] == "ok":
        _, problems = parse(json.dumps(found).encode(), document, case)
        assert problems == []
    return found


def length(found: dict, whose: str = "") -> float:
    window = found["window"][0]
    return window[whose + "end"] - window[whose + "start"]


def only_full(kind: str):
    """A kind that others stand for."""
    return pytest.param(kind, marks=pytest.mark.full)


HONEST = ["Honest", "TwoThreads", "Helper", "ActiveWait", "Sleeping"]


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_rank_passes(monkeypatch, kind):
    found = record(monkeypatch, kind)
    assert found["status"] == "ok", found["reason"]
    assert length(found) >= length(found, "rank_") >= 0.9 * STEPS * STEP
    (seen,) = found["processes"]
    assert seen["cores"] == seen["cores_allowed"] and len(seen["cores"]) == 1
    assert seen["window_seconds"] >= 0.9 * STEPS * STEP
    assert seen["processes"] == (2 if kind == "Helper" else 1)
    assert seen["before_seconds"] < 0.3 and seen["behind_seconds"] < 0.4


@contextlib.contextmanager
def burners(count: int):
    with contextlib.ExitStack() as others:
        for _ in range(count):
            command = [sys.executable, "-c", "while True: pass"]
            others.callback(others.enter_context(subprocess.Popen(command)).kill)
        yield


@pytest.mark.parametrize("kind", ["ActiveWait", *map(only_full, ["Honest", "TwoThreads"])])
def test_an_honest_rank_passes_on_a_busy_machine(monkeypatch, kind):
    with burners(3 * os.cpu_count()):
        found = record(monkeypatch, kind)
    assert found["status"] == "ok", found["reason"]


@pytest.mark.skipif(os.cpu_count() < 2, reason="a core for each rank")
def test_two_ranks_share_the_start_of_their_windows(monkeypatch):
    found = record(monkeypatch, "Honest", devices=2)
    assert found["status"] == "ok", found["reason"]
    first, second = found["window"]
    assert first["start"] == second["start"]
    assert [each["cores"] for each in found["processes"]] == [[0], [1]]


def test_numbers_of_proc_are_read_in_any_language(monkeypatch):
    for language in ("C.UTF-8", "de_DE.UTF-8"):
        found = record(monkeypatch, "Honest", environ={"LC_ALL": language, "LANG": language})
        assert found["status"] == "ok", found["reason"]


def test_a_slower_clock_that_a_page_puts_into_pythons_modules_changes_nothing(monkeypatch):
    found = record(monkeypatch, "SlowClock")
    assert found["status"] == "ok", found["reason"]
    assert length(found) >= length(found, "rank_") >= 0.9 * STEPS * STEP
    assert sum(found["steps"]["seconds"]) >= 0.9 * STEPS * STEP


def test_a_training_that_cannot_begin_anew_is_an_error(monkeypatch):
    found = record(monkeypatch, "GoesOn")
    assert found["status"] != "ok" and "has no `restart`" in found["reason"], found["reason"]


WRONG = {
    "SlowTimer": "by its own clock, but",
    "ThreadElsewhere": "its threads may run on cores",
    "ChildElsewhere": "its threads may run on cores",
    "LeftElsewhere": "did not come to rest",
    "ThreadBehind": "`wait` returned too early: behind it",
    "ChildBehind": "`wait` returned too early: behind it",
    "LeftBehind": "`wait` returned too early: behind it",
    "AtTheRead": "`wait` returned ",
    "Spinning": "did not come to rest",
    "ThreadBefore": "behind the restart, the rank's processes did not come to rest",
    "ChildBefore": "behind the restart, the rank's processes did not come to rest",
    "InRestart": "the restart",
}


FULL = ["LeftElsewhere", "ChildBehind", "ChildBefore", "AtTheRead"]


@pytest.mark.parametrize("kind", [only_full(kind) if kind in FULL else kind for kind in WRONG])
def test_a_wrong_rank_is_a_crash_that_says_why(monkeypatch, kind):
    if kind.endswith("Elsewhere") and os.cpu_count() < 2:
        pytest.skip("there is no other core")
    found = record(monkeypatch, kind)
    assert found["status"] == "crashed"
    assert WRONG[kind] in found["reason"]


def test_what_left_its_session_does_not_outlive_the_stopwatch(monkeypatch):
    record(monkeypatch, "LeftElsewhere")
    deadline = time.monotonic() + 5
    while (left := busy_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def busy_processes() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if "time.process_time() + 60" in line]
