"""Ranks meet among themselves: nobody else opens a barrier, ends a repetition or holds it up."""

import io
import json
import os
import shlex
import socket
import sys
import threading
import time

import psutil
import pytest

from dlperf.measure import door
from dlperf.measure.door import TOKEN, Door, listener
from dlperf.measure.launch import Launch
from dlperf.measure.meeting import Guest, Meeting

SECRET = "0123456789abcdef"
#: What comes from those who do not know the token: in the words of a rank, in JSON, in noise.
STRANGE = [
    b'wait ["window", null]\n',
    b'hello 0\nwait ["window", null]\n',
    b"5\n",
    b"null\n",
    b"[]\n",
    b"{}\n",
    b'{"token": 5, "rank": 1}\nwait ["window", null]\n',
    '{"token": "é", "rank": 1}\nwait ["window", null]\n'.encode(),
    b'{"token": "\\ud800", "rank": 1}\nwait ["window", null]\n',
    b'{"token": "", "rank": 1}\nwait ["window", null]\n',
    b'{"token": "0123456789abcdeX", "rank": 1}\nwait ["window", null]\n',
    b"\xff\xfe\x00\n",
    b"[" * 400 + b"\n",
    b"x" * 100_000,
    b"",
]


@pytest.fixture
def meeting():
    found = Meeting(2, listener("127.0.0.1"), SECRET)
    yield found
    found.close()


def stranger(address: str, words: bytes) -> socket.socket:
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.sendall(words)
    return connection


def shut_out(connection: socket.socket) -> bool:
    """Whether nothing is said, and the connection ends."""
    try:
        return connection.recv(10) == b""
    except ConnectionResetError:
        return True


def waiting(guest: Guest, barrier: str) -> threading.Thread:
    thread = threading.Thread(target=guest.wait, args=(barrier,), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("words", STRANGE)
def test_a_stranger_opens_no_barrier(meeting, words):
    first = Guest(meeting.address, 0, SECRET)
    held = waiting(first, "window")
    connection = stranger(meeting.address, words)
    held.join(0.1)
    assert held.is_alive() and not meeting.times
    if words.endswith(b"\n"):
        assert shut_out(connection)
    Guest(meeting.address, 1, SECRET).wait("window")
    held.join(5)
    assert not held.is_alive()


def test_a_barrier_counts_ranks_not_words(meeting):
    first = Guest(meeting.address, 0, SECRET)
    first._send('wait ["window", null]')
    held = waiting(first, "window")
    held.join(0.2)
    assert held.is_alive(), "one rank came twice, the other not yet"


def test_ranks_say_any_value_at_a_barrier_of_any_name(meeting):
    guests = [Guest(meeting.address, rank, SECRET) for rank in (0, 1)]
    for name, said in (
        ("tested 3", 1.5),
        ("gemm fp32 1 0", None),
        ('"a" [b]', {"c d": [2, "e f"]}),
    ):
        held = threading.Thread(target=guests[0].wait, args=(name, said), daemon=True)
        held.start()
        guests[1].wait(name, said)
        held.join(5)
        assert not held.is_alive() and meeting.said[name] == {0: said, 1: said}
        assert name in meeting.times


@pytest.mark.parametrize("rank", [0, 2, -1, True, "1", None, 1.0, [1]])
def test_a_rank_that_is_not_missing_is_shut_out(meeting, rank):
    Guest(meeting.address, 0, SECRET).phase("start")
    deadline = time.monotonic() + 5
    while 0 not in meeting.phases and time.monotonic() < deadline:
        time.sleep(0.01)
    hello = json.dumps({"token": SECRET, "rank": rank}) + "\n"
    assert shut_out(stranger(meeting.address, hello.encode()))


def test_when_all_ranks_are_here_nobody_else_is_heard(meeting):
    guests = [Guest(meeting.address, rank, SECRET) for rank in (0, 1)]
    held = waiting(guests[0], "start")
    guests[1].wait("start")
    held.join(5)
    with pytest.raises(ConnectionRefusedError):
        stranger(meeting.address, b"")
    held = waiting(guests[0], "end")
    guests[1].wait("end")
    held.join(5)
    assert set(meeting.times) == {"start", "end"}


def test_a_slow_stranger_delays_nobody_and_has_one_deadline(monkeypatch):
    monkeypatch.setattr(door, "HELLO_SECONDS", 2)
    came = []
    own = Door(listener("127.0.0.1"), SECRET, lambda connection, hello: came.append(hello))
    slow = [stranger(own.address, b"{") for _ in range(20)]
    started = time.monotonic()
    friend = stranger(own.address, b'{"token": "%s", "order": "3"}\n' % SECRET.encode())
    while not came and time.monotonic() < started + 5:
        time.sleep(0.005)
    assert came == [{"order": "3"}]
    assert time.monotonic() - started < door.HELLO_SECONDS
    for _ in range(25):  # a byte ever so often does not prolong it
        time.sleep(0.1)
        try:
            slow[0].sendall(b" ")
        except OSError:
            break
    assert shut_out(slow[0]) and shut_out(slow[1])
    friend.close()
    own.close()


def test_the_token_leaves_a_ranks_environment(meeting, monkeypatch):
    monkeypatch.setenv(TOKEN, SECRET)
    Guest(meeting.address, 0).phase("start")
    assert TOKEN not in os.environ


def launched(launcher: str, log: io.StringIO, deadline: float) -> Launch:
    case = {
        "identity": {"nodes": 2, "devices_per_node": 1},
        "settings": {"cores_per_device": 1, "device": "cpu"},
    }
    return Launch(launcher, "lo", case, log, time.monotonic() + deadline)


def test_strangers_do_not_keep_nodes_from_coming(monkeypatch):
    """The agents come after strangers have said all that they have to say."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    both = 'sleep 1; for node in 0 1; do SLURM_PROCID=$node "$@" & done; wait'
    launcher = shlex.join(["sh", "-c", both, "launcher"])
    log, found, slow = io.StringIO(), [], []
    thread = threading.Thread(target=lambda: found.append(launched(launcher, log, 30)))
    thread.start()
    while "dlperf.measure.agent" not in log.getvalue():
        time.sleep(0.01)
    here = log.getvalue().split()[-1]
    words = list(psutil.Process().children()[-1].cmdline())
    for each in STRANGE:
        slow.append(stranger(here, each))
    started = time.monotonic()
    thread.join(30)
    (launch,) = found
    try:
        assert [node.order for node in launch.nodes] == [0, 1]
        assert time.monotonic() - started < door.HELLO_SECONDS
        assert "DLPERF_TOKEN" not in " ".join(words) + log.getvalue()
    finally:
        for node in launch.nodes:
            node.stop()
        launch.end()


def test_an_agent_without_the_token_says_who_must_pass_it_on(monkeypatch, capsys):
    from dlperf.measure import agent

    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(SystemExit, match=r"no DLPERF_TOKEN: the launcher must pass"):
        agent.main("127.0.0.1:1")


def test_all_ranks_are_told_the_same_when_they_are_there():
    numbers = iter(range(5))
    told = {"orders": lambda: [3, [[next(numbers), 6]]], "signs": lambda: None}
    meeting = Meeting(2, listener("127.0.0.1"), SECRET, told=told)
    guests = [Guest(meeting.address, rank, SECRET) for rank in (0, 1)]
    heard = []
    other = threading.Thread(target=lambda: heard.append(guests[0].wait("orders")))
    other.start()
    assert guests[1].wait("orders") == [3, [[0, 6]]]
    other.join(5)
    assert heard == [[3, [[0, 6]]]] and next(numbers) == 1
    waiting(guests[0], "signs")
    assert guests[1].wait("signs") is None
    waiting(guests[0], "window")
    assert guests[1].wait("window") is None
    meeting.close()


def test_a_note_is_stamped_before_anything_is_looked_at_and_answered():
    noted = []

    def look(rank, name):
        noted.append((rank, name))
        time.sleep(0.2)
        return 1.5

    meeting = Meeting(1, listener("127.0.0.1"), SECRET, on_note=look)
    guest = Guest(meeting.address, 0, SECRET)
    before = time.perf_counter()
    assert guest.note("ended") == 1.5
    after = time.perf_counter()
    assert noted == [(0, "ended")]
    assert before < meeting.noted["ended"][0].seconds < after - 0.2
    meeting.close()


def test_ranks_are_looked_at_before_their_window_begins():
    looked = []
    meeting = Meeting(1, listener("127.0.0.1"), SECRET, lambda name: looked.append(time.time()))
    Guest(meeting.address, 0, SECRET).wait("window")
    assert looked[0] <= meeting.times["window"].utc
    meeting.close()


def test_a_window_that_is_asked_for_again_is_none_the_shorter():
    looked = []
    meeting = Meeting(1, listener("127.0.0.1"), SECRET, looked.append)
    guest = Guest(meeting.address, 0, SECRET)
    guest.wait("window")
    first = meeting.times["window"]
    guest.wait("window")
    assert meeting.times["window"] == first and looked == ["window"]
    meeting.close()
