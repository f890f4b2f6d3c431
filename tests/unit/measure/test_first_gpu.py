"""benchmarks/first_gpu.py: its list, its table, and peaks that it reads without a YAML parser."""

import argparse
import importlib.util
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT

from dlperf import plan, workloads
from dlperf.contract.case import UNSAID
from dlperf.measure import by_hand, host
from dlperf.plan import peaks
from dlperf.workloads.cases import case_of

SCRIPT = ROOT / "benchmarks/first_gpu.py"


@pytest.fixture(scope="module")
def first_gpu():
    spec = importlib.util.spec_from_file_location("first_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        data=ROOT / "results/data",
    )


def cases_of(found) -> dict:
    """Title -> case, each of which the stopwatch takes."""
    return {title: case_of(by_hand.document(values)["identity"]) for title, values in found}


def test_it_has_every_way_in_every_precision_and_ends_with_a_batch_that_no_card_holds(
    first_gpu, tmp_path
):
    found = cases_of(first_gpu.first(asked(tmp_path, "cuda", small=False)))
    titles, cases = list(found), list(found.values())
    assert len(titles) == 2 * 3 * 3 + 1
    assert cases[0].batch_size == 256 and cases[3].batch_size == 64
    assert titles[-1].endswith("must be oom") and cases[-1].batch_size == 4096


def test_then_come_all_other_workloads_and_scenarios(first_gpu, tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    cases = list(cases_of(first_gpu.first(options)).values())
    cases += cases_of(first_gpu.others(options)).values()
    for framework in ("pytorch", "jax"):
        found = {(each.workload, each.scenario) for each in cases if each.framework == framework}
        there = {
            (workload, scenario)
            for workload in workloads.NAMES
            for scenario in ("train", "infer", "quality")
            if workloads.implements(workload, framework, scenario)
        }
        # of SQuAD's sample nothing is learned
        assert found == there - {("electra_squad", "quality")} | {("resnet50", "server")}


def test_its_records_are_those_of_a_round_of_one_card(first_gpu, tmp_path):
    """With what docs/gpu-by-hand.md says is to be changed in the config."""
    options = asked(tmp_path, "cuda", small=False)
    mapping = yaml.safe_load((ROOT / "config/rounds/one-gpu.yaml").read_text())
    mapping |= {"round": "first-gpu", "frameworks": options.framework, "repetitions": 1}
    mapping |= {"timeout_seconds": options.limit, "cores_per_device": min(4, len(host.cores()))}
    mapping["workloads"]["bert"]["padded_vocabulary"] = [False]
    mapping["workloads"]["electra_squad"]["data"] = ["synthetic"]
    config = plan.load(mapping)
    of_round = {case.folder: plan.document(case, config, 1) for case in plan.expand(config)}
    measured = [*first_gpu.first(options), *first_gpu.others(options)]
    for title, values in measured:
        document = by_hand.document(values)
        there = of_round.get(case_of(document["identity"]).folder)
        if not title.endswith("must be oom"):
            assert there, title
            assert {**UNSAID, **there["settings"]} == {**UNSAID, **document["settings"]}, title
            assert there["identity"] == document["identity"], title


def test_a_record_of_prepared_data_has_the_folder_that_a_round_has(first_gpu, tmp_path):
    options = asked(tmp_path, "cuda", small=False)
    folders = {values.get("data_dir", "") for _, values in first_gpu.others(options)}
    assert folders == {"", *(f"results/data/{each}" for each in ("digits", "prose"))} | {
        "results/data/criteo-sample-npz"
    }
    options.data = tmp_path
    folders = {values.get("data_dir", "") for _, values in first_gpu.others(options)}
    assert str(tmp_path / "digits") in folders


def test_on_a_cpu_the_others_are_small_and_each_comes_once(first_gpu, tmp_path):
    found = cases_of(first_gpu.others(asked(tmp_path, "cpu", small=True)))
    assert len(set(found.values())) == len(found)
    assert max(c.batch_size for c in found.values() if c.scenario != "quality") == 2


def test_what_a_cpu_cannot_do_is_a_row_and_does_not_stop_the_list(first_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    options = asked(tmp_path, "cpu", small=True)
    values = first_gpu.of("resnet50", "pytorch", "none", "tf32", options)
    row = first_gpu.measure("resnet50 in TF32", values, options, {})
    assert "TF32 is a format of GPUs" in row[1] and len(row) == len(first_gpu.HEAD)


def test_a_framework_that_is_not_there_is_a_row(first_gpu, tmp_path):
    options = asked(tmp_path, "cpu", small=True)
    values = first_gpu.of("bert", "jax", "xla", "fp32", options)
    assert first_gpu.measure("bert", values, options, {})[1] == "no jax in this Python"


def test_a_record_becomes_a_row_with_mfu_beside_both_peaks(first_gpu):
    identity = by_hand.document(
        {"workload": "resnet50", "framework": "pytorch", "device": "cuda", "precision": "amp"}
    )["identity"]
    record = {
        "identity": identity,
        "settings": {"device": "cuda", "measured_steps": 100},
        "parity": {"compute_dtype": "bfloat16"},
        "samples": 25600,
        "unit": "images",
        "window": [{"start": 1.0, "end": 5.0, "node": "n"}],
        "memory": [{"device_peak_bytes": 2**34, "device_total_peak_bytes": None}],
        "energy": [{"joules": 2560.0}],
        "host": {"gpus_before": [{"name": "NVIDIA H100 80GB HBM3"}]},
    }
    row = first_gpu.row("a", record, {"bf16": 700.0})
    # 6,400 images/s of 24.54 GFLOP: 157 of 989.4 and of 700 TFLOP/s
    assert row == (
        *("a", "ok", "6400.0 images/s", "40.00 ms", "15.9% / 22.4%", "16.00 GiB"),
        *("0.100 J", "bfloat16"),
    )


def test_an_inference_shows_its_latencies(first_gpu):
    asked = {"workload": "resnet50", "framework": "pytorch", "device": "cuda", "scenario": "infer"}
    identity = by_hand.document({**asked, "batch_size": 1})["identity"]
    record = {
        "identity": identity,
        "settings": {"device": "cuda", "measured_steps": 400},
        "unit": "images",
        "latency": {"ranks": [{"seconds": [0.002] * 390 + [0.005] * 10}]},
    }
    shown = first_gpu.shown(record, case_of(identity))
    assert shown == "latency, p50 2.00 ms; latency, p99 5.00 ms"


def test_stated_peaks_are_those_of_the_plan_for_every_card(first_gpu):
    for gpu in peaks.read().gpus.values():
        for name in gpu.names:
            assert first_gpu.stated_peaks("NVIDIA " + name) == gpu.dense_tflops
    assert first_gpu.stated_peaks("NVIDIA of tomorrow") == {}


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
