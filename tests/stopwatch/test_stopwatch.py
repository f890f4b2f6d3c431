"""The stopwatch gives a record for whatever happens to a repetition, and leaves no process."""

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import CPU_FRAMEWORKS
from edits import Edit, Replace, edit_file

from dlperf import frameworks
from dlperf.contract.layout import Layout

ROOT = Path(__file__).resolve().parents[2]


def case(**changes) -> str:
    """A small PyTorch repetition as a case document; `changes` go to its identity or settings."""
    identity = {
        "round": "test",
        "workload": "resnet50",
        "framework": "pytorch",
        "scenario": "train",
        "precision": "fp32",
        "compiler": "none",
        "nodes": 1,
        "devices_per_node": 2,
        "layout": dataclasses.asdict(Layout()),
        "batch_size": 2,
        "data": "synthetic",
        "repetition": 1,
        "image_size": 32,
    }
    settings = {
        "device": "cpu",
        "warmup_steps": 1,
        "measured_steps": 3,
        "cores_per_device": 1,
        "timeout_seconds": 120,
        "seed": 1,
        "data_dir": "",
    }
    for key, value in changes.items():
        (identity if key in identity else settings)[key] = value
    return json.dumps({"schema": "dlperf.case/2", "identity": identity, "settings": settings})


@contextlib.contextmanager
def started(environments: Path, document: str, out: Path, *more: str, scripts=ROOT / "scripts"):
    """A running stopwatch; whatever happens, the test leaves none of its processes."""
    command = [
        str(environments / "pytorch.cpu/bin/python"),
        *("-m", "dlperf.measure", "--case", document, "--out", str(out), *more),
    ]
    environ = dict(os.environ, PYTHONPATH=str(scripts))
    with open(out.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        for each in [*descendants(process.pid), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


def ranks(process: subprocess.Popen, count: int) -> list[psutil.Process]:
    """The rank processes, in order, once there are `count` and they have begun to work."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [
            each
            for each in descendants(process.pid)
            if any("dlperf.measure.rank" in word for word in words(each))
        ]
        if len(found) == count:
            time.sleep(2)
            return sorted(found, key=lambda each: words(each)[-1])
        time.sleep(0.05)
    pytest.fail("the ranks did not start")


def gone(processes: list[psutil.Process], seconds: float = 10) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def run(environments: Path, document: str, out: Path, *more: str, scripts=ROOT / "scripts") -> dict:
    with started(environments, document, out, *more, scripts=scripts) as process:
        assert process.wait(timeout=150) == 0, out.with_suffix(".log").read_text()
        assert not descendants(process.pid)
    return json.loads(out.read_text())


def test_two_ranks_give_one_record_with_both_windows(environments, tmp_path):
    record = run(environments, case(), tmp_path / "rep1.json")
    assert record["status"] == "ok"
    assert [window["rank"] for window in record["window"]] == [0, 1]
    assert record["samples"] == 2 * 2 * 3
    assert len(record["steps"]["seconds"]) == len(record["steps"]["loss"]) == 3
    start = max(window["start"] for window in record["window"])
    end = min(window["end"] for window in record["window"])
    assert start < end, "the windows of the ranks overlap: both were timed together"
    assert record["parity"]["parameters"] == 25557032
    assert record["parity"]["collective"] == "gloo"
    assert all(memory["host_peak_rss_bytes"] > 1e8 for memory in record["memory"])
    first, second = record["weights"]
    assert second == {**first, "rank": 1}, "the ranks end with the same weights"
    # of two values a channel, in the last blocks, batch-norm makes enormous gradients
    assert 1e-6 < first["change"] < 1e4 and first["unchanged"] == 0


def test_a_window_has_as_many_steps_as_fill_the_time_that_it_should_last(environments, tmp_path):
    """The trial of one step may be slower than the window's, but hardly by half."""
    record = run(environments, case(measured_steps=1, minimum_seconds=3), tmp_path / "rep1.json")
    assert record["status"] == "ok", record["reason"]
    steps, settings = record["steps"], record["settings"]
    start, end = record["window"][0]["start"], max(each["end"] for each in record["window"])
    assert end - start > 1.5
    assert (settings["measured_steps"], settings["minimum_seconds"]) == (1, 3)
    assert steps["measured"] == math.ceil(3 / steps["trial"]["seconds"]) > 1
    assert len(steps["seconds"]) == len(steps["loss"]) == steps["measured"]
    assert record["samples"] == 2 * 2 * steps["measured"]
    assert record["drawn"]["windows"] == [[1, steps["measured"]]]
    first, second = record["weights"]
    assert second == {**first, "rank": 1}, "both ranks had as many steps"


def test_an_inference_times_more_batches_for_throughput_alone(environments, tmp_path):
    asked = {"scenario": "infer", "devices_per_node": 1, "minimum_seconds": 1}
    record = run(environments, case(**asked), tmp_path / "rep1.json")
    assert record["status"] == "ok", record["reason"]
    (rank,), steps = record["latency"]["ranks"], record["steps"]
    assert len(rank["seconds"]) == 3 < len(steps["seconds"]) == steps["measured"]
    assert record["samples"] == 2 * steps["measured"]
    assert steps["trial"]["most"] > steps["measured"], "these outputs are small"


def test_each_rank_is_pinned_to_its_own_core(environments, tmp_path):
    with started(environments, case(measured_steps=500), tmp_path / "a.json") as process:
        affinities = [rank.cpu_affinity() for rank in ranks(process, 2)]
    assert all(len(cores) == 1 for cores in affinities)
    assert affinities[0] != affinities[1]


def test_a_record_can_be_run_again(environments, tmp_path):
    first = run(environments, case(devices_per_node=1), tmp_path / "first.json")
    again = run(environments, str(tmp_path / "first.json"), tmp_path / "again.json")
    assert again["identity"] == first["identity"]
    assert again["settings"] == first["settings"]


def test_a_repetition_that_takes_too_long_is_a_timeout(environments, tmp_path):
    document = case(measured_steps=100000, timeout_seconds=12)
    started_at = time.monotonic()
    record = run(environments, document, tmp_path / "rep1.json")
    assert time.monotonic() - started_at < 20
    assert record["status"] == "timeout"
    assert "not done after 12 s: rank 0 in " in record["reason"]


def test_more_memory_than_there_is_is_an_oom(environments, tmp_path):
    document = case(devices_per_node=1, batch_size=10**8, image_size=224)
    record = run(environments, document, tmp_path / "rep1.json")
    assert record["status"] == "oom", record["reason"]


def test_a_rank_that_is_killed_is_a_crash_and_takes_its_peer_along(environments, tmp_path):
    out = tmp_path / "rep1.json"
    with started(environments, case(measured_steps=100000), out) as process:
        family = ranks(process, 2)
        family[1].kill()
        assert process.wait(timeout=30) == 0
        assert gone(family)
    record = json.loads(out.read_text())
    assert record["status"] == "crashed"
    assert "rank 1: ended with signal 9" in record["reason"]


def test_a_rank_that_hangs_is_a_timeout(environments, tmp_path):
    out = tmp_path / "rep1.json"
    document = case(measured_steps=100000, timeout_seconds=15)
    with started(environments, document, out) as process:
        family = ranks(process, 2)
        family[1].suspend()
        assert process.wait(timeout=40) == 0
        assert gone(family)
    assert json.loads(out.read_text())["status"] == "timeout"


@pytest.mark.usefixtures("heeding_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_stopwatch_leaves_no_record_and_no_process(environments, tmp_path, number):
    out = tmp_path / "rep1.json"
    with started(environments, case(measured_steps=100000), out) as process:
        family = ranks(process, 2)
        process.send_signal(number)
        assert process.wait(timeout=15) == 128 + number
        assert gone(family)
    assert not out.exists()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.usefixtures("in_background")
def test_in_the_background_a_stopwatch_ignores_ctrl_c_and_sigterm_stops_it(environments, tmp_path):
    out = tmp_path / "rep1.json"
    with started(environments, case(measured_steps=100000), out) as process:
        family = ranks(process, 2)
        for number in (signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = int(re.search(r"SigIgn:\t(\w+)", status)[1], 16)
        assert all(ignored >> (number - 1) & 1 for number in (signal.SIGINT, signal.SIGHUP))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=15) == 128 + signal.SIGTERM
        assert gone(family)
    assert not out.exists()


def test_ranks_do_not_outlive_a_killed_stopwatch(environments, tmp_path):
    with started(environments, case(measured_steps=100000), tmp_path / "a.json") as process:
        family = ranks(process, 2)
        process.kill()
        assert gone(family)


def test_the_stopwatch_does_not_outlive_what_started_it(environments, tmp_path):
    """As after `kill -9` of Snakemake, which leaves its jobs behind."""
    python = str(environments / "pytorch.cpu/bin/python")
    words = [python, "-m", "dlperf.measure", "--case", case(measured_steps=100000)]
    code = f"import subprocess; subprocess.run({[*words, '--out', str(tmp_path / 'a.json')]!r})"
    environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
    parent = subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=subprocess.DEVNULL)
    try:
        ranks(parent, 2)
        family = descendants(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    assert gone(family)
    assert not (tmp_path / "a.json").exists()


def test_more_cores_than_the_machine_has_are_unsupported(environments, tmp_path):
    record = run(environments, case(devices_per_node=512), tmp_path / "rep1.json")
    assert record["status"] == "unsupported"
    assert "512 cores are needed" in record["reason"]


def test_wrong_cases_are_refused_with_every_problem(environments, tmp_path):
    document = json.loads(case(framework="pytorhc", batch_size=0))
    document["identity"]["color"] = "red"
    del document["identity"]["layout"]["accumulation"]
    document["identity"]["layout"].update(zero_stage=4, activation_checkpointing=1, data_parallel=2)
    out = tmp_path / "rep1.json"
    with started(environments, json.dumps(document), out) as process:
        assert process.wait(timeout=20) == 1
    said = out.with_suffix(".log").read_text()
    assert "identity.framework: 'pytorhc'" in said and "pytorch" in said
    assert "identity.batch_size: 0; at least 1" in said
    assert "identity.color: unknown key" in said
    assert "identity.layout.accumulation: missing" in said
    assert "identity.layout.zero_stage: 4; allowed: 0, 1, 2, 3" in said
    assert "identity.layout.activation_checkpointing: 1 is not true or false" in said
    assert "identity.layout.data_parallel: unknown key; known: tensor_parallel, " in said
    assert "Traceback" not in said


def test_an_environment_that_failed_to_build_is_a_crash_with_its_reason(environments, tmp_path):
    env = tmp_path / "env.json"
    env.write_text(json.dumps({"status": "failed", "reason": "no wheel for this machine"}))
    record = run(environments, case(), tmp_path / "rep1.json", "--environment", str(env))
    assert record["status"] == "crashed"
    assert record["reason"] == "no environment: no wheel for this machine"


def test_a_wait_that_waits_for_nothing_is_a_crash(environments, tmp_path):
    waits_for_nothing = Replace("train", "Work(..., wait=_)", "Work(..., wait=lambda: None)")
    scripts = copied_scripts(tmp_path, "frameworks/mxnet/training.py", waits_for_nothing)
    document = case(framework="mxnet", compiler="static", devices_per_node=1, measured_steps=5)
    env = str(environments / "mxnet.cpu/env.json")
    right = run(environments, document, tmp_path / "right.json", "--environment", env)
    assert right["status"] == "ok", right["reason"]
    wrong = run(
        environments, document, tmp_path / "wrong.json", "--environment", env, scripts=scripts
    )
    assert wrong["status"] == "crashed"
    assert "`wait` returned" in wrong["reason"]


QUEUED = """
def queued(work):
    '''Steps, and what reads their results, in a thread of their own, which nobody waits for.'''
    from concurrent.futures import ThreadPoolExecutor

    pool, step, loss = ThreadPoolExecutor(1), work.step, work.loss
    work.step = lambda: pool.submit(step)
    work.loss = lambda handle: pool.submit(lambda: loss(handle.result())).result()
    work.wait = lambda: None
    return work
"""
IN_A_THREAD = Replace(
    "", "scenario.prepare(...)", "queued(scenario.prepare(...))", definitions=QUEUED
)


@pytest.mark.full
@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_steps_that_a_thread_takes_after_the_window_are_a_crash(environments, framework, tmp_path):
    """Also of frameworks whose own steps return when they are done."""
    scripts = copied_scripts(tmp_path, "measure/rank.py", IN_A_THREAD)
    compiler = frameworks.of(framework).default_compiler["cpu"]
    changes = dict(framework=framework, compiler=compiler, devices_per_node=1, measured_steps=5)
    env = str(environments / f"{framework}.cpu/env.json")
    record = run(
        environments,
        case(**changes),
        tmp_path / "rep1.json",
        *("--environment", env),
        scripts=scripts,
    )
    assert record["status"] == "crashed"
    assert "`wait` returned" in record["reason"]


def copied_scripts(folder: Path, file: str, edit: Edit) -> Path:
    """A copy of the project's code in which one thing is another."""
    scripts = folder / "scripts"
    shutil.copytree(ROOT / "scripts", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    edit_file(edit, scripts / "dlperf" / file)
    return scripts


def test_every_record_ever_made_is_kept(environments, tmp_path):
    document, out = case(devices_per_node=512), tmp_path / "rep1.json"
    for _ in range(2):
        run(environments, document, out, "--attempts", str(tmp_path / "attempts"))
        out.unlink()
    assert len(list((tmp_path / "attempts").rglob("rep1-*.json"))) == 2


def test_two_repetitions_wait_for_each_other(environments, tmp_path):
    lock = ("--lock", str(tmp_path / "lock"))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    document = case(devices_per_node=1)
    with started(environments, document, first, *lock) as one:
        with started(environments, document, second, *lock) as two:
            assert one.wait(timeout=120) == two.wait(timeout=120) == 0
    windows = [json.loads(path.read_text())["window"][0] for path in (first, second)]
    windows.sort(key=lambda window: window["start"])
    assert windows[0]["end"] <= windows[1]["start"]
