"""Where ranks meet: a barrier over TCP that costs every framework the same.

The stopwatch is the server. A rank connects once, reports its phase and waits at named barriers.
Each message is a line: a rank sends `hello RANK`, `phase NAME` and `wait NAME`, and receives `go`.
"""

import socket
import threading
import time


class Meeting:
    """The server. It knows `phases` (rank -> its last phase) and `times` (barrier -> seconds)."""

    def __init__(self, ranks, host="127.0.0.1", on_release=None):
        self._ranks = ranks
        self._on_release = on_release
        self._waiting = {}  # barrier -> connections that wait
        self._lock = threading.Lock()
        self.phases = {}
        self.times = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind((host, 0))
        self._socket.listen(ranks)
        self.address = "%s:%d" % self._socket.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._socket.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        rank = None
        try:
            with connection, connection.makefile("r") as lines:
                for line in lines:
                    word, _, value = line.strip().partition(" ")
                    if word == "hello":
                        rank = int(value)
                    elif word == "phase":
                        self.phases[rank] = value
                    elif word == "wait":
                        self._arrive(value, connection)
        except OSError:
            pass  # the watcher handles a dead rank

    def _arrive(self, barrier, connection):
        with self._lock:
            waiting = self._waiting.setdefault(barrier, [])
            waiting.append(connection)
            if len(waiting) < self._ranks:
                return
            self.times[barrier] = time.perf_counter()
            if self._on_release:
                self._on_release(barrier)
            for each in waiting:
                each.sendall(b"go\n")


class Guest:
    """The client in a rank."""

    def __init__(self, address, rank):
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("r")
        self._send("hello %d" % rank)

    def phase(self, name):
        self._send("phase " + name)

    def wait(self, barrier):
        """Return when every rank has reached `barrier`."""
        self._send("wait " + barrier)
        if not self._lines.readline():
            raise ConnectionError("the stopwatch is gone while this rank waited at " + barrier)

    def _send(self, line):
        self._socket.sendall((line + "\n").encode())
