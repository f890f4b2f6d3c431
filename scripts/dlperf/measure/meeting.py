"""Where ranks meet: a barrier over TCP that costs every framework the same.

The stopwatch is the server. A rank connects once, says who it is (door.py), reports its phase and
waits at named barriers. Each message is a line: a rank sends `phase NAME` and `wait [NAME, VALUE]`,
as JSON, where VALUE is what it says there, and receives `go`, with what is told to all ranks at
that barrier, as JSON. `note NAME` says where a rank is, for the stopwatch to look at its clock and
at the rank's processes; the answer, which comes at once, is what these have taken of the processor.
"""

import json
import os
import socket
import threading
import time
from typing import Any, Dict, NamedTuple

from dlperf.measure.door import TOKEN, Door


class Moment(NamedTuple):
    """By this process's clocks: seconds, and UTC."""

    seconds: float
    utc: float


def now():
    return Moment(time.perf_counter(), time.time())


class Meeting:
    """The server. It knows `phases` (rank -> its last phase), and Moments of its own clock: `times`
    (barrier -> when all were first let go) and `noted` (note -> rank -> when it last came); and
    what ranks `said` (barrier -> rank -> value).

    Each of `ranks` ranks is let in once. When all have come, `listening` is closed. told: barrier
    -> a function that gives, when all are there, what they are told; of others nothing. on_release:
    called with a barrier's name before the ranks are let go. on_note: with a rank and its note;
    what it returns is the answer.
    """

    def __init__(self, ranks, listening, token, on_release=None, told=None, on_note=None):
        self._ranks = ranks
        self._told = told or {}
        self._on_release, self._on_note = on_release, on_note
        self._here = set()
        self._waiting = {}  # barrier -> {rank: connection} of those that wait
        self._lock = threading.Lock()
        self.phases = {}
        self.times: Dict[str, Moment] = {}
        self.noted: Dict[str, Dict[int, Moment]] = {}
        self.said: Dict[str, Dict[int, Any]] = {}
        self._door = None
        with self._lock:  # nobody is welcomed before there is a door to close
            self._door = Door(listening, token, self._welcome)
        self.address = self._door.address

    def close(self):
        self._door.close()

    def _welcome(self, connection, hello):
        rank = hello.get("rank")
        with self._lock:
            known = type(rank) is int and 0 <= rank < self._ranks and rank not in self._here
            if known:
                self._here.add(rank)
                if len(self._here) == self._ranks:
                    self._door.close()
        with connection:
            if known:
                self._serve(rank, connection)

    def _serve(self, rank, connection):
        try:
            with connection.makefile("r") as lines:
                for line in lines:
                    came = now()  # before anything else: a window may end with it
                    word, _, value = line.strip().partition(" ")
                    if word == "phase":
                        self.phases[rank] = value
                    elif word == "wait":
                        barrier, said = json.loads(value)
                        self.said.setdefault(barrier, {})[rank] = said
                        self._arrive(barrier, rank, connection)
                    elif word == "note":
                        self.noted.setdefault(value, {})[rank] = came
                        _go(connection, self._on_note and self._on_note(rank, value))
        except (OSError, ValueError):  # ValueError: no JSON
            pass  # the watcher handles a dead rank

    def _arrive(self, barrier, rank, connection):
        with self._lock:
            waiting = self._waiting.setdefault(barrier, {})
            waiting[rank] = connection
            if len(waiting) < self._ranks:
                return
            del self._waiting[barrier]
            told = self._told.get(barrier, lambda: None)()
            if barrier not in self.times:  # who asks for it again does not make a window shorter
                if self._on_release:
                    self._on_release(barrier)
                self.times[barrier] = now()
            for each in waiting.values():
                try:
                    _go(each, told)
                except OSError:
                    pass  # as above; the others go on


def _go(connection, told):
    connection.sendall(("go %s\n" % json.dumps(told)).encode())


class Guest:
    """The client in a rank. Its token comes from the environment, and is removed from there."""

    def __init__(self, address, rank, token=None):
        if token is None:
            token = os.environ.pop(TOKEN, "")
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("r")
        self._send(json.dumps({"token": token, "rank": rank}))

    def phase(self, name):
        self._send("phase " + name)

    def wait(self, barrier, said=None):
        """Return when every rank has reached `barrier`: what they are told there, or None."""
        return self._ask("wait", json.dumps([barrier, said]), barrier)

    def note(self, name):
        """Say where this rank is; return what its processes have taken (early_return.Taken)."""
        return self._ask("note", name, name)

    def _ask(self, word, said, name):
        self._send("%s %s" % (word, said))
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the stopwatch is gone while this rank waited at " + name)
        return json.loads(line.partition(" ")[2])

    def _send(self, line):
        self._socket.sendall((line + "\n").encode())
