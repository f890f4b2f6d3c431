"""An incomplete file: `<name>.part`, with a note beside it that says where its bytes came from.

The input is chunks of bytes, in order. The output is the whole file under its own name. A second
thread computes the checksums while the chunks are written.
"""

import contextlib
import hashlib
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dlperf.contract.files import write

CHUNK = 2**20  # bytes to read, write and hash at a time
QUEUE = 16  # chunks that may wait to be hashed


class Part:
    """The bytes of an incomplete file. They stay on the disk however the process ends."""

    def __init__(self, target: Path, wanted: dict[str, Any], algorithms: Iterable[str]) -> None:
        """`wanted` is what is known of the file; a part of any other file is deleted."""
        self.target, self.path = target, target.with_name(f"{target.name}.part")
        self._note, self._wanted = target.with_name(f"{target.name}.part.json"), wanted
        self._algorithms = tuple(algorithms)
        self._hashing: Hashing | None = None
        target.parent.mkdir(parents=True, exist_ok=True)
        self._stream = open(self.path, "ab", buffering=0)
        self.size = os.fstat(self._stream.fileno()).st_size
        self.came_from: dict[str, Any] = {}  # address, validator, total
        with contextlib.suppress(OSError, ValueError):
            note = json.loads(self._note.read_text(encoding="utf-8"))
            self.came_from = note["came_from"] if note["wanted"] == wanted else {}
        #: Whether the bytes may come from different versions of the file.
        self.resumed = self.size > 0
        if self.resumed and not self.came_from:
            self.reset()

    def come_from(self, address: str, validator: str | None, total: int | None) -> None:
        """Note where the next bytes come from; call this before the first of them is written."""
        came_from = {"address": address, "validator": validator, "total": total}
        if came_from != self.came_from:
            self.came_from = came_from
            write(self._note, json.dumps({"wanted": self._wanted, "came_from": came_from}) + "\n")

    def append(self, chunk: bytes) -> None:
        hashing = self._hashing_so_far()  # reads the file, so before the chunk is in it
        rest = memoryview(chunk)
        while rest:
            rest = rest[self._stream.write(rest) :]
        self.size += len(chunk)
        hashing.update(chunk)

    def reset(self) -> None:
        """Delete all bytes."""
        self._stream.truncate(0)
        self.size, self.resumed, self.came_from = 0, False, {}
        self._stop_hashing()

    def digests(self) -> dict[str, str]:
        """The checksums of all bytes so far, by algorithm."""
        found = self._hashing_so_far().digests()
        self._hashing = None
        return found

    def finish(self) -> None:
        """Give the file its name, so that it keeps it even after a power cut."""
        os.fsync(self._stream.fileno())
        self._stream.close()
        os.replace(self.path, self.target)
        directory = os.open(self.target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the part for the next call; delete it if it has no bytes."""
        self._stop_hashing()
        self._stream.close()
        if self.size == 0:
            self.path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)

    def _hashing_so_far(self) -> "Hashing":
        """The hashes so far; the bytes that an earlier process left are read first."""
        if self._hashing is None:
            self._hashing = Hashing(self._algorithms)
            with open(self.path, "rb", buffering=0) as stream:
                while chunk := stream.read(CHUNK):
                    self._hashing.update(chunk)
        return self._hashing

    def _stop_hashing(self) -> None:
        if self._hashing is not None:
            self._hashing.digests()
            self._hashing = None


class Hashing:
    """Computes checksums in a thread of its own: hashlib lets other threads run meanwhile."""

    def __init__(self, algorithms: Iterable[str]) -> None:
        self._hashes = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
        self._chunks: queue.Queue[bytes | None] = queue.Queue(QUEUE)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def update(self, chunk: bytes) -> None:
        self._chunks.put(chunk)

    def digests(self) -> dict[str, str]:
        self._chunks.put(None)
        self._thread.join()
        return {each.name: each.hexdigest() for each in self._hashes}

    def _run(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            for each in self._hashes:
                each.update(chunk)


def digests_of(
    path: Path, algorithms: Iterable[str], tick: Callable[[int], None] = lambda size: None
) -> dict[str, str]:
    """The checksums of a file, by algorithm; `tick` gets the number of bytes read so far."""
    hashes = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
    buffer, done = memoryview(bytearray(CHUNK)), 0
    with open(path, "rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            for each in hashes:
                each.update(buffer[:count])
            done += count
            tick(done)
    return {each.name: each.hexdigest() for each in hashes}
