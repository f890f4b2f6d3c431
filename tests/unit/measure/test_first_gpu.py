"""benchmarks/first_gpu.py: its list, its table, and peaks that it reads without a YAML parser."""

import argparse
import importlib.util
import subprocess
import sys

import pytest
from conftest import ROOT

from dlperf.measure import by_hand
from dlperf.plan import peaks

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
        workload=["resnet50", "bert"],
        framework=["pytorch", "jax"],
        limit=60,
    )


def test_it_has_every_way_in_every_precision_and_ends_with_a_batch_that_no_card_holds(
    first_gpu, tmp_path
):
    titles, documents = [], []
    for title, values in first_gpu.cases(asked(tmp_path, "cuda", small=False)):
        titles.append(title)
        documents.append(by_hand.document(values)["identity"])
    assert len(set(titles)) == 2 * 3 * 3 + 1
    assert documents[0]["batch_size"] == 256 and documents[3]["batch_size"] == 64
    assert titles[-1].endswith("must be oom") and documents[-1]["batch_size"] == 4096


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
