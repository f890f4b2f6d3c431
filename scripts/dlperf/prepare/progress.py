"""Shows the progress of long work: bars on a terminal, or a line now and then in a log.

The input is the bytes that each file of a fetch has so far, reported by the threads that fetch, or
a count of shards. The output is text on stderr.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

SECONDS_A_LINE = 30


def lines(what: str) -> Callable[[int, int], None]:
    """A function of (done, of) that prints one line in SECONDS_A_LINE at most, and the last one."""
    start = printed = time.monotonic()

    def show(done: int, of: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_A_LINE or done == of:
            printed = now
            print(f"{what}: {done} of {of}, {now - start:.0f} s", file=sys.stderr, flush=True)

    return show


def size(count: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} bytes"


class Progress:
    """The bytes done of each file. `tick` and `say` may be called from any thread."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[int, int | None]] = {}
        self._lines: list[str] = []
        self._lock = threading.Lock()

    def tick(self, name: str, done: int, total: int | None) -> None:
        with self._lock:
            self._done[name] = (done, total)

    def say(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)

    def _take(self) -> tuple[dict[str, tuple[int, int | None]], list[str]]:
        with self._lock:
            lines, self._lines = self._lines, []
            return dict(self._done), lines

    def __enter__(self) -> "Progress":
        return self

    def show(self) -> None:
        """Show what is new. Called often by the main thread."""
        raise NotImplementedError  # Lines and Bars each show it in their own way

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.show()


class Lines(Progress):
    """For a log."""

    def __init__(self) -> None:
        super().__init__()
        self._shown, self._before = time.monotonic(), 0

    def show(self) -> None:
        files, lines = self._take()
        for line in lines:
            print(line, file=sys.stderr, flush=True)
        waited = time.monotonic() - self._shown
        if waited < SECONDS_A_LINE:
            return
        done = sum(each for each, _ in files.values())
        rate = size((done - self._before) / waited)
        self._shown, self._before = time.monotonic(), done
        for name, (have, total) in files.items():
            if have != total:
                whole = f" of {size(total)}" if total else ""
                print(f"{name}: {size(have)}{whole}, {rate}/s in all", file=sys.stderr, flush=True)


class Bars(Progress):
    """For a terminal."""

    def __init__(self) -> None:
        super().__init__()
        from rich import progress
        from rich.console import Console

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, progress.TaskID] = {}

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def show(self) -> None:
        files, lines = self._take()
        for line in lines:
            self._bars.console.print(line, markup=False, highlight=False)
        for name, (done, total) in files.items():
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            self._bars.update(self._tasks[name], completed=done, total=total)

    def __exit__(self, *of_error: object) -> None:
        self.show()
        self._bars.stop()


def progress() -> Progress:
    """Bars if stderr is a terminal, else lines."""
    return Bars() if sys.stderr.isatty() else Lines()
