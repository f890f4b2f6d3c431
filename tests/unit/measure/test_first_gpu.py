"""benchmarks/first_gpu.py: its list, its minutes, its table, and what cannot be true in it."""

import argparse
import copy
import importlib.util
import json
import math
import os
import subprocess
import sys
import time

import fake_smi
import pytest
import yaml
from conftest import ROOT

from dlperf import plan, workloads
from dlperf.contract.case import UNSAID
from dlperf.measure import by_hand, host
from dlperf.plan import peaks
from dlperf.workloads.cases import case_of

SCRIPT = ROOT / "benchmarks/first_gpu.py"
sys.path.insert(0, str(SCRIPT.parent))
import first_gpu  # noqa: E402
from card import cases, running, table  # noqa: E402


def asked(tmp_path, device: str, *, small: bool) -> argparse.Namespace:
    return argparse.Namespace(
        out=tmp_path,
        device=device,
        small=small,
        part=["first", "others"],
        workload=list(workloads.NAMES),
        framework=["pytorch", "jax"],
        limit=60,
        certify=False,
        time=running.Minutes(0),
        data=ROOT / "results/data",
    )


def cases_of(found) -> dict:
    """Title -> case, each of which the stopwatch takes."""
    return {title: case_of(by_hand.document(values)["identity"]) for title, values in found}


def test_mixed_precision_comes_first_by_way_and_in_both_batches(tmp_path):
    found = cases_of(cases.mixed(asked(tmp_path, "cuda", small=False)))
    ways = [
        (case.framework, case.compiler, case.workload, case.batch_size) for case in found.values()
    ]
    batches = [("resnet50", 256), ("resnet50", 512), ("bert", 64), ("bert", 256)]
    order = [("pytorch", "inductor"), ("jax", "xla"), ("pytorch", "none")]
    assert ways == [(*way, *batch) for way in order for batch in batches]
    assert {case.precision for case in found.values()} == {"amp"}


def test_the_list_is_in_the_order_of_what_it_tells(tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    options.certify = True
    titles = [title for title, _ in first_gpu.first(options)]
    order = [
        *("nvidia-smi", "resnet50 pytorch-inductor amp batch 256"),
        *("resnet50 jax-xla amp batch 256", "resnet50 pytorch-none amp batch 256"),
        *("profile of resnet50 pytorch-inductor amp", "program of bert jax-xla amp"),
        *("bert watched", "CUDA graphs of resnet50 pytorch-inductor amp"),
        *("benchmark_limit of resnet50 pytorch-inductor amp",),
        *("bert pytorch-inductor amp, padded vocabulary", "resnet50 pytorch-inductor tf32"),
        *("waits of bert pytorch-none amp_fp16", "certificates of bert"),
        *("spot check of resnet50 on cuda", "spot check of resnet50 on cpu"),
        *("resnet50 pytorch-none fp32, must be oom", "resnet50 pytorch-inductor fp32"),
    ]
    assert [titles.index(title) for title in order] == sorted(map(titles.index, order))
    assert all("fp32" in title for title in titles[-6:])
    assert len(set(titles)) == len(titles)


def test_everything_in_the_list_is_a_case_that_the_stopwatch_takes(tmp_path):
    found = cases_of(cases.first(asked(tmp_path, "cuda", small=False)))
    assert len(found) == 12 + 2 + 6 + 1 + 6
    (large,) = [case for title, case in found.items() if title.endswith("must be oom")]
    assert (large.batch_size, large.framework, large.compiler) == (4096, "pytorch", "none")


def test_electra_has_more_time_as_jax_compiles_two_networks(tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    limits = {values["workload"]: values["timeout_seconds"] for _, values in cases.others(options)}
    assert limits["electra"] == 300 and limits["gpt"] == 60


def test_then_come_all_other_workloads_and_scenarios(tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    measured = list(cases_of(cases.first(options)).values())
    measured += cases_of(cases.others(options)).values()
    for framework in ("pytorch", "jax"):
        found = {(each.workload, each.scenario) for each in measured if each.framework == framework}
        there = {
            (workload, scenario)
            for workload in workloads.NAMES
            for scenario in ("train", "infer", "quality")
            if workloads.implements(workload, framework, scenario)
        }
        # of SQuAD's sample nothing is learned
        assert found == there - {("electra_squad", "quality")} | {("resnet50", "server")}


def test_its_records_are_those_of_a_round_of_one_card(tmp_path):
    """With what docs/gpu-by-hand.md says is to be changed in the config."""
    options = asked(tmp_path, "cuda", small=False)
    mapping = yaml.safe_load((ROOT / "config/rounds/one-gpu.yaml").read_text())
    mapping |= {"round": "first-gpu", "frameworks": options.framework, "repetitions": 1}
    mapping |= {"timeout_seconds": options.limit, "cores_per_device": min(4, len(host.cores()))}
    mapping["workloads"]["bert"]["padded_vocabulary"] = [False, True]
    mapping["workloads"]["electra"]["timeout_seconds"] = 300
    mapping["workloads"]["electra_squad"]["data"] = ["synthetic"]
    config = plan.load(mapping)
    of_round = {case.folder: plan.document(case, config, 1) for case in plan.expand(config)}
    measured = [*cases.first(options), *cases.others(options)]
    for title, values in measured:
        document = by_hand.document(values)
        there = of_round.get(case_of(document["identity"]).folder)
        if not title.endswith("must be oom"):
            assert there, title
            assert {**UNSAID, **there["settings"]} == {**UNSAID, **document["settings"]}, title
            assert there["identity"] == document["identity"], title


def test_a_record_of_prepared_data_has_the_folder_that_a_round_has(tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    folders = {values.get("data_dir", "") for _, values in cases.others(options)}
    assert folders == {"", *(f"results/data/{each}" for each in ("digits", "prose"))} | {
        "results/data/criteo-sample-npz"
    }
    options.data = tmp_path
    folders = {values.get("data_dir", "") for _, values in cases.others(options)}
    assert str(tmp_path / "digits") in folders


def test_on_a_cpu_the_others_are_small_and_each_comes_once(tmp_path):
    found = cases_of(cases.others(asked(tmp_path, "cpu", small=True)))
    assert len(set(found.values())) == len(found)
    assert max(c.batch_size for c in found.values() if c.scenario != "quality") == 2


def test_what_a_cpu_cannot_do_is_a_row_and_does_not_stop_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    options = asked(tmp_path, "cpu", small=True)
    values = cases.of("resnet50", "pytorch", "none", "tf32", options)
    (entry,) = first_gpu.measure("resnet50 in TF32", values, options)
    row = entry.row({})
    assert "TF32 is a format of GPUs" in row[1] and len(row) == len(table.HEAD)


def test_a_framework_that_is_not_there_is_a_row(tmp_path):
    options = asked(tmp_path, "cpu", small=True)
    values = cases.of("bert", "jax", "xla", "fp32", options)
    (entry,) = first_gpu.measure("bert", values, options)
    assert entry.status == "no jax in this Python"


def record(**changed):
    """A record of a card that is well."""
    identity = by_hand.document(
        {"workload": "resnet50", "framework": "pytorch", "device": "cuda", "precision": "amp"}
    )["identity"]
    found = {
        "status": "ok",
        "identity": identity,
        "settings": {"device": "cuda", "measured_steps": 100},
        "parity": {"compute_dtype": "bfloat16"},
        "samples": 25600,
        "unit": "images",
        "steps": {"loss": [7.0, 6.9, 6.8]},
        "window": [{"start": 1.0, "end": 5.0, "node": "n"}],
        "memory": [{"device_peak_bytes": 2**34, "device_total_peak_bytes": None}],
        "energy": [{"joules": 2560.0}],
        "host": {"gpus_before": [{"name": "NVIDIA H100 80GB HBM3"}]},
    }
    found = {**copy.deepcopy(found), **changed}
    return {**found, "steps": {"measured": 100, **found["steps"]}}


def test_a_record_becomes_a_row_with_mfu_beside_both_peaks():
    row = table.row("a", record(), {"bf16": 700.0})
    # 6,400 images/s of 24.54 GFLOP: 157 of 989.4 and of 700 TFLOP/s
    assert row == (
        *("a", "ok", "6400.0 images/s", "40.00 ms", "15.9% / 22.4%", "16.00 GiB"),
        *("0.100 J", "bfloat16"),
    )


def status(found, peaks=None):
    return table.Entry("a", record=found).row(peaks or {})[1]


FAST = [{"start": 1.0, "end": 1.4, "node": "n"}]  # 1,571 TFLOP/s, of an H100's 989


@pytest.mark.parametrize(
    ("changed", "peaks", "reason"),
    [
        ({"window": FAST}, {}, "158.7% of the stated peak"),
        ({"window": FAST, "host": {}}, {"bf16": 700.0}, "224.3% of the measured peak"),
        ({"steps": {"loss": [7.0] * 100}}, {}, "the loss is 7 in all 100 steps"),
        ({"steps": {"loss": [0.0, 0.0]}}, {}, "the loss is 0 in all 2 steps"),
        ({"steps": {"loss": [7.0, math.nan]}}, {}, "a loss is not a finite number"),
        ({"steps": {"loss": [7.0, math.inf]}}, {}, "a loss is not a finite number"),
        ({"steps": {"loss": [7.0, None]}}, {}, "a loss is not a finite number"),
        ({"steps": {"loss": []}}, {}, "no losses"),
        ({"steps": {}}, {}, "no losses"),
        ({"samples": 0}, {}, "its record gives no figures: ZeroDivisionError"),
        ({"window": []}, {}, "its record gives no figures"),
        ({"parity": None}, {}, "its record gives no figures"),
    ],
)
def test_what_cannot_be_true_is_suspect_and_not_ok(changed, peaks, reason):
    assert status(record(**changed), peaks).startswith("suspect: ")
    assert reason in status(record(**changed), peaks)


@pytest.mark.parametrize(
    ("changed", "peaks"),
    [
        ({}, {}),
        ({}, {"bf16": 700.0}),
        ({"host": {}}, {}),  # a card of no known name
        ({"steps": {"loss": [7.0]}}, {}),  # one step, or the last loss alone: nothing to compare
        ({"steps": {"loss": [7.0, 7.0, 7.1]}}, {}),
        ({"steps": {"loss": [7.0, 7.5]}}, {}),  # that it falls is not asked of a few steps
        ({"window": FAST, "parity": {}}, {"bf16": 700.0}),  # in what it multiplied is not known
    ],
)
def test_honest_records_are_ok(changed, peaks):
    assert status(record(**changed), peaks) == "ok"


def test_a_suspect_record_is_measured_again(tmp_path, monkeypatch):
    options = asked(tmp_path, "cpu", small=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    values = cases.of("resnet50", "pytorch", "none", "fp32", options)
    document = by_hand.document(values)
    place = tmp_path / "runs" / case_of(document["identity"]).folder / "rep1.json"
    made = []

    def run(command, limit, asked):
        made.append(command)
        place.write_text(json.dumps(record(**document, steps={"loss": [7.0, 6.0]}, host={})))
        return 0, ""

    monkeypatch.setattr(first_gpu, "run", run)
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(record(**document, steps={"loss": [7.0, 7.0]}, host={})))
    for _ in range(2):  # the second time it is there, and ok
        (entry,) = first_gpu.measure("a", values, options)
        assert entry.row({})[1] == "ok"
    assert len(made) == 1


def test_a_batch_that_must_be_too_large_and_is_not_is_suspect(tmp_path, monkeypatch):
    options = asked(tmp_path, "cpu", small=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(first_gpu, "run", lambda *_: (0, ""))
    reads = iter([{}, record()])
    monkeypatch.setattr(first_gpu, "read", lambda path: next(reads))
    values = cases.of("resnet50", "pytorch", "none", "fp32", options)
    (entry,) = first_gpu.measure("a", values, options, must="oom")
    assert entry.status == "suspect: it is ok, and must be oom"


# The minutes


def test_when_the_minutes_are_over_each_row_says_that_it_was_not_reached(tmp_path):
    options = asked(tmp_path, "cpu", small=True)
    options.time = running.Minutes(1e-9)
    listed = list(first_gpu.first(options))
    found = list(first_gpu.results(listed, options))
    assert [entry.title for entry in found] == [title for title, _ in listed]
    assert {entry.status for entry in found} == {"not reached: 1e-09 minutes are over"}


def test_a_fault_in_one_does_not_lose_the_rest(tmp_path):
    def faulty():
        raise KeyError("clock")
        yield

    options = asked(tmp_path, "cpu", small=True)
    listed = [("a", faulty), ("b", lambda: [table.Entry("b", "fine")])]
    found = list(first_gpu.results(listed, options))
    assert [entry.status for entry in found] == ["failed: KeyError: 'clock'", "fine"]


SLEEPER = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("began", flush=True)
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        return "Z" not in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        return False


def ends_soon(pid: int) -> bool:
    """Whether it ends by itself no more than a moment later: a process closes its files first."""
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_running(pid)


@pytest.mark.parametrize("stubborn", [False, True])
def test_what_is_cut_off_ends_with_all_that_it_started(tmp_path, monkeypatch, stubborn):
    monkeypatch.setattr(running, "GRACE_SECONDS", 2)
    options = asked(tmp_path, "cpu", small=True)
    options.time = running.Minutes(3 / 60)
    command = ["-c", SLEEPER, tmp_path / "pid", *(["stubborn"] if stubborn else [])]
    began = time.monotonic()
    status, said = running.run(command, 60, options)
    assert (status, said) == (124, "cut off: 0.05 minutes are over")
    assert time.monotonic() - began < 12
    assert ends_soon(int((tmp_path / "pid").read_text()))


def test_what_takes_longer_than_its_own_limit_says_so(tmp_path):
    options = asked(tmp_path, "cpu", small=True)
    assert running.run(["-c", "import time; time.sleep(60)"], 1, options) == (
        124,
        "not done after 1 s",
    )
    assert running.run(["-c", "print('a'); print('b'); exit(3)"], 30, options) == (3, "b")


@pytest.mark.parametrize(
    ("option", "value"), [("--minutes", "-1"), ("--minutes", "nan"), ("--limit", "0")]
)
def test_a_time_that_cannot_be_is_refused(tmp_path, option, value):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "out"), option, value],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.startswith(f"error: {option}: ")
    assert not (tmp_path / "out").exists()


def test_it_ends_with_an_error_where_a_row_is_suspect(tmp_path, monkeypatch, capsys):
    entries = [table.Entry("a", record=record(window=FAST)), table.Entry("b", record=record())]
    monkeypatch.setattr(first_gpu, "results", lambda listed, asked: iter(entries))
    monkeypatch.setattr(sys, "argv", ["first_gpu.py", "--out", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit) as end:
        first_gpu.main()
    assert end.value.code == "error: 1 of 2 rows are suspect: their figures cannot be true"
    assert "| b | ok | 6400.0 images/s |" in (tmp_path / "results.md").read_text()


def test_an_inference_shows_its_latencies():
    asked = {"workload": "resnet50", "framework": "pytorch", "device": "cuda", "scenario": "infer"}
    identity = by_hand.document({**asked, "batch_size": 1})["identity"]
    record = {
        "identity": identity,
        "settings": {"device": "cuda", "measured_steps": 400},
        "unit": "images",
        "latency": {"ranks": [{"seconds": [0.002] * 390 + [0.005] * 10}]},
    }
    shown = table.shown(record, case_of(identity))
    assert shown == "latency, p50 2.00 ms; latency, p99 5.00 ms"


def test_stated_peaks_are_those_of_the_plan_for_every_card():
    for gpu in peaks.read().gpus.values():
        for name in gpu.names:
            assert table.stated_peaks("NVIDIA " + name) == gpu.dense_tflops
    assert table.stated_peaks("NVIDIA of tomorrow") == {}


def test_it_imports_nothing_but_the_standard_library(tmp_path):
    """As on a machine that has a framework and NumPy only."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(SCRIPT), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_list_alone_needs_no_card(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "out"), "--list"],
        env={"PATH": "", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "resnet50 server pytorch-inductor amp batch 1" in done.stdout.splitlines()
    assert not (tmp_path / "out").exists()


def test_with_a_card_and_no_framework_it_ends_with_what_there_is(tmp_path):
    fake_smi.install(tmp_path, [])
    command = [sys.executable, "-S", "-E", str(SCRIPT), "--out", str(tmp_path / "out")]
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, "--part", "first"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out/results.md").read_text().splitlines()
    assert lines[0] == "One device, NVIDIA H100 80GB HBM3."
    assert "nvidia-smi-q.txt | kept as nvidia-smi-q.txt" in "\n".join(lines[4:7])
    said = {line.split(" | ")[1].rpartition(": ")[2] for line in lines[7:]}
    assert said == {"no torch in this Python", "no jax in this Python"} | {"see the profile above"}


def test_without_a_card_it_says_how_to_try_it(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path)],
        env={"PATH": "", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: no GPU is visible; to try this on a CPU: --device cpu --small\n"
