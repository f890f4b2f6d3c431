"""A case's limit of memory: set in its ranks, noted in the record, and safe for the machine."""

import io
import json
import os
import sys
import time

import pytest

from dlperf.contract import searched
from dlperf.contract.case import load, problems
from dlperf.measure import __main__ as command
from dlperf.measure import by_hand, stopwatch
from dlperf.measure.processes import Child
from dlperf.workloads.cases import case_of, known

GB = 10**9
TAKES = "import sys; block = b'x' * int(sys.argv[1]); import time; time.sleep(0.2); print('done')"


def run(size: int, limit: int) -> Child:
    argv = [sys.executable, "-c", TAKES, str(size)]
    child = Child("", argv, dict(os.environ), [], io.StringIO(), limit_bytes=limit)
    while child.poll() is None:
        time.sleep(0.01)
    return child


def document(**settings) -> dict:
    asked = ["--workload", "resnet50", "--framework", "pytorch", "--device", "cpu"]
    made = by_hand.of_options([*asked, "--batch-size", "8"])
    made["settings"].update(settings)
    return made


def test_a_process_may_commit_its_limit_and_no_more():
    assert run(2 * 10**8, 4 * 10**8).poll() == 0
    child = run(5 * 10**8, 4 * 10**8)
    assert child.poll() == 1
    assert "MemoryError" in child.last_words()


def test_what_a_process_took_is_seen():
    assert 2e8 < run(2 * 10**8, 10**9).committed_peak_bytes() < 4e8
    assert run(2 * 10**8, 0).committed_peak_bytes() == 0


def test_limits_that_add_up_to_more_than_the_machine_can_bear_are_refused():
    case = document(memory_limit_bytes=4 * GB)
    case["identity"]["devices_per_node"] = 2
    assert stopwatch.too_small(case, "n1", 2, 0, 16 * GB) == ""
    assert stopwatch.too_small(case, "n1", 2, 0, 8 * GB) == (
        "8.0 GB (2 devices x memory_limit) are more than three quarters of the 8.0 GB that n1 has"
    )


def test_a_document_without_a_limit_stays_one():
    made = document()
    del made["settings"]["memory_limit_bytes"]
    assert problems(made, known()) == []
    assert problems(document(memory_limit_bytes=-1), known()) == [
        "settings.memory_limit_bytes: -1; at least 0"
    ]


def test_what_is_searched_must_be_a_size_that_can_be():
    made = document()
    made["identity"]["searched"] = "image_size"
    (problem,) = problems(made, known())
    assert problem.startswith("identity.searched: 'image_size'; allowed: ")


@pytest.fixture
def of_round(tmp_path, monkeypatch):
    """Measures the case whose search in `tmp_path` found what is given: the record."""

    def measured(found: dict) -> dict:
        made = document()
        made["identity"]["searched"] = "batch_size"
        path = tmp_path / searched.path_of(case_of(made["identity"]))
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"schema": searched.SCHEMA, **found}))
        out = tmp_path / "rep1.json"
        monkeypatch.setattr(command.processes, "end_with_ranks", lambda: None)
        asked = ["--case", json.dumps(made), "--round", str(tmp_path), "--out", str(out)]
        command.main(asked)
        return json.loads(out.read_text())

    return measured


def test_a_repetition_takes_the_size_from_the_search(of_round, monkeypatch):
    monkeypatch.setattr(stopwatch, "cannot_run", lambda *_: "not in this test")
    record = of_round({"status": "ok", "reason": "", "value": 616})
    assert (record["identity"]["batch_size"], record["identity"]["searched"]) == (616, "batch_size")
    assert record["reason"] == "not in this test"
    assert load(json.dumps(record), known())["identity"] == record["identity"]


def test_where_nothing_fits_each_repetition_is_a_record_that_says_so(of_round):
    record = of_round({"status": "oom", "reason": "not even batch_size 1 fits", "value": 1})
    assert (record["status"], record["reason"]) == ("oom", "not even batch_size 1 fits")
    assert record["identity"]["batch_size"] == 1


def test_a_damaged_search_is_named(of_round):
    with pytest.raises(SystemExit) as told:
        of_round({"status": "ok", "reason": "", "value": "many"})
    assert "value: 'many' is no size" in str(told.value)
