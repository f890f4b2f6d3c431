"""A real search, under a real limit of memory, against a scan."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import plan
from dlperf.contract import searched
from dlperf.search.tries import problems

GRANULE = 8


def document(limit: str) -> tuple[dict, dict]:
    """(case document, options of the search) of ResNet-50 at 64 px, as a round asks for them."""
    config = plan.load(
        {
            "round": "largest",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {
                "resnet50": {
                    "precisions": ["fp32"],
                    "batch_sizes": {"fp32": ["max"]},
                    "image_size": 64,
                }
            },
            "topologies": ["1n1d"],
            "steps": {"warmup": 1, "measured": 3},
            "search": {"granule": GRANULE, "steps": 4, "repetitions": 1},
            "memory_limit": limit,
            "timeout_seconds": 300,
        }
    )
    (case,) = plan.expand(config)
    return plan.document(case, config, 1), plan.search_of(case, config)


def run(environments: Path, module: str, case: dict, out: Path, *more: str) -> dict:
    python, built = (environments / "pytorch.cpu" / name for name in ("bin/python", "env.json"))
    done = subprocess.run(
        [str(python), "-m", module, "--case", json.dumps(case), "--out", str(out)]
        + ["--environment", str(built), *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


def search(environments: Path, limit: str, out: Path) -> tuple[dict, dict]:
    case, how = document(limit)
    options = [f"--{name}={value}" for name, value in how.items()]
    return case, run(environments, "dlperf.search", case, out, *options)


@pytest.mark.full
def test_a_search_finds_what_a_scan_finds_in_12_tries(environments, tmp_path):
    case, found = search(environments, "1.2 GB", tmp_path / "search.json")
    assert (found["status"], found["above"]) == ("ok", "oom")
    assert len(found["tries"]) <= 12
    assert problems(found) == []

    largest = found["value"]
    fits = []
    for size in range(largest - 2 * GRANULE, largest + 5 * GRANULE, GRANULE):
        sized = searched.sized(case, size)
        record = run(environments, "dlperf.measure", sized, tmp_path / "rep1.json")
        assert record["status"] in ("ok", "oom"), record["reason"]
        if record["status"] == "ok":
            fits.append(size)
            assert record["memory"][0]["committed_peak_bytes"] <= 1.2e9
    assert abs(max(fits) - largest) <= GRANULE, fits


def test_a_limit_below_one_sample_is_one_message_and_no_failure(environments, tmp_path):
    _, found = search(environments, "300 MB", tmp_path / "search.json")
    assert (found["status"], found["value"]) == ("oom", 1)
    assert found["reason"].startswith("not even batch_size 1 fits within memory_limit (0.3 GB): ")
    assert "\n" not in found["reason"]
