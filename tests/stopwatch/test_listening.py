"""Where the processes of a repetition listen: ranks of one node are out of everybody's reach."""

import contextlib
import json
import os
import time
from pathlib import Path

import psutil
import pytest
from conftest import one_of_all
from test_stopwatch import case, descendants, started

from dlperf import frameworks
from dlperf.measure.loopback import SWITCH

#: Of a socket that listens, in /proc/net/tcp.
LISTENS = "0A"
#: Those that listen on all addresses where ranks share the machine's loopback: docs/clusters.md.
EVERYWHERE = {"pytorch", "tensorflow", "paddlepaddle", "oneflow"}


def listening(pid: int) -> dict[str, set[str]]:
    """{network namespace: addresses, in hex as the kernel has them} where a process listens."""
    proc, found = Path(f"/proc/{pid}"), set()
    with contextlib.suppress(OSError, psutil.Error):  # it may have just ended
        space = os.readlink(proc / "ns/net")
        sockets = set()
        for each in (proc / "fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(each))
        for table in ("tcp", "tcp6"):
            for line in (proc / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENS and f"socket:[{fields[9]}]" in sockets:
                    found.add(fields[1].partition(":")[0])
        return {space: found}
    return {}


def is_loopback(address: str) -> bool:
    """127.0.0.1, also as an IPv6 address, or ::1, in words whose bytes are in the host's order."""
    return address[-8:] == "0100007F" or address == "0" * 24 + "01000000"


def watched(environments, framework: str, out: Path) -> tuple[dict, bool, bool]:
    """(record of two ranks, whether anything listened, whether beyond the machine's loopback)."""
    document = json.loads(case())
    document["identity"].update(
        framework=framework, compiler=frameworks.of(framework).default_compiler["cpu"]
    )
    environment = environments / f"{framework}.cpu/env.json"
    here, anywhere, beyond = os.readlink("/proc/self/ns/net"), False, False
    with started(
        environments, json.dumps(document), out, f"--environment={environment}"
    ) as process:
        while process.poll() is None:
            for pid in [process.pid, *(each.pid for each in descendants(process.pid))]:
                for space, addresses in listening(pid).items():
                    anywhere = anywhere or bool(addresses)
                    beyond = beyond or space == here and not all(map(is_loopback, addresses))
            time.sleep(0.05)
    return json.loads(out.read_text()), anywhere, beyond


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_nobody_outside_reaches_the_ranks_of_one_node(environments, tmp_path, framework):
    record, anywhere, beyond = watched(environments, framework, tmp_path / "rep1.json")
    assert record["status"] == "ok", record["reason"]
    log = (tmp_path / "rep1.log").read_text()
    if "share this machine's loopback" in log:
        pytest.skip(log.partition("\n")[0])
    assert anywhere, "ranks meet somewhere"
    assert not beyond
    assert record["host"]["loopback"] == "private"


@pytest.mark.full
@pytest.mark.parametrize("framework", one_of_all("jax"))
def test_a_shared_loopback_leaves_what_the_documentation_says(
    environments, tmp_path, framework, monkeypatch
):
    monkeypatch.setenv(SWITCH, "shared")
    record, anywhere, beyond = watched(environments, framework, tmp_path / "rep1.json")
    assert record["status"] == "ok", record["reason"]
    assert anywhere and beyond == (framework in EVERYWHERE)
    assert record["host"]["loopback"] == "shared"
