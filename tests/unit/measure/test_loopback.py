"""A loopback of a repetition's own: who is in it is heard, who is not is not."""

import io
import os
import socket
import subprocess
import sys
import types

import psutil
import pytest

from dlperf.measure import loopback, stopwatch

ASK = "import socket; socket.create_connection(('127.0.0.1', {})).sendall(b'here')"
ALLOWED = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)


@pytest.fixture
def private():
    if ALLOWED.returncode != 0:
        pytest.skip("this machine grants no network namespace")
    found = loopback.private(io.StringIO())
    assert found
    yield found
    found.close()


def test_inside_is_heard_and_outside_is_not(private):
    port = private.listening.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    program = [sys.executable, "-c", ASK.format(port)]
    subprocess.run(program, preexec_fn=private.enter, check=True, timeout=60)
    private.listening.settimeout(10)
    connection, _ = private.listening.accept()
    assert connection.recv(10) == b"here"


def test_inside_everybody_stays_who_they_are_and_has_no_other_network(private):
    program = "import os, socket; print(os.getuid(), [name for _, name in socket.if_nameindex()])"
    said = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=private.enter, capture_output=True, text=True
    ).stdout
    assert said.split(" ", 1)[0] == str(os.getuid())
    assert "'lo'" in said and "eth" not in said


def test_who_made_it_has_ended(private):
    made = [each.cmdline() for each in psutil.Process().children(recursive=True)]
    assert not any("loopback.py" in " ".join(words) for words in made)


def test_a_user_may_want_the_machines_own(monkeypatch):
    monkeypatch.setenv(loopback.SWITCH, "shared")
    log = io.StringIO()
    assert loopback.private(log) is None
    assert "ranks share this machine's loopback (DLPERF_LOOPBACK=shared)" in log.getvalue()


def test_where_the_kernel_grants_none_the_log_says_why(monkeypatch, tmp_path):
    refusing = tmp_path / "python"
    refusing.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(refusing))
    log = io.StringIO()
    assert loopback.private(log) is None
    said = "ranks share this machine's loopback (unshare: Operation not permitted)\n"
    assert log.getvalue() == said


NCCL_ERROR = "rank 1: DistBackendError: NCCL error in: NCCLUtils.cpp:77, ncclSystemError"
PRIVATE = types.SimpleNamespace()


class MadeUpAttempt(stopwatch.Attempt):
    """One that has ended in a way, without having run."""

    def __init__(self, case, environment, log, *program, own_loopback="", begun=None, how=None):
        self._case, self._loopback = case, None if own_loopback else PRIVATE
        self._own_loopback, self.begun = own_loopback, 5.0 if begun is None else begun
        self.failure = how["failure"] if not own_loopback else None
        self._meeting = types.SimpleNamespace(times=how.get("times", {}))


def tried(monkeypatch, failure, device="cuda", times=()):
    log = io.StringIO()
    monkeypatch.setattr(stopwatch, "Attempt", MadeUpAttempt)
    case = {"settings": {"device": device}}
    how = {"failure": failure, "times": dict.fromkeys(times, 1.0)}
    return stopwatch.attempted(case, {}, log, how=how), log.getvalue()


def test_nccl_that_fails_in_it_is_tried_again_without_it_in_the_time_of_one(monkeypatch):
    attempt, log = tried(monkeypatch, ("crashed", NCCL_ERROR))
    assert attempt.failure is None and attempt.begun == 5.0
    assert "ncclSystemError" in attempt._own_loopback
    assert log.startswith("NCCL failed in a private network namespace: rank 1: DistBackendError")
    assert log.endswith("tried again on this machine's loopback\n")


@pytest.mark.parametrize(
    ("failure", "device", "times"),
    [
        (None, "cuda", ()),
        (("crashed", "rank 0: ValueError: this is another model"), "cuda", ()),
        (("oom", "rank 0: NCCL error: out of memory"), "cuda", ()),
        (("timeout", "not done after 60 s: rank 0 in start (NCCL)"), "cuda", ()),
        (("crashed", NCCL_ERROR), "cpu", ()),
        (("crashed", NCCL_ERROR), "cuda", ("orders", "window")),  # it got on before
    ],
)
def test_other_ends_are_not_tried_again(monkeypatch, failure, device, times):
    attempt, log = tried(monkeypatch, failure, device, times)
    assert (attempt.failure, log) == (failure, "")
