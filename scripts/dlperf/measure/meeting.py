"""Where ranks meet: a barrier over TCP that costs every framework the same.

The stopwatch is the server. A rank connects once, says who it is (door.py), reports its phase and
waits at named barriers. Each message is a line: a rank sends `phase NAME` and `wait NAME`, and
receives `go`, with what is told to all ranks at that barrier, as JSON.
"""

import json
import os
import socket
import threading
import time

from dlperf.measure.door import TOKEN, Door


class Meeting:
    """The server. It knows `phases` (rank -> its last phase) and `times` (barrier -> seconds).

    Each of `ranks` ranks is let in once. When all have come, `listening` is closed. told: barrier
    -> a function that gives, when all are there, what they are told; of others nothing.
    """

    def __init__(self, ranks, listening, token, on_release=None, told=None):
        self._ranks = ranks
        self._told = told or {}
        self._on_release = on_release
        self._here = set()
        self._waiting = {}  # barrier -> {rank: connection} of those that wait
        self._lock = threading.Lock()
        self.phases = {}
        self.times = {}
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
                    word, _, value = line.strip().partition(" ")
                    if word == "phase":
                        self.phases[rank] = value
                    elif word == "wait":
                        self._arrive(value, rank, connection)
        except OSError:
            pass  # the watcher handles a dead rank

    def _arrive(self, barrier, rank, connection):
        with self._lock:
            waiting = self._waiting.setdefault(barrier, {})
            waiting[rank] = connection
            if len(waiting) < self._ranks:
                return
            del self._waiting[barrier]
            self.times[barrier] = time.perf_counter()
            if self._on_release:
                self._on_release(barrier)
            told = self._told.get(barrier)
            line = "go %s\n" % json.dumps(told()) if told else "go\n"
            for each in waiting.values():
                try:
                    each.sendall(line.encode())
                except OSError:
                    pass  # as above; the others go on


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

    def wait(self, barrier):
        """Return when every rank has reached `barrier`: what they are told there, or None."""
        self._send("wait " + barrier)
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the stopwatch is gone while this rank waited at " + barrier)
        _, _, told = line.strip().partition(" ")
        return json.loads(told) if told else None

    def _send(self, line):
        self._socket.sendall((line + "\n").encode())
