"""What reaches into Snakemake's inside finds there what it expects."""

import base64
import importlib.metadata
import inspect
import logging
import os
import re
import subprocess
import sys
from io import StringIO

import pytest
import snakemake_executor_plugin_slurm as slurm
import yaml
from conftest import SCRIPTS, SMALL_ROUND, snakemake
from snakemake.logging import LoggerManager
from snakemake.scheduling import job_scheduler
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_rich import LogHandler
from snakemake_logger_plugin_rich.handler import RichLogHandler

from dlperf import inside_snakemake
from dlperf.inside_snakemake import Lines, duration


def test_this_is_the_snakemake_that_it_was_tried_with():
    """With another one: run the tests of this folder and of tests/slurm, then change TRIED_WITH."""
    assert importlib.metadata.version("snakemake") == inside_snakemake.TRIED_WITH


def test_the_scheduler_has_the_limit_that_is_taken_away():
    assert "self.job_rate_limiter" in inspect.getsource(job_scheduler)


def test_records_are_kept_where_snakemake_removes_and_compares_outputs():
    import snakemake.cli  # noqa: F401  first, as the others import each other in a circle
    from snakemake.dag import DAG
    from snakemake.jobs import Job

    assert "await self.remove_existing_output()" in inspect.getsource(Job.prepare)
    assert "await self.cleanup(skip_cleanup_outputs)" in inspect.getsource(Job.postprocess)
    touched = inspect.getsource(DAG.check_and_touch_output)
    assert "await self.check_output_mtime(job, expanded_output)" in touched


def test_this_is_the_executor_that_asks_squeue():
    """With another one: run the tests of tests/slurm, then change this version."""
    assert importlib.metadata.version("snakemake-executor-plugin-slurm") == "2.8.0"
    check = inspect.getsource(slurm.Executor.check_active_jobs)
    for name in ("get_min_job_age()", "await query_job_status(", "_status_lookup_ids("):
        assert name in check


def test_progress_goes_by_events_that_are_there():
    assert {LogEvent.JOB_INFO.value, LogEvent.JOB_FINISHED.value} == {"job_info", "job_finished"}
    assert {"logger", "plugin_handlers"} <= LoggerManager.__annotations__.keys()


def test_the_bars_of_a_terminal_can_say_the_time_left():
    assert "self.progress = Progress(" in inspect.getsource(RichLogHandler)
    assert issubclass(LogHandler, RichLogHandler)


def test_a_finished_job_is_a_line_where_the_output_is_no_terminal(checkout):
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(SMALL_ROUND))
    done = snakemake("--", "results/small/config.yaml", "plan", cwd=checkout)
    lines = re.findall(r"^\d\d:\d\d:\d\d  (\d+) of (\d+)  (.*)$", done.stderr, re.MULTILINE)
    assert [line[0] for line in lines] == [str(i + 1) for i in range(len(lines))]
    assert {line[1] for line in lines} == {str(len(lines))}
    assert "config" in [line[2] for line in lines]


def test_a_report_takes_what_a_killed_call_has_left(checkout):
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(SMALL_ROUND))
    made = "results/small/config.yaml"
    snakemake("--", made, cwd=checkout)
    marker = base64.b64encode(made.encode()).decode()  # as the call would, when it begins the job
    (checkout / ".snakemake/incomplete" / marker).write_text("{}")
    snakemake("--report", "report.html", "--", made, cwd=checkout)
    assert (checkout / "report.html").exists()


def test_the_time_left_follows_from_the_repetitions_that_ended(monkeypatch):
    clock = iter([0.0, 120.0, 240.0])
    monkeypatch.setattr(inside_snakemake.time, "monotonic", lambda: next(clock))
    stream = StringIO()
    lines = Lines(stream, total=4, repetitions=3)
    for number in range(3):
        about = {"workload": "resnet50", "repetition": number + 1}
        lines.emit(event(LogEvent.JOB_INFO, jobid=number, rule_name="repetition", wildcards=about))
        lines.emit(event(LogEvent.JOB_FINISHED, job_id=number))
    first, second, third = stream.getvalue().splitlines()
    assert first.endswith("1 of 4  repetition resnet50 1"), "one says nothing of the others"
    assert second.endswith("2 of 4  repetition resnet50 2; about 2 minutes left")
    assert third.endswith("3 of 4  repetition resnet50 3")


def event(kind: LogEvent, **values) -> logging.LogRecord:
    return logging.makeLogRecord({"event": kind, **values})


def test_durations_read_as_people_say_them():
    assert [duration(each) for each in (10, 61, 3000, 9000)] == [
        *("about 1 minute", "about 1 minute", "about 50 minutes", "about 2.5 hours")
    ]


@pytest.mark.parametrize("started", ["heeding_ctrl_c", "in_background"])
def test_ctrl_c_stops_snakemake_unless_a_shell_started_it_in_the_background(request, started):
    request.getfixturevalue(started)
    script = """
import os, signal, time
from dlperf import inside_snakemake
signal.signal(signal.SIGTERM, lambda *_: print("ends", flush=True))
inside_snakemake.stop_on_signals()
os.kill(os.getpid(), signal.SIGINT)
print("goes on", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.3)
"""
    environ = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    wanted = "goes on\nends\n" if started == "in_background" else "ends\n"
    assert done.stdout == wanted
    assert (done.returncode == 0) == (started == "in_background")
