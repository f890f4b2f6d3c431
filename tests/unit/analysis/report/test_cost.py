"""Campaign efficiency, and where its numbers come from."""

import pytest

from dlperf.analysis.report.cost import campaign
from dlperf.measure.record import job_start_utc


def row(**changes):
    common = {
        "record": "rep1.json",
        "status": "ok",
        "nodes": 1,
        "window_seconds": 10.0,
        "startup_seconds": 20.0,
        "seconds_total": 40.0,
        "scheduler_job": "",
        "scheduler_job_start_utc": "",
        "end_utc": "2026-11-21T10:01:00Z",
    }
    return {**common, **changes}


def test_without_a_scheduler_a_repetition_holds_the_machine_for_its_own_time():
    found = campaign([row(), row(record="rep2.json"), row(record="")])
    assert (found.jobs, found.allocated, found.windows, found.startup) == (2, 80.0, 20.0, 40.0)
    assert found.efficiency == pytest.approx(0.75)


def test_a_job_holds_all_its_nodes_from_its_start():
    job = {"scheduler_job": "7", "scheduler_job_start_utc": "2026-11-21T10:00:00Z", "nodes": 4}
    found = campaign([row(**job)])
    assert (found.allocated, found.windows, found.startup) == (240.0, 40.0, 80.0)


def test_repetitions_that_share_a_job_share_its_time():
    job = {"scheduler_job": "7", "scheduler_job_start_utc": "2026-11-21T10:00:00Z"}
    later = row(record="rep2.json", end_utc="2026-11-21T10:01:40Z", **job)
    found = campaign([row(**job), later])
    assert (found.jobs, found.allocated, found.lost) == (1, 100.0, 40.0)


def test_what_failed_is_lost():
    failed = row(status="crashed", window_seconds=None, startup_seconds=None)
    assert campaign([failed]).efficiency == 0
    assert campaign([row(record="")]) is None


def test_the_start_of_a_job_is_what_squeue_says(tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 2026-11-21T18:02:30\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TZ", "UTC")
    assert job_start_utc("20") == "2026-11-21T18:02:30Z"
    squeue.write_text("#!/bin/sh\nexit 1\n")
    assert job_start_utc("20") == ""
    assert job_start_utc("") == ""
