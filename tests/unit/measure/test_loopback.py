"""A loopback of a repetition's own: who is in it is heard, who is not is not."""

import io
import os
import socket
import subprocess
import sys

import psutil
import pytest

from dlperf.measure import loopback

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
