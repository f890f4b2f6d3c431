"""Calibrated nodes side by side."""

import json
from pathlib import Path

import jsonschema
import pytest
from examples import examples
from generated_round import config
from hypothesis import given
from hypothesis import strategies as st
from json_documents import damaged

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.round.calibration import limits, nodes
from dlperf.analysis.schema import documents
from dlperf.analysis.schema.files import AnalysisError

CONFIG = plan.load(config(frameworks=["pytorch"]))


HELD = {"precision": "bf16", "at_once": 1, "seconds": 10.0, "flops": 6e15}
HELD["parts"] = [[4.0, 2.6e15], [6.0, 3.4e15]]


def probed(folder: Path, name: str, tflops: float, sustained=(), **state) -> None:
    """A node's calibration; its median turn is that of `tflops`, the fastest twice as fast."""
    host = {"hostname": name, "idle_share_before": 0.99, "busy_processes_before": []}
    host["disk_free_bytes_before"] = 10**12
    seconds = [1.0, 1.0, 0.5]
    gemm = {"what": "gemm", "precision": "fp32", "at_once": 1, "flops": tflops * 1e12}
    copy = {"what": "copy", "precision": "", "at_once": 1, "bytes": 10e9}
    measured = [{**each, "seconds": seconds} for each in (gemm, copy)]
    document = {
        "schema": "dlperf.node/2",
        "status": "ok",
        "reason": "",
        "device": "cpu",
        "devices": 1,
        "cores_per_device": 1,
        "start_utc": "2026-11-21T10:00:00Z",
        "nodes": [{**host, **state}],
        "ranks": [{"rank": 0, "node": name, "measured": measured, "sustained": list(sustained)}],
    }
    (folder / f"{name}.json").write_text(json.dumps(document))


def test_a_slow_node_is_named_with_its_deviation_from_the_others(tmp_path):
    for name, tflops in (("a", 1.0), ("b", 1.02), ("c", 0.8), ("d", 0.98)):
        probed(tmp_path, name, tflops)
    found = {row["node"]: row for row in nodes.rows(tmp_path.glob("*.json"))}
    assert found["c"]["warnings"] == ["gemm fp32 20% below the others' median"]
    assert found["c"]["deviations"]["gemm fp32"] == pytest.approx(-0.2)
    assert not any(found[name]["warnings"] for name in "abd")
    text = nodes.show(list(found.values()))
    assert text.startswith("c: gemm fp32 0.8 (-20.0%) TFLOP/s, copy 10 (+0.0%) GB/s\n")
    assert text.endswith("To leave them out: slurm-exclude-failed-nodes: c")


def test_what_a_node_sustains_stands_beside_its_best_turns(tmp_path):
    probed(tmp_path, "a", 1.0, [HELD])
    probed(tmp_path, "b", 1.0, [{**HELD, "seconds": 10.0}])
    found = nodes.rows(tmp_path.glob("*.json"))
    assert [row["figures"]["sustained bf16"] for row in found] == [600.0, 600.0]
    assert "sustained bf16 600 (+0.0%) TFLOP/s" in nodes.show(found)
    rows = list(limits.reached(nodes.read(tmp_path / "a.json")))
    (held,) = [row for row in rows if row["basis"] == "sustained"]
    assert (held["what"], held["precision"], held["limit"]) == ("gemm", "bf16", 600.0)
    # MFU is of the best turns, as before
    assert limits.measured_peak(["a"], 1, "bf16", rows) is None
    assert limits.measured_peak(["a"], 1, "fp32", rows) == 2.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seconds": 5.0}, "what was sustained is not the sum of its parts"),
        ({"flops": 7e15}, "what was sustained is not the sum of its parts"),
        ({"at_once": 2}, "2 at once of 1 devices"),
        ({"parts": []}, "parts"),
        ({"parts": [[10.0, 6e15, 1.0]]}, "parts"),
        ({"parts": [[0.0, 6e15], [10.0, 1.0]]}, "parts"),
        ({"precision": "fp64"}, "precision"),
    ],
)
def test_what_contradicts_itself_is_not_sustained(tmp_path, changed, said):
    probed(tmp_path, "a", 1.0, [{**HELD, **changed}])
    with pytest.raises(AnalysisError, match=said):
        nodes.read(tmp_path / "a.json")


def test_what_disturbs_a_node_is_said(tmp_path):
    gpu = {"processes": 2, "ecc_errors": 3, "remapped_rows": [0, 1, 1, 0], "throttle_reasons": 0x44}
    probed(
        tmp_path,
        "a",
        1.0,
        idle_share_before=0.5,
        busy_processes_before=[["python3", 0.9]],
        foreign_cpu_share=0.3,
        disk_free_bytes_before=1e9,
        gpus_before=[gpu],
        gpus_after=[gpu],
    )
    (row,) = nodes.rows(tmp_path.glob("*.json"))
    assert row["warnings"] == [
        "only 50% idle before: python3 (90%)",
        "other processes used 30% of the CPU meanwhile",
        "GPU 0: 2 foreign processes",
        "GPU 0: throttled (reasons 0x44)",
        "1.0 GB free on the disk of results",
        "GPU 0: 3 uncorrected memory errors",
        "GPU 0: rows of memory wait to be remapped, or could not be",
    ]
    assert row["deviations"] == {}, "there is no other node"


def test_no_node_was_probed(tmp_path):
    assert nodes.rows(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "dlperf.node/1"}'])
def test_what_is_no_calibration_is_named_with_the_mend(tmp_path, capsys, content):
    (tmp_path / "a.json").write_text(content)
    assert main(["nodes", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {tmp_path}/a.json: ") and "--forcerun probe" in said
    assert len(said.splitlines()) == 1


@examples(300)
@given(data=st.data())
def test_a_damaged_calibration_is_named_or_changes_no_number(tmp_path, data):
    """Of what is read from it: the row among nodes, and the limits of its devices."""
    probed(tmp_path, "a", 1.0)
    path = tmp_path / "a.json"
    before = read_from(path)
    path.write_bytes(damaged(json.loads(path.read_text()), data.draw))
    try:
        after = read_from(path)
    except AnalysisError as error:
        assert str(path) in str(error) and "--forcerun probe" in str(error)
    else:
        assert set(after) <= set(before), "what is missing is absent, what is there is the same"


def read_from(path: Path) -> list[str]:
    (row,) = nodes.rows([path])
    nodes.show([row])
    document = nodes.read(path)
    found = list(limits._measured(document, path.name, CONFIG))
    free = ("source_sha256", "device_name")  # the file itself, and what the machine calls itself
    kept = [{key: each[key] for key in each if key not in free} for each in found]
    return [json.dumps(each) for each in [*row["figures"].items(), *kept]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"devices": 3}, "ranks: 1 of nodes with 3 devices"),
        ({"nodes": [{"hostname": "b"}]}, "ranks: 'a' is none of nodes"),
        ({"ranks": 5}, "ranks: 5 is not of type 'array'"),
    ],
)
def test_a_calibration_must_not_contradict_itself(tmp_path, change, said):
    probed(tmp_path, "a", 1.0)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(AnalysisError, match=said):
        nodes.read(path)


@pytest.mark.parametrize(
    "precision, seconds, accepted",
    # on a busy machine the turn that counts may be a short one
    [
        ("bf16", [9.1], True),
        ("bf16", [0.01], True),
        ("bf16", [9.1] * 2, False),
        ("fp32", [9.1], False),
    ],
)
def test_only_a_product_that_may_be_slow_may_have_been_timed_once(
    tmp_path, precision, seconds, accepted
):
    probed(tmp_path, "a", 1.0)
    path = tmp_path / "a.json"
    document = json.loads(path.read_text())
    gemm, copy = document["ranks"][0]["measured"]
    slow = {**gemm, "precision": precision, "at_once": 1, "seconds": seconds}
    document["ranks"][0]["measured"] = [copy, slow]
    path.write_text(json.dumps(document))
    if accepted:
        assert nodes.read(path)["ranks"][0]["measured"][1]["seconds"] == seconds
        return
    with pytest.raises(AnalysisError, match="not as many turns everywhere"):
        nodes.read(path)


def test_a_record_and_a_calibration_describe_a_host_alike():
    record, node = documents.load(documents.RECORD), documents.load(documents.NODE)
    jsonschema.Draft202012Validator.check_schema(node)
    assert record["$defs"] == node["$defs"]
