"""Tries are kept one by one: a stopped search goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SCRIPTS

from dlperf.search.tries import Search, document_of, problems, search

HOW = Search(least=1, most=65_536, granule=8, fine=1, steps=4, repetitions=2)
CASE = {
    "schema": "dlperf.case/2",
    "identity": {"workload": "resnet50", "searched": "batch_size", "batch_size": 1},
    "settings": {"warmup_steps": 2, "measured_steps": 10, "memory_limit_bytes": 4 * 10**9},
}
MADE_WITH = {"code_sha256": "c", "lock_sha256": "l", "node": "n"}


class Stopped(BaseException):
    """A signal, for one process."""


class Machine:
    """Takes the place of the stopwatch: 6 MB an image; stops before try number `stop_at`."""

    def __init__(self, largest: int = 616, stop_at: int = 0, status: str = "oom") -> None:
        self.sizes: list[int] = []
        self._largest, self._stop_at, self._status = largest, stop_at, status

    def __call__(self, document: dict) -> dict:
        if len(self.sizes) + 1 == self._stop_at:
            raise Stopped
        size = document["identity"]["batch_size"]
        self.sizes.append(size)
        fits = size <= self._largest
        return {
            "status": "ok" if fits else self._status,
            "reason": "" if fits else "rank 0: std::bad_alloc",
            "memory": [{"committed_peak_bytes": 3 * 10**8 + 6 * 10**6 * size}] if fits else [],
            "host": {},
            "provenance": {"seconds_total": 5.0, "start_utc": "2026-11-21T05:00:00Z"},
        }


def made(folder: Path, machine: Machine, made_with: dict = MADE_WITH) -> dict:
    return search(CASE, HOW, folder / "case.json.tries", machine, made_with)


def test_a_search_says_what_it_found_and_every_try(tmp_path):
    machine = Machine()
    found = made(tmp_path, machine)
    assert (found["status"], found["value"], found["above"]) == ("ok", 616, "oom")
    assert found["identity"]["batch_size"] == 616
    assert [each["value"] for each in found["tries"]] == machine.sizes
    assert len(machine.sizes) <= 12
    assert problems(found) == []


@pytest.mark.parametrize("stop_at", [1, 4, 8])
def test_a_search_that_is_stopped_goes_on_where_it_was(tmp_path, stop_at):
    whole = made(tmp_path / "whole", Machine())
    with pytest.raises(Stopped):
        made(tmp_path, Machine(stop_at=stop_at))
    machine = Machine()
    assert made(tmp_path, machine) == whole
    assert len(machine.sizes) == len(whole["tries"]) - (stop_at - 1)


@pytest.mark.parametrize("tries", [1, 5, 8])  # on the way up, between full runs, near the end
def test_a_search_that_is_killed_goes_on_where_it_was(tmp_path, tries):
    whole = made(tmp_path / "whole", Machine())
    program = (
        "import sys, time; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "from test_tries import Machine, made\n"
        "class Slow(Machine):\n"
        "    def __call__(self, document):\n"
        "        time.sleep(0.2)\n"
        "        return super().__call__(document)\n"
        "made(Path(sys.argv[1]), Slow())\n"
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2]), str(SCRIPTS)]
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), *paths])
    kept = tmp_path / "case.json.tries"
    while not kept.exists() or len(json.loads(kept.read_text())["tries"]) < tries:
        assert child.poll() is None
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = len(json.loads(kept.read_text())["tries"])
    machine = Machine()
    assert made(tmp_path, machine) == whole
    assert len(machine.sizes) == len(whole["tries"]) - before


@pytest.mark.parametrize("key", MADE_WITH)
def test_tries_with_other_code_or_on_another_machine_are_not_taken(tmp_path, key):
    with pytest.raises(Stopped):
        made(tmp_path, Machine(stop_at=4))
    machine = Machine(largest=100)
    found = made(tmp_path, machine, {**MADE_WITH, key: "another"})
    assert found["value"] == 96
    assert len(machine.sizes) == len(found["tries"])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tries": 3}', '{"asked": {}, "tries": [{}]}'])
def test_a_damaged_file_of_tries_is_as_none(tmp_path, content):
    (tmp_path / "case.json.tries").write_text(content)
    assert made(tmp_path, Machine())["value"] == 616


def test_where_not_even_one_fits_the_search_says_so_in_one_line(tmp_path):
    found = made(tmp_path, Machine(largest=0))
    assert (found["status"], found["value"]) == ("oom", 1)
    assert found["reason"] == (
        "not even batch_size 1 fits within memory_limit (4 GB): rank 0: std::bad_alloc"
    )
    assert problems(found) == []


def test_a_crash_below_any_size_is_no_end_of_memory(tmp_path):
    found = made(tmp_path, Machine(largest=0, status="crashed"))
    assert found["status"] == "crashed"
    assert found["reason"].startswith("not even batch_size 1 ran within memory_limit (4 GB): ")


def test_a_short_try_has_the_steps_that_are_asked_for_and_a_full_one_those_of_the_round():
    short = document_of(CASE, HOW, 64, "short")
    assert (short["settings"]["warmup_steps"], short["settings"]["measured_steps"]) == (1, 3)
    assert short["identity"]["batch_size"] == 64
    assert document_of(CASE, HOW, 64, "full")["settings"] == CASE["settings"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(value=624),
        lambda found: found.update(above="most"),
        lambda found: found["identity"].update(batch_size=8),
        lambda found: found["tries"].pop(),
        lambda found: found["tries"][-1].update(status="ok"),
        lambda found: found["tries"].append(found["tries"][0]),
        lambda found: found["search"].update(granule=1),
        lambda found: found.update(tries=None),
        lambda found: found["tries"][0].pop("value"),
    ],
)
def test_a_search_that_its_tries_contradict_is_refused(tmp_path, change):
    found = made(tmp_path, Machine())
    change(found)
    assert problems(found)
