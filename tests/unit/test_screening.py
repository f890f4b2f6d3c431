"""Probed nodes side by side."""

import json
from pathlib import Path

from dlperf.analysis import nodes


def probed(folder: Path, name: str, tflops: float, **state) -> None:
    host = {"idle_share_before": 0.99, "busy_processes_before": [], "disk_free_bytes_before": 1e12}
    rank = {"rank": 0, "node": name, "gemm_tflops": tflops, "copy_gbytes_per_second": 10.0}
    document = {
        "schema": "dlperf.node/1",
        "status": "ok",
        "reason": "",
        "start_utc": "2026-11-21T10:00:00Z",
        "nodes": [{**host, **state}],
        "ranks": [{**rank, "allreduce_gbytes_per_second": None}],
    }
    (folder / f"{name}.json").write_text(json.dumps(document))


def test_a_slow_node_is_named_with_its_deviation_from_the_others(tmp_path):
    for name, tflops in (("a", 1.0), ("b", 1.02), ("c", 0.8), ("d", 0.98)):
        probed(tmp_path, name, tflops)
    found = {row["node"]: row for row in nodes.rows(tmp_path.glob("*.json"))}
    assert found["c"]["warnings"] == ["gemm 20% below the others' median"]
    assert abs(found["c"]["gemm_tflops_deviation"] + 0.2) < 1e-9
    assert not any(found[name]["warnings"] for name in "abd")
    text = nodes.show(list(found.values()))
    assert text.startswith("c: 0.8 (-20.0%) TFLOP/s, 10 (+0.0%) GB/s copied, – GB/s exchanged\n")
    assert text.endswith("To leave them out: slurm-exclude-failed-nodes: c")


def test_what_disturbs_a_node_is_said(tmp_path):
    gpu = {"processes": 2, "ecc_errors": 3, "remapped_rows": [0, 1, 1, 0], "throttle_reasons": 0x44}
    probed(
        tmp_path,
        "a",
        1.0,
        idle_share_before=0.5,
        busy_processes_before=[["python3", 0.9]],
        disk_free_bytes_before=1e9,
        gpus_before=[gpu],
        gpus_after=[gpu],
    )
    (row,) = nodes.rows(tmp_path.glob("*.json"))
    assert row["warnings"] == [
        "only 50% idle before: python3 (90%)",
        "1.0 GB free on the disk of results",
        "GPU 0: 2 foreign processes",
        "GPU 0: 3 uncorrected memory errors",
        "GPU 0: rows of memory wait to be remapped, or could not be",
        "GPU 0: throttled (reasons 0x44)",
    ]
    assert row["gemm_tflops_deviation"] is None, "there is no other node"


def test_no_node_was_probed(tmp_path):
    assert nodes.rows(tmp_path.glob("*.json")) == []
