"""Fetch the files of a source. Fetches are resumed and retried, and files verified before use.

The input is a source of config/data.yaml and a folder. The output is its files in that folder and
`manifest.json`, which is written last and lists them with their sha256 and where each came from.
Files that are already there are verified and not fetched again. An incomplete file is always called
`<name>.part`.
"""

import argparse
import contextlib
import errno
import fcntl
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from urllib3 import Retry
from urllib3.exceptions import MaxRetryError

from dlperf.contract import project, terminal
from dlperf.contract.files import write
from dlperf.contract.problems import ConfigError
from dlperf.loaders import DataError
from dlperf.loaders.manifest import sha256_of_listing
from dlperf.prepare.addresses import Asked, Broken, NoSuchPart, Refused, Reply, open_address
from dlperf.prepare.part import CHUNK, Part, digests_of
from dlperf.prepare.progress import Progress, progress, size
from dlperf.prepare.sources import File, Source, choose, estimate, load, masked

LONGEST_BACKOFF = 60  # seconds


@dataclass(frozen=True)
class Options:
    """How to fetch. `retries` is how many retries in a row may bring nothing new."""

    jobs: int = 4
    retries: int = 5
    timeout: float = 60
    backoff: float = 1
    accept_unknown: bool = False


class Stopped(Exception):
    """The user stopped the fetch."""


def fetch(place: str, name: str, source: Source, out: Path, options: Options) -> dict[str, Any]:
    """Make `out` hold the source's files and its manifest; return the manifest.

    `place` names the source in messages. Raises DataError with everything that is wrong.
    """
    earlier = _earlier(out)
    _check(place, source, out, earlier, options)
    out.mkdir(parents=True, exist_ok=True)
    with _held(out), progress() as shown:
        _check_disk(source, out)
        entries = _all(place, source, out, earlier, options, shown)
    files = [entries[file.name] for file in source.files]
    manifest = {
        "schema": "dlperf.data/1",
        "dataset": name,
        "title": source.title,
        "licence": source.licence,
        "bytes": sum(file["bytes"] for file in files),
        "sha256": sha256_of_listing(files),
        "files": files,
    }
    write(out / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return manifest


def _earlier(out: Path) -> dict[str, dict[str, Any]]:
    """What the manifest of an earlier fetch says, by file."""
    try:
        files = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["files"]
        return {file["path"]: file for file in files}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _check(
    place: str, source: Source, out: Path, earlier: dict[str, dict[str, Any]], options: Options
) -> None:
    """Report the problems that can be found before anything is opened."""
    problems = []
    for index, file in enumerate(source.files):
        key = f"{place}.files[{index}] ({file.name})"
        if not (file.checksums or file.name in earlier or options.accept_unknown):
            problems.append(
                f"{key}: no checksum is known. Give its `sha256:` there, or pass --accept-unknown, "
                "which records the sha256 of whatever is fetched"
            )
        if not (source.local or file.addresses or (out / file.name).is_file()):
            problems.append(
                f"{key}: has no address. {source.access}: pass --local <folder>, or set `local:` "
                "there"
            )
    if source.local and not Path(source.local).is_dir():
        problems.append(f"{place}.local: {source.local} is not a folder on this machine")
    if problems:
        raise DataError("\n".join(problems))


def _check_disk(source: Source, out: Path) -> None:
    needed, free = estimate(source, out).disk_needed, shutil.disk_usage(out).free
    if needed > free:
        raise DataError(
            f"{out}: {size(needed)} must be fetched, but only {size(free)} are free there; free "
            "some space, or name another folder with --out"
        )


@contextlib.contextmanager
def _held(out: Path) -> Iterator[None]:
    """Allow only one fetch at a time in a folder."""
    with open(out / ".lock", "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{out}: another fetch is running there; wait until it ends") from None
        yield


def _all(
    place: str,
    source: Source,
    out: Path,
    earlier: dict[str, dict[str, Any]],
    options: Options,
    shown: Progress,
) -> dict[str, dict[str, Any]]:
    """Fetch all files with `jobs` threads; if one fails, the others are still fetched."""
    waiting: queue.SimpleQueue[File] = queue.SimpleQueue()
    for file in source.files:
        waiting.put(file)
    entries: dict[str, dict[str, Any]] = {}
    failed: dict[str, BaseException] = {}
    stop = threading.Event()

    def work() -> None:
        with contextlib.suppress(queue.Empty, Stopped):
            while True:
                file = waiting.get_nowait()
                one = _One(place, source, file, out, earlier.get(file.name), options, shown, stop)
                try:
                    entries[file.name] = one.entry()
                except Stopped:
                    raise
                except BaseException as error:
                    failed[file.name] = error

    # Daemons, so that a thread that waits for a silent server does not delay Ctrl-C.
    count = min(options.jobs, len(source.files))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.05)
            shown.show()
    except BaseException:
        stop.set()
        for thread in threads:
            thread.join(1)
        raise
    unforeseen = [error for error in failed.values() if not isinstance(error, DataError)]
    if unforeseen:
        raise unforeseen[0]
    if failed:
        lines = [str(failed[file.name]) for file in source.files if file.name in failed]
        lines.append(
            f"{place}: {len(failed)} of {len(source.files)} files could not be fetched; the "
            f"others are kept, and the same command resumes. Access: {source.access}"
        )
        raise DataError("\n".join(lines))
    return entries


@dataclass
class _One:
    """The fetch of one file."""

    place: str
    source: Source
    file: File
    out: Path
    earlier: dict[str, Any] | None
    options: Options
    shown: Progress
    stop: threading.Event

    def __post_init__(self) -> None:
        self.target = self.out / self.file.name
        # Only the strongest one: checking a weaker one too would only take longer.
        self.expected = dict(list(self.file.checksums.items())[:1])
        if not self.expected and self.earlier:
            self.expected = {"sha256": self.earlier["sha256"]}
        self.algorithms = list(dict.fromkeys(["sha256", *self.expected]))

    def entry(self) -> dict[str, Any]:
        """Fetch and verify the file; return its entry of the manifest."""
        if self.target.is_file():
            found = self._verified(self.target, "remove it, and it will be fetched again")
            came_from = (self.earlier or {}).get("from", "was there")
        elif self.source.local:
            path = Path(os.path.abspath(self.source.local), self.file.name)
            if not path.is_file():
                raise DataError(f"{path}: does not exist, but {self.place}.local names its folder")
            found = self._verified(path, "is it the right one?")
            self._link(path)
            came_from = path.as_uri()
        else:
            found, came_from = self._downloaded()
        return {
            "path": self.file.name,
            "bytes": self.target.stat().st_size,
            "sha256": found["sha256"],
            "checked": next(iter(self.file.checksums), "nothing published"),
            "from": came_from,
        }

    def _verified(self, path: Path, fix: str) -> dict[str, str]:
        """The checksums of a file that is on this machine."""
        there = path.stat().st_size
        if self.file.bytes not in (None, there):
            raise DataError(
                f"{path}: has {there} bytes, but {self.place} says {self.file.bytes}; {fix}"
            )
        found = digests_of(path, self.algorithms, self._tick)
        wrong = self._wrong(found)
        if wrong:
            raise DataError(f"{path}: {wrong} in {self.place}; {fix}")
        return found

    def _wrong(self, found: dict[str, str]) -> str:
        """How the checksum differs from the known one, in words; empty if it does not."""
        for name, value in self.expected.items():
            if found[name] != value:
                return f"its {name} is {found[name]}, not {value} as"
        return ""

    def _link(self, path: Path) -> None:
        link = self.target.with_name(f"{self.target.name}.part")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        os.replace(link, self.target)

    def _tick(self, done: int) -> None:
        if self.stop.is_set():
            raise Stopped
        self.shown.tick(self.file.name, done, self.file.bytes)

    def _downloaded(self) -> tuple[dict[str, str], str]:
        """Try one address after another; return the checksums and the address that worked."""
        known = {"bytes": self.file.bytes, **self.expected}
        part = Part(self.target, known, self.algorithms)
        refused = []
        try:
            for address in self.file.addresses:
                try:
                    found = self._by(address, part)
                    part.finish()
                    return found, masked(address)
                except Refused as error:
                    refused.append(f"{masked(address)}: {error}")
                    self.shown.say(f"{self.file.name}: {refused[-1]}")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise DataError(
                f"{part.path}: {error.strerror}; free some space, and the same command resumes"
            ) from None
        finally:
            part.close()
        raise DataError("\n".join([f"{self.file.name}: no address worked", *refused]))

    def _by(self, address: str, part: Part) -> dict[str, str]:
        """Fetch the whole file from one address, and retry as long as that may help."""
        retries = fresh = Retry(
            self.options.retries,
            backoff_factor=self.options.backoff,
            backoff_jitter=self.options.backoff,
            backoff_max=LONGEST_BACKOFF,
        )
        most = part.size
        while True:
            try:
                self._some(address, part)
            except Broken as error:
                if part.size > most:
                    retries, most = fresh, part.size
                try:
                    retries = retries.increment(error=error)
                except MaxRetryError:
                    times = len(retries.history) + 1
                    raise Refused(f"{error}, {times} times in a row") from None
                self._wait(error, retries)
                continue
            found = part.digests()
            wrong = self._wrong(found)
            if not wrong:
                return found
            resumed = part.resumed
            part.reset()
            if not resumed:
                raise Refused(f"gives a wrong file: {wrong} in {self.place}")
            most = 0
            self.shown.say(
                f"{self.file.name}: its parts are of different versions; fetching it again"
            )

    def _wait(self, error: Broken, retries: Retry) -> None:
        seconds = error.wait if error.wait is not None else retries.get_backoff_time()
        self.shown.say(
            f"{self.file.name}: {error}; again in {seconds:.1f} s "
            f"({len(retries.history)} of {self.options.retries})"
        )
        if self.stop.wait(seconds):
            raise Stopped

    def _some(self, address: str, part: Part) -> None:
        """Make one request and read what it gives. Returns when the file is complete."""
        same = part.came_from.get("address") == address
        validator = part.came_from.get("validator") if same else None
        if part.size and not (validator or self.expected):
            part.reset()  # nothing could show that the rest is of another version
        total = part.came_from.get("total") or self.file.bytes
        if part.size and part.size == total:
            return
        asked = Asked(address, part.size, validator, self.source.credentials, self.options.timeout)
        try:
            reply = open_address(asked)
        except NoSuchPart:
            part.reset()
            raise
        with contextlib.closing(reply):
            self._take(reply, address, validator, part)

    def _take(self, reply: Reply, address: str, validator: str | None, part: Part) -> None:
        if reply.total is None and not self.expected:
            raise Refused("does not say how long it is, so nothing could show that it is complete")
        before = part.came_from.get("total")
        if self.file.bytes is not None and reply.total not in (None, self.file.bytes):
            raise Refused(f"has {reply.total} bytes, but {self.place} says {self.file.bytes}")
        if reply.start and None not in (before, reply.total) and before != reply.total:
            part.reset()
            raise Broken("has changed its size")
        if reply.start == 0 and part.size:
            self.shown.say(f"{self.file.name}: starts again from byte 0, not from byte {part.size}")
            part.reset()
        part.resumed = part.resumed or (reply.start > 0 and validator is None)
        total = reply.total if reply.total is not None else self.file.bytes
        if total is not None and total - part.size > shutil.disk_usage(self.out).free:
            raise OSError(
                errno.ENOSPC,
                f"{size(total - part.size)} are still missing, and too little space is free",
            )
        part.come_from(address, reply.validator, total)
        while total is None or part.size < total:
            chunk = reply.read(CHUNK if total is None else min(CHUNK, total - part.size))
            if not chunk:
                break
            part.append(chunk)
            self._tick(part.size)
        if total is not None and part.size < total:
            raise Broken(f"broke off after {part.size} of {total} bytes")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.fetch",
        description="Fetch the files of a source.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    sources = project.find("config/data.yaml")
    parser.add_argument("--sources", type=Path, default=sources, help="file")
    parser.add_argument("--source", required=True, help="its name in that file")
    parser.add_argument("--out", type=Path, help="folder (default: results/data/downloads/NAME)")
    parser.add_argument("--local", help="folder that has the files already; they are linked")
    parser.add_argument("--jobs", type=_positive, default=Options.jobs, help="files at once")
    parser.add_argument(
        "--retries",
        type=_positive,
        default=Options.retries,
        help="how many retries in a row may bring nothing",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=Options.timeout, help="seconds without a byte"
    )
    parser.add_argument(
        "--accept-unknown",
        action="store_true",
        help="fetch files without a known checksum too, and record their sha256",
    )
    asked = parser.parse_args(arguments)
    options = Options(asked.jobs, asked.retries, asked.timeout, accept_unknown=asked.accept_unknown)
    try:
        source = choose(load(asked.sources), asked.source, asked.sources)
        if asked.local:
            source = source.model_copy(update={"local": asked.local})
        out = asked.out or Path("results/data/downloads") / asked.source
        began = time.monotonic()
        place = f"{asked.sources}: sources.{asked.source}"
        manifest = fetch(place, asked.source, source, out, options)
    except (ConfigError, DataError) as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or asked.out}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was fetched is kept, and the same command resumes", file=sys.stderr)
        return 130
    print(
        f"{out}: {len(manifest['files'])} files, {size(manifest['bytes'])}, verified in "
        f"{time.monotonic() - began:.0f} s, sha256 {manifest['sha256']}"
    )
    for file in manifest["files"]:
        if file["checked"] == "nothing published":
            print(f"{file['path']} has no published checksum; to pin it: sha256: {file['sha256']}")
    return 0


def _positive(text: str) -> int:
    if not (text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 86400:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")


if __name__ == "__main__":
    terminal.as_utf8()
    sys.exit(main())
