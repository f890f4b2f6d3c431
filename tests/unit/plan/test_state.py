"""What a plan knows of a round that has begun: states, expected times, disk, and what it prints."""

import csv
import hashlib
import json
import os
from pathlib import Path

import pytest
from known_framework import known_framework

from dlperf import environments, frameworks, workloads
from dlperf.plan import Case, estimate, expand, load
from dlperf.plan import document as document_of
from dlperf.plan.__main__ import main
from dlperf.plan.estimate import builds, check_disk
from dlperf.plan.show import duration, show, tsv
from dlperf.plan.state import is_due, record_path, states

CONFIG = """
round: mine
device: cpu
frameworks: [pytorch, jax]
workloads:
  resnet50: {precisions: [fp32, amp], batch_sizes: {fp32: [8], amp: [8]}, image_size: 64}
topologies: [1n1d]
repetitions: 3
steps: {warmup: 1, measured: 2}
timeout_seconds: 100
retry: [timeout]
"""


@pytest.fixture(autouse=True)
def two_frameworks(monkeypatch):
    """PyTorch that can do all, and JAX that cannot do mixed precision."""

    def slow_in_amp(case):
        return "too slow" if case["precision"] == "amp" else ""

    known = {
        "pytorch": known_framework("PyTorch"),
        "jax": known_framework("JAX", unsupported=slow_in_amp),
    }
    for each in ("find", "of"):
        monkeypatch.setattr(frameworks, each, known.get)
    monkeypatch.setattr(workloads, "implements", lambda workload, framework, scenario="train": True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a config."""
    (tmp_path / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(folder):
    return load(folder / "mine.yaml")


@pytest.fixture
def plan(config):
    """Cases by framework and precision."""
    return {(case.framework, case.precision): case for case in expand(config)}


def record(config, case: Case, repetition, status="ok", seconds=10.0):
    document = document_of(case, config, repetition)
    content = {
        "schema": "dlperf.record/2",
        "status": status,
        "reason": "",
        **{key: document[key] for key in ("identity", "settings")},
        "steps": {"measured": document["settings"]["measured_steps"]},
        "window": [{"rank": 0, "start": 100.0, "end": 102.0}],
        "host": {"cpu": "any", "cores": 2, "gpus": []},
        "provenance": {"seconds_total": seconds},
    }
    path = Path(record_path(config, case, repetition))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_before_anything_ran_all_is_missing_or_unsupported(config, plan):
    found = states(config, expand(config))
    assert set(found.values()) == {"missing", "unsupported"}
    assert found[plan["jax", "amp"], 1] == "unsupported"
    assert len(found) == 12


def test_a_record_tells_the_state_of_its_repetition(config, plan):
    case = plan["pytorch", "fp32"]
    record(config, case, 1, "ok")
    record(config, case, 2, "oom")
    found = states(config, expand(config))
    assert [found[case, number] for number in (1, 2, 3)] == ["done", "failed:oom", "missing"]


def test_a_status_is_read_wherever_it_stands_in_the_record(config, plan):
    case = plan["pytorch", "fp32"]
    path = record(config, case, 1)
    path.write_text(json.dumps({"identity": {"status": "no"}, "status": "crashed"}, indent=2))
    assert states(config, expand(config))[case, 1] == "failed:crashed"


def test_a_record_made_with_other_settings_is_outdated_and_made_again(config, plan):
    case = plan["pytorch", "fp32"]
    record(config, case, 1)
    more_steps = load({**config.model_dump(), "steps": {"warmup": 1, "measured": 3}})
    state = states(more_steps, expand(more_steps))[case, 1]
    assert state == "outdated"
    assert is_due(more_steps, state)


def with_data(config, made: bytes):
    """The config with photographs, and a record of each repetition that was made with `made`."""
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "data": ["sample"]}
    config = load({**config.model_dump(exclude_none=True), "workloads": {"resnet50": section}})
    case = next(case for case in expand(config) if case.framework == "pytorch")
    for repetition in (1, 2, 3):
        path = record(config, case, repetition)
        content = json.loads(path.read_text())
        content["provenance"]["data_manifest_sha256"] = hashlib.sha256(made).hexdigest()
        path.write_text(json.dumps(content))
        os.utime(path, (1000, 1000))
    manifest = Path("results/data/sample/manifest.json")
    manifest.parent.mkdir(parents=True)
    return config, case, manifest


def test_a_record_of_other_data_is_outdated_and_one_of_copied_data_is_not(config):
    config, case, manifest = with_data(config, b"these")
    known = {states(config, [case])[case, number] for number in (1, 2, 3)}
    assert known == {"done"}, "without data there is nothing to compare"
    manifest.write_bytes(b"these")  # later than the records
    assert states(config, [case])[case, 1] == "done"
    manifest.write_bytes(b"others")
    assert states(config, [case])[case, 1] == "outdated"
    os.utime(manifest, (4e9, 4e9))
    manifest.write_bytes(b"these")
    os.utime(manifest, (4e9, 4e9))
    assert states(config, [case])[case, 1] == "done", "a time in the future says nothing either"


def test_each_seed_of_a_training_to_a_quality_is_as_asked_for(config):
    section = {
        "scenarios": ["quality"],
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [32]},
        "quality": {"epochs": [2]},
        "image_size": 32,
    }
    config = load({**config.model_dump(exclude_none=True), "workloads": {"resnet50": section}})
    case = next(case for case in expand(config) if case.framework == "pytorch")
    for repetition in (1, 2, 3):
        record(config, case, repetition)
    assert {states(config, [case])[case, number] for number in (1, 2, 3)} == {"done"}


def test_a_round_that_stops_at_a_failure_runs_it_again(config):
    stops = load({**config.model_dump(exclude_none=True), "on_failure": "stop"})
    due = {state: is_due(stops, state) for state in ("done", "failed:oom", "failed:unreadable")}
    assert due == {"done": False, "failed:oom": True, "failed:unreadable": False}


def test_what_is_no_record_is_told_as_a_failure_not_read_as_a_result(config, plan):
    case = plan["pytorch", "fp32"]
    record(config, case, 1).write_text('{"sta')
    record(config, case, 2).with_name("rep3.json.tmp").write_text("{}")
    found = states(config, expand(config))
    assert [found[case, number] for number in (1, 2, 3)] == ["failed:unreadable", "done", "missing"]


def test_what_a_process_found_unsupported_is_unsupported(config, plan):
    record(config, plan["pytorch", "amp"], 1, "unsupported")
    assert states(config, expand(config))[plan["pytorch", "amp"], 1] == "unsupported"


def test_the_next_call_runs_what_is_missing_and_what_the_config_wants_tried_again(config):
    due = {state: is_due(config, state) for state in ("missing", "failed:timeout", "failed:oom")}
    assert due == {"missing": True, "failed:timeout": True, "failed:oom": False}
    assert not is_due(config, "done")
    assert not is_due(config, "unsupported")


@pytest.fixture
def sizes(monkeypatch):
    """Every environment downloads 1 GB and takes 3 GB."""
    known = {"download_bytes": 10**9, "size_bytes": 3 * 10**9}
    monkeypatch.setattr(environments, "estimate", lambda framework, device: known)


def test_only_environments_that_are_not_there_are_to_be_built(config, folder, sizes):
    assert [build.framework for build in builds(config, expand(config))] == ["pytorch", "jax"]
    done = folder / "results" / "environments" / "jax.cpu" / "env.json"
    done.parent.mkdir(parents=True)
    done.write_text(json.dumps({"schema": "dlperf.environment/1", "status": "ok"}))
    assert [build.framework for build in builds(config, expand(config))] == ["pytorch"]
    done.write_text(json.dumps({"schema": "dlperf.environment/1", "status": "failed"}))
    assert [build.framework for build in builds(config, expand(config))] == ["pytorch", "jax"]


def test_an_interpreter_that_is_given_needs_no_environment(config, sizes):
    content = {**config.model_dump(), "environments": {"interpreters": {"jax": "/opt/python3"}}}
    given = load(content)
    assert [build.framework for build in builds(given, expand(given))] == ["pytorch"]


def test_too_little_disk_is_told_with_what_is_needed_and_what_to_do(config, sizes, monkeypatch):
    monkeypatch.setattr(estimate, "free_bytes", lambda results: 9 * 10**9)
    assert check_disk(builds(config, expand(config)), []) == ""
    monkeypatch.setattr(estimate, "free_bytes", lambda results: 7 * 10**9)
    message = check_disk(builds(config, expand(config)), [])
    assert "pytorch, jax need about 8.0 GB" in message
    assert "results/ has 7.0 GB free" in message
    assert "fewer `frameworks`" in message


def test_the_plan_fits_a_terminal_and_says_counts_reasons_time_and_disk(config, plan, sizes):
    record(config, plan["pytorch", "fp32"], 1, seconds=40.0)
    record(config, plan["pytorch", "fp32"], 2, "oom")
    text = show(config, expand(config))
    assert [line for line in text.splitlines() if len(line) > 100] == []
    assert "Repetitions: 1 done, 7 missing, 1 failed:oom, 3 unsupported" in text
    assert "1 case: too slow" in text
    assert "Expected time: " in text
    assert "estimated from earlier records of the same case" in text
    assert "records of other cases of the same framework and workload" in text
    assert "2.0 GB to download, 6.0 GB on disk" in text
    (line,) = [line for line in text.splitlines() if "pytorch" in line and "fp32" in line]
    assert line.split(maxsplit=3) == [
        "pytorch",
        "train-fp32-1n1d-b8-synthetic-px64",
        "40",
        "1 done, 1 missing, 1 failed:oom",
    ]


def test_a_plan_with_nothing_left_says_so(config, plan):
    for case in plan.values():
        for repetition in (1, 2, 3):
            record(config, case, repetition)
    assert "Nothing is left to run." in show(config, expand(config))


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (754, "13 min"), (7140, "119 min"), (9000, "2 h 30 min")]
)
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_plan_tsv_has_one_row_a_repetition_with_the_path_of_its_record(config):
    rows = list(csv.DictReader(tsv(config, expand(config)).splitlines(), delimiter="\t"))
    assert len(rows) == 12
    assert list(rows[0]) == [
        *("workload", "framework", "scenario", "precision", "compiler", "nodes"),
        *("devices_per_node", "tensor_parallel", "pipeline_parallel", "zero_stage"),
        *("accumulation", "activation_checkpointing", "batch_size", "searched", "epochs"),
        *("arrival_rate", "data"),
        *("image_size", "fold", "mixup"),
        *("repetition", "unsupported", "record"),
    ]
    assert {row["unsupported"] for row in rows} == {"", "too slow"}
    assert rows[2]["repetition"] == "3"
    assert rows[2]["record"] == (
        "results/mine/runs/resnet50/pytorch/train-fp32-1n1d-b8-synthetic-px64/rep3.json"
    )


def test_the_config_is_written_only_when_it_changes(folder):
    path = folder / "results" / "mine" / "config.yaml"
    assert main(["config", "--config", "mine.yaml"]) == 0
    first = path.stat().st_mtime_ns
    assert main(["config", "--config", "mine.yaml"]) == 0
    assert path.stat().st_mtime_ns == first
    (folder / "mine.yaml").write_text(CONFIG.replace("repetitions: 3", "repetitions: 2"))
    assert main(["config", "--config", "mine.yaml"]) == 0
    assert path.stat().st_mtime_ns != first
    assert [entry.name for entry in path.parent.iterdir()] == ["config.yaml"]


def test_tsv_prints_the_same_table_for_programs(config, folder, capsys):
    assert main(["tsv", "--config", "mine.yaml"]) == 0
    assert capsys.readouterr().out == tsv(config, expand(config))


def test_the_written_config_is_a_config_with_every_key(folder):
    main(["config", "--config", "mine.yaml"])
    written = load(folder / "results" / "mine" / "config.yaml")
    assert written == load(folder / "mine.yaml")


def test_a_bad_config_ends_with_its_problems_and_no_traceback(folder, capsys):
    (folder / "mine.yaml").write_text(CONFIG.replace("[pytorch, jax]", "[pytroch]"))
    assert main(["show", "--config", "mine.yaml"]) == 1
    assert capsys.readouterr().err.startswith("mine.yaml: frameworks[0]: 'pytroch' is not a")


def test_show_prints_the_plan(folder, capsys):
    assert main(["show", "--config", "mine.yaml"]) == 0
    assert capsys.readouterr().out.startswith("Round mine: 4 cases x 3 repetitions on cpu")
