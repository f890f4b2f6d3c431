"""The calibration of a node: a real one, of this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS, snakemake

from dlperf.analysis.round.calibration import nodes
from dlperf.measure.probe import TURNS

DEVICES = 2
PYTORCH = "results/environments/pytorch.cpu/env.json"


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory) -> Path:
    """The file of this machine's calibration."""
    snakemake("--", PYTORCH)
    return calibrate(PYTORCH, tmp_path_factory.mktemp("nodes") / "here.json")


def calibrate(environment: str, out: Path) -> Path:
    probe = [sys.executable, "-m", "dlperf.measure.probe", "--devices", str(DEVICES)]
    probe += ["--sustained", "0.5"]
    done = subprocess.run(
        [*probe, "--environment", environment, "--out", str(out)],
        cwd=ROOT,
        env={"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def test_products_memory_and_exchange_are_timed_alone_and_all_at_once(calibrated):
    document = nodes.read(calibrated)
    assert (document["status"], document["reason"]) == ("ok", "")
    found = {
        (rank["rank"], nodes.label(entry), entry["at_once"])
        for rank in document["ranks"]
        for entry in rank["measured"]
    }
    alone = {"gemm fp32", "gemm bf16", "copy", "triad"}
    assert found == {(0, what, 1) for what in alone} | {
        (rank, what, DEVICES) for rank in range(DEVICES) for what in alone | {"allreduce"}
    }


def test_what_all_devices_sustain_together_stands_beside_their_turns(calibrated):
    document = nodes.read(calibrated)
    for rank in document["ranks"]:
        (held,) = rank["sustained"]
        assert (held["precision"], held["at_once"]) == ("bf16", DEVICES)
        assert held["seconds"] >= 0.5 and held["flops"] > 0
    assert "sustained bf16" in nodes.rows([calibrated])[0]["figures"]


def test_every_turn_stands_with_its_seconds_and_what_was_done_in_it(calibrated):
    document = json.loads(calibrated.read_text())
    for rank in document["ranks"]:
        for entry in rank["measured"]:
            # one core without instructions for bfloat16 takes seconds a product
            turns = {1, TURNS} if entry["precision"] == "bf16" else {TURNS}
            assert len(entry["seconds"]) in turns and all(each > 0 for each in entry["seconds"])
            if entry["what"] == "gemm":
                assert entry["flops"] == 2 * rank["side"] ** 3
                assert 0.0005 < nodes.rate(entry, min) < 50, "TFLOP/s of one core"
            else:
                assert 0.01 < nodes.rate(entry, min) < 2000, "GB/s of one core"


def test_the_node_says_how_it_was(calibrated):
    document = json.loads(calibrated.read_text())
    assert document["environment"]["framework"] == "pytorch"
    (host,) = document["nodes"]
    assert host["cpu"] and host["idle_share_before"] is not None
    assert 0 <= host["foreign_cpu_share"] <= 1
    (row,) = nodes.rows([calibrated])
    alone = {"gemm fp32", "gemm bf16", "copy", "triad", "allreduce"}
    assert set(row["figures"]) == alone | {"sustained bf16"}
