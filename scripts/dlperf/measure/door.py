"""Who is let in: a listening socket that hears only those who know the token.

Ranks and agents connect to the stopwatch over a network that others may use. The first line that
comes must be a JSON object with the token; whoever sends anything else, or nothing, is shut out
after a time, and keeps nobody else waiting. The token goes from process to process by the
environment alone, so that no command line, log or record has it.
"""

import json
import secrets
import socket
import threading
import time

TOKEN = "DLPERF_TOKEN"  # the variable
HELLO_SECONDS = 10.0  # for the whole of it
HELLO_BYTES = 512


def new_token():
    return secrets.token_hex(16)


def listener(host):
    """A listening socket on a free port of `host`."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.bind((host, 0))
    found.listen(128)
    return found


class Door:
    """`welcome(connection, hello)` is called for each who comes with the token.

    In a thread of that connection's own, with what it said of itself; the connection is then
    welcome's to close.
    """

    def __init__(self, listening, token, welcome):
        self.address = "%s:%d" % listening.getsockname()[:2]
        self._listening, self._token, self._welcome = listening, token, welcome
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        """Let nobody else in; those who are in stay."""
        self._closed = True
        try:
            self._listening.shutdown(socket.SHUT_RDWR)  # closing alone does not end `accept`
        except OSError:
            pass
        self._listening.close()

    def _accept(self):
        while not self._closed:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                time.sleep(0.02)  # closed, or no file descriptor was left for it
                continue
            try:
                threading.Thread(target=self._meet, args=(connection,), daemon=True).start()
            except RuntimeError:  # no more threads
                connection.close()

    def _meet(self, connection):
        try:
            hello = _hello(connection, self._token)
            if hello is not None:
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, ValueError, RecursionError):  # gone, late, or not JSON
            hello = None
        if hello is None or self._closed:
            connection.close()
        else:
            self._welcome(connection, hello)


def _hello(connection, token):
    """What the other side's first line says of it; None where it does not know the token."""
    deadline = time.monotonic() + HELLO_SECONDS
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or len(line) == HELLO_BYTES:
            return None
        connection.settimeout(left)
        byte = connection.recv(1)  # one by one: what follows the line is for `welcome`
        if not byte:
            return None
        line += byte
    hello = json.loads(line.decode())
    said = hello.pop("token", None) if isinstance(hello, dict) else None
    if not isinstance(said, str):
        return None
    same = secrets.compare_digest(said.encode("utf-8", "surrogatepass"), token.encode())
    return hello if same else None
