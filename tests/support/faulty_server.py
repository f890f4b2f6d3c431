"""A real HTTP server on this machine that does to downloads what servers and networks do to them.

A file has a list of faults; each request takes the first one that is left, and without one is
answered as it should be: with ranges, ETag and If-Range.
"""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Given:
    """A file of the server."""

    content: bytes
    faults: list[Callable] = field(default_factory=list)
    etag: str | None = '"one"'
    ranges: bool = True


class FaultyServer:
    def __init__(self, host="127.0.0.1", tls=None):
        """`tls`: a file with a key and a certificate; then the server speaks https."""
        self.files: dict[str, Given] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.gate: Callable | None = None  # may refuse a request: returns a status, or None
        self._server = ThreadingHTTPServer((host, 0), _Handler)
        self._server.daemon_threads = True
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.owner = self
        self.ended = threading.Event()
        self.host, self.port = f"{host}:{self._server.server_port}", self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def give(self, path, content, *faults, **about):
        """Serve `content` at `path`; returns its address."""
        self.files[path] = Given(content, list(faults), **about)
        return f"{self.scheme}://{self.host}{path}"

    def ranges(self):
        """What was asked of the server, request by request."""
        return [headers.get("Range") for _, headers in self.requests]

    def close(self):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# Faults: each takes the handler and the file.


def cut(after):
    """The connection ends after so many bytes of the body."""
    return lambda handler, file: handler.body(file, stop_after=after)


def reset(after):
    """The connection is reset after so many bytes of the body."""

    def fault(handler, file):
        handler.body(file, stop_after=after)
        time.sleep(0.05)  # what was sent arrives first
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.connection.close()

    return fault


def cut_chunked(after):
    """A body of unknown length, in chunks, whose end is missing."""

    def fault(handler, file):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n" % after + file.content[:after] + b"\r\n")

    return fault


def stall(after):
    """Nothing comes after so many bytes of the body, and the connection stays."""

    def fault(handler, file):
        handler.body(file, stop_after=after)
        handler.server.owner.ended.wait(20)

    return fault


def status(code, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, file: handler.answer(code, headers)


def redirect(location, code=302):
    return lambda handler, file: handler.answer(code, {"Location": location})


def wrong_part(handler, file):
    """Another range than the one that was asked for."""
    size = len(file.content)
    handler.answer(206, {"Content-Range": f"bytes 0-{size - 1}/{size}"}, file.content)


def change(content, etag='"two"', then=None):
    """From now on the file is another one."""

    def fault(handler, file):
        file.content, file.etag = content, etag
        (then or type(handler).body)(handler, file)

    return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        owner = self.server.owner
        owner.requests.append((self.path, dict(self.headers.items())))
        self.close_connection = True
        refused = owner.gate(self) if owner.gate else None
        file = owner.files.get(urlsplit(self.path).path)
        try:
            if refused or file is None:
                self.answer(refused or 404)
            elif file.faults:
                file.faults.pop(0)(self, file)
            else:
                self.body(file)
        except OSError:
            pass  # the client has gone

    def answer(self, code, headers=None, content=b""):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def body(self, file, stop_after=None):
        size, start, code = len(file.content), 0, 200
        asked = self.headers.get("Range")
        if asked and file.ranges and self.headers.get("If-Range") in (None, file.etag):
            start, code = int(asked.removeprefix("bytes=").partition("-")[0]), 206
        if start and start >= size:
            self.answer(416, {"Content-Range": f"bytes */{size}"})
            return
        self.send_response(code)
        self.send_header("Content-Length", str(size - start))
        if file.etag:
            self.send_header("ETag", file.etag)
        if code == 206:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        self.wfile.write(file.content[start : None if stop_after is None else start + stop_after])
        self.wfile.flush()
