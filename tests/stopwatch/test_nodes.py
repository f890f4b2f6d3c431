"""Several nodes without a cluster: a launcher of the shell's that starts two agents here."""

import json
import shlex
import signal
import time
from pathlib import Path

import psutil
import pytest
from test_stopwatch import case, descendants, ranks, run, started, words

LAUNCHER = shlex.join(
    [
        "sh",
        "-c",
        'for node in 0 1; do SLURM_PROCID=$node SLURMD_NODENAME=node$node "$@" & done; wait',
        "launcher",
    ]
)


def nodes(launcher: str = LAUNCHER, interface: str = "lo") -> list[str]:
    return [f"--launcher={launcher}", f"--interface={interface}"]


def two_nodes(**changes) -> str:
    return case(nodes=2, devices_per_node=1, **changes)


def agents(process) -> list[psutil.Process]:
    own = ["-m", "dlperf.measure.agent"]
    found = [each for each in descendants(process.pid) if words(each)[1:3] == own]
    return sorted(found, key=lambda each: each.environ()["SLURM_PROCID"])


def test_two_nodes_give_one_record(environments, tmp_path):
    record = run(environments, two_nodes(), tmp_path / "rep1.json", *nodes())
    assert record["status"] == "ok", record["reason"]
    assert [(each["rank"], each["node"]) for each in record["window"]] == [
        (0, "node0"),
        (1, "node1"),
    ]
    assert [each["hostname"] for each in record["host"]["nodes"]] == ["node0", "node1"]
    assert all(each["cpu_time_over_wall"] > 0 for each in record["host"]["nodes"])
    assert record["samples"] == 2 * 2 * 3
    assert record["parity"]["network_interface"] == "lo"


def test_two_devices_train_alike_on_one_node_and_on_two(environments, tmp_path):
    one = run(environments, case(), tmp_path / "one.json")
    two = run(environments, two_nodes(), tmp_path / "two.json", *nodes())
    assert one["steps"]["loss"] == pytest.approx(two["steps"]["loss"], rel=1e-5)


def test_a_node_that_goes_away_is_a_crash_at_once(environments, tmp_path):
    document, out = two_nodes(measured_steps=100000), tmp_path / "rep1.json"
    with started(environments, document, out, *nodes()) as process:
        own = ranks(process, 2)
        agents(process)[1].send_signal(signal.SIGKILL)
        begun = time.monotonic()
        assert process.wait(30) == 0
        assert time.monotonic() - begun < 15
        assert not psutil.wait_procs(own, timeout=5)[1]
    record = json.loads(out.read_text())
    assert record["status"] == "crashed"
    assert "node1: lost" in record["reason"] or "rank" in record["reason"]


def test_nothing_outlives_a_killed_stopwatch(environments, tmp_path):
    document, out = two_nodes(measured_steps=100000), tmp_path / "rep1.json"
    with started(environments, document, out, *nodes()) as process:
        all_of_them = [*ranks(process, 2), *agents(process)]
        process.kill()
        process.wait()
        assert not psutil.wait_procs(all_of_them, timeout=15)[1]


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        ([], "unsupported", "2 nodes need a job of a cluster: snakemake --profile slurm"),
        (nodes("srun"), "unsupported", "2 nodes need a job of a cluster"),
        (nodes("false"), "crashed", "no nodes: the launcher ended with status 1"),
        (nodes("no-such-launcher"), "crashed", "no nodes: no-such-launcher: No such file"),
        (nodes(interface="ib7"), "crashed", "has no network interface 'ib7'"),
        (nodes("sh -c 'sleep 60'"), "timeout", "no nodes: 0 of 2 nodes connected in time"),
    ],
)
def test_nodes_that_do_not_come(options, status, reason, environments, tmp_path):
    document = two_nodes(timeout_seconds=5)
    record = run(environments, document, tmp_path / "rep1.json", *options)
    assert record["status"] == status
    assert reason in record["reason"]


def test_a_node_that_is_too_small_is_unsupported(environments, tmp_path):
    document, out = two_nodes(cores_per_device=4096), Path(tmp_path / "rep1.json")
    record = run(environments, document, out, *nodes())
    assert record["status"] == "unsupported"
    assert "4096 cores are needed" in record["reason"] and "on node0" in record["reason"]
