"""The steps that count: found in every rank's track, or refused with what is wrong.

In: logs and the window that the user asks for. Out: each rank's first entry (after the warm-up)
and the entries of the window, none missing.
"""

import bisect
import itertools
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dlperf.analysis.logs import tracks
from dlperf.analysis.logs.entries import Entry, Read
from dlperf.analysis.logs.tracks import Track
from dlperf.analysis.schema.files import AnalysisError

_STALL = 5.0  # times the usual duration of a step


@dataclass(frozen=True)
class Asked:
    """Steps from the end of step `warmup` to the end of step `warmup + measured`."""

    warmup: int
    measured: int
    run: str = ""  # a number from 1, "last", or "" where there must be one only
    epoch: int | None = None  # None: the first that the log has

    @property
    def end(self) -> int:
        return self.warmup + self.measured


@dataclass(frozen=True)
class Window:
    """One rank's window. `start` is None where the first entry's own duration begins there."""

    read: Read
    file: int
    start: Entry | None
    entries: tuple[Entry, ...]
    covered: tuple[int, ...]  # how many steps each entry's duration is of
    named: bool  # whether its lines or its file say whose it is


def windows(reads: Sequence[Read], asked: Asked, nodes: int, devices: int) -> list[Window]:
    """The window in every rank's track. Raises AnalysisError where one has none, or has gaps."""
    allowed = {1, nodes, devices}
    in_a_file = {1, devices // len(reads) or 1} if len(reads) > 1 else allowed
    found: list[Window] = []
    for file, read in enumerate(reads):
        if read.form is not reads[0].form:
            raise AnalysisError(
                f"{read.log.path}: has lines of another form than {reads[0].log.path}: "
                "are both of one run?"
            )
        for track in tracks.of_run(read, asked.run, in_a_file):
            found += _of_track(read, file, track, asked, in_a_file)
    if len(found) not in allowed:
        expected = " or ".join(str(number) for number in sorted(allowed))
        raise AnalysisError(
            f"{reads[0].log.path}: lines of {len(found)} ranks, but the case has {devices} on "
            f"{nodes} nodes: give the logs of all ranks, or of one [allowed: {expected}]"
        )
    return found


def _of_track(
    read: Read, file: int, track: Track, asked: Asked, allowed: Collection[int]
) -> list[Window]:
    epoch = min(entry.epoch for entry in track) if asked.epoch is None else asked.epoch
    track = [entry for entry in track if entry.epoch == epoch]
    if not track:
        raise AnalysisError(f"{read.log.path}: no line of epoch {epoch}")
    steps = sorted({entry.step for entry in track})
    interval = _interval(steps)
    inside = [entry for entry in track if asked.warmup <= entry.step <= asked.end]
    named = inside[0].rank is not None if inside else False
    mixed = not named and max(allowed) > 1
    ranks = tracks.apart(read, inside, allowed) if mixed and inside else [inside]
    mine = len(ranks) == 1 or named
    return [_window(read, file, rank, asked, steps, interval, mine) for rank in ranks]


def _interval(steps: Sequence[int]) -> int:
    """How many steps lie between two printed ones: what is most common."""
    gaps = Counter(later - step for step, later in zip(steps, steps[1:], strict=False))
    return max(gaps, key=lambda gap: (gaps[gap], -gap)) if gaps else steps[0] or 1


def _window(
    read: Read,
    file: int,
    inside: Track,
    asked: Asked,
    steps: Sequence[int],
    interval: int,
    named: bool,
) -> Window:
    path = read.log.path
    numbers = [entry.step for entry in inside]
    for entry, later in zip(inside, inside[1:], strict=False):
        if entry.step == later.step:
            raise AnalysisError(
                f"{path}: step {entry.step} stands twice, in lines {entry.number} and "
                f"{later.number}, and not with the same contents"
            )
    start = inside[0] if numbers[:1] == [asked.warmup] else None
    entries = inside[1:] if start else inside
    covered = _covered(path, start, entries, asked, interval)
    opens = start is not None or (entries and entries[0].step - covered[0] == asked.warmup)
    if not opens or numbers[-1] != asked.end:
        wanted = asked.end if opens else asked.warmup
        raise AnalysisError(
            f"{path}: no line stands for the end of step {wanted}{_near(steps, wanted)}{_cut(read)}"
        )
    missing = _missing(asked.warmup, [entry.step for entry in entries], interval)
    # lines that say how many steps they are of have shown that they lack none
    if missing and not all("steps" in entry.values for entry in entries):
        raise AnalysisError(
            f"{path}: no line stands for the end of step {_listed(missing)}, and the log has one "
            f"every {interval} steps: it lacks lines in the window"
        )
    window = Window(read, file, start, tuple(entries), tuple(covered), named)
    _unbroken(window)
    return window


def _covered(
    path: object, start: Entry | None, entries: Track, asked: Asked, interval: int
) -> list[int]:
    """How many steps each line is of: what it says itself, or those since the line before."""
    covered = []
    last = start.step if start else None
    for entry in entries:
        steps, since = entry.number_of("steps"), entry.number_of("since")
        if since is not None:
            steps = entry.step - since
        if last is None:
            # only the log's first line can be of the steps from its beginning
            last = 0 if entry.step == interval else entry.step - int(steps or 0)
        if steps is not None and last + steps != entry.step:
            raise AnalysisError(
                f"{path}: line {entry.number} is of {steps:.0f} steps, but the line before it "
                f"stands for step {last}, {entry.step - last} earlier: lines are missing"
            )
        covered.append(entry.step - last)
        last = entry.step
    return covered


def _missing(warmup: int, steps: Sequence[int], interval: int) -> list[int]:
    """Steps without their line, the first hundred of each gap: there may be billions."""
    missing: list[int] = []
    last = warmup
    for step in steps:
        missing += itertools.islice(range(last + interval, step, interval), 100)
        last = step
    return missing


def _unbroken(window: Window) -> None:
    """Time rises, and training never stands still between two steps of the window."""
    read = window.read
    everything = [*([window.start] if window.start else []), *window.entries]
    for entry, later in zip(everything, everything[1:], strict=False):
        if entry.time is not None and later.time is not None and later.time < entry.time:
            raise AnalysisError(
                f"{read.log.path}: time runs backwards from line {entry.number} to "
                f"{later.number} (step {entry.step} to {later.step}): was the clock set?"
            )
    first = window.start.number if window.start else 0
    last = window.entries[-1].number
    settings = [stated.pattern for stated in read.stated]
    rank = window.entries[-1].rank
    for line in read.lines:
        if not first < line.number < last or line.rank not in (None, rank):
            continue  # what another rank wrote there, it may have printed long before
        if read.source.pauses and (pause := read.source.pauses.search(line.text)):
            raise AnalysisError(
                f"{read.log.path}: line {line.number} ({pause[0]!r}) stands inside the window: "
                "training stood still there; choose steps before or after it"
            )
        # a run that goes on from a checkpoint may never let the step fall
        if window.start and any(pattern.search(line.text) for pattern in settings):
            raise AnalysisError(
                f"{read.log.path}: line {line.number} states settings inside the window: the "
                "process was started again there; choose steps before or after it"
            )


def skipped(window: Window) -> str:
    """How many steps of the window changed no weights, in words; '' where the log says of none."""
    kind, rank = window.read.source.skipped, window.entries[-1].rank
    first = window.start.number if window.start else window.entries[0].number - 1
    before = total = since = 0
    for line in window.read.lines:
        if line.number > window.entries[-1].number:
            break
        if (
            not kind
            or line.rank not in (None, rank)
            or not (found := kind.pattern.search(line.text))
        ):
            continue
        said = found.groupdict()
        if said.get("total"):
            total = int(said["total"])
            before = total if line.number <= first else before
        elif line.number > first:
            since += int(said["since"])
    steps = total - before + since
    if not kind or not steps:
        return ""
    how = "are among its steps" if kind.counted else "are in its time, not among its steps"
    return f"{steps} skipped steps (loss scale) {how}"


def stall(window: Window) -> str:
    """Where training took far longer than usual, which no line explains; '' where it never did."""
    everything = [*([window.start] if window.start else []), *window.entries]
    times = [
        ((later.time - entry.time) / (later.step - entry.step), entry.step, later.step)
        for entry, later in zip(everything, everything[1:], strict=False)
        if entry.time is not None and later.time is not None
    ]
    if len(times) < 5:
        return ""
    usual = statistics.median(seconds for seconds, _, _ in times)
    longest, step, later = max(times)
    if longest <= _STALL * usual:
        return ""
    return f"steps {step} to {later} took {longest / usual:.0f} times as long as usual"


def _near(steps: Sequence[int], wanted: int) -> str:
    """The steps that a window could have its ends at, the nearest among them."""
    if len(steps) <= 6:
        return f" [the log has: {_listed(steps)}]"
    place = bisect.bisect(steps, wanted)
    near = _listed(steps[max(place - 2, 0) : place + 2])
    return f" [the log has {steps[0]} to {steps[-1]}, nearest: {near}]"


def _listed(steps: Sequence[int]) -> str:
    if len(steps) <= 6:
        return ", ".join(str(step) for step in steps)
    return f"{', '.join(str(step) for step in steps[:4])}, … {steps[-1]}"


def _cut(read: Read) -> str:
    return "; its last line has no end and does not count" if read.log.cut else ""
