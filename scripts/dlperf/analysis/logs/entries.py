"""What the lines of a log say of training: one entry a printed step.

In: a log and its source. Out: entries in the order of the file, of the one form that most of its
lines have (two kinds of lines about the same steps would count them twice).
"""

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dlperf.analysis.logs import stamps
from dlperf.analysis.logs.forms import Form, Source, Stated, WrongLine
from dlperf.analysis.logs.lines import Line, Log
from dlperf.analysis.schema.files import AnalysisError


@dataclass(frozen=True)
class Entry:
    number: int  # of its line
    text: str
    rank: int | None
    epoch: int  # 0 where steps are counted through
    step: int  # how many steps of the epoch were done when it was printed
    time: float | None  # seconds, on the log's own scale
    resolution: float  # seconds between two values that the log's time stamps can have
    values: Mapping[str, str] = field(hash=False)  # printed numbers, by the names of forms.py

    def number_of(self, *names: str) -> float | None:
        """The first of these that the line has."""
        return next((float(self.values[name]) for name in names if name in self.values), None)

    @property
    def key(self) -> tuple[int, int]:
        return self.epoch, self.step


@dataclass(frozen=True)
class Read:
    log: Log
    source: Source
    form: Form
    lines: tuple[Line, ...]  # as source.join made them
    entries: tuple[Entry, ...]

    @property
    def stated(self) -> tuple[Stated, ...]:
        """What its lines may state."""
        return (*self.source.stated, *self.form.stated)


def read(log: Log, source: Source) -> Read:
    """The entries of a log. Raises AnalysisError where it has none."""
    try:
        lines = tuple(source.join(log.lines))
    except WrongLine as wrong:
        raise AnalysisError(f"{log.path}: {wrong}") from None
    found = [(form, list(_matches(form, lines))) for form in source.forms]
    form, matches = max(found, key=lambda each: len(each[1]))
    if not matches:
        if lacks := source.lacks(lines):
            raise AnalysisError(f"{log.path}: {lacks}")
        raise AnalysisError(
            f"{log.path}: no line as of {source.title}"
            f"{_with_commas(lines, source) or _elsewhere(log) or _nearest(lines, source)}"
        )
    times = stamps.unroll(stamp for _, _, stamp in matches)
    # Python leaves out a fraction that is zero: the finest stamp says how fine all are
    resolution = min((stamp.resolution for _, _, stamp in matches if stamp), default=0.0)
    entries = [
        _entry(form, line, match, resolution, time)
        for (line, match, stamp), time in zip(matches, times, strict=True)
    ]
    return Read(log, source, form, lines, tuple(entries))


Match = tuple[Line, re.Match[str], stamps.Stamp | None]


def _matches(form: Form, lines: tuple[Line, ...]) -> Iterator[Match]:
    for line in lines:
        done = 0
        # several on one line: ranks that wrote at the same moment
        for match in form.pattern.finditer(line.text):
            head = line.text[done : match.start()]
            unix = match.groupdict().get("unix")
            stamp = stamps.unix(unix) if unix else stamps.find(head)
            yield line, match, stamp or stamps.find(line.launcher_time)
            done = match.end()


def _entry(
    form: Form, line: Line, match: re.Match[str], resolution: float, time: float | None
) -> Entry:
    values = {name: text for name, text in match.groupdict().items() if text is not None}
    rank = int(values["rank"]) if "rank" in values else line.rank
    return Entry(
        number=line.number,
        text=line.text,
        rank=rank,
        epoch=int(values.get("epoch", 0)),
        step=int(values["step"]) + 1 - form.first_step,
        time=time,
        resolution=resolution,
        values=values,
    )


def _elsewhere(log: Log) -> str:
    """Which other sources print such lines."""
    from dlperf.analysis.logs import SOURCES, load

    fitting = []
    for name in SOURCES:
        try:
            lines = tuple(load(name).join(log.lines))
        except WrongLine:  # it has lines of that source, though one of them is wrong
            fitting.append(name)
            continue
        if any(True for form in load(name).forms for _ in _matches(form, lines)):
            fitting.append(name)
    return f"; its lines are those of --source {' or '.join(fitting)}" if fitting else ""


#: A comma in a number, as locales other than C print it.
_COMMA = re.compile(r"(?<=\d),(?=\d)")


def _with_commas(lines: tuple[Line, ...], source: Source) -> str:
    """Where lines would be those of the source if their numbers had a point for a comma."""
    for line in lines:
        changed = (replace(line, text=_COMMA.sub(".", line.text)),)
        if any(True for form in source.forms for _ in _matches(form, changed)):
            return (
                f"; line {line.number} would be one if its numbers had no comma in them: "
                f"{_short(line)}: let the script print numbers as in the locale C (LC_ALL=C)"
            )
    return ""


#: What stands in a pattern for characters, and the names of its groups.
_NO_WORD = re.compile(r"\\.|\(\?P?<\w+>|\[[^\]]*\]")
_WORD = re.compile(r"[A-Za-z_]{3,}")


def _nearest(lines: tuple[Line, ...], source: Source) -> str:
    """The lines that are most like those of the source, one of a kind."""
    patterns = [form.pattern for form in source.forms] + [each.pattern for each in source.stated]
    words = set(_WORD.findall(" ".join(_NO_WORD.sub(" ", each.pattern) for each in patterns)))
    kinds: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if re.search(r"\d", line.text):
            kinds[re.sub(r"[\d.]+", "0", line.text)].append(line)

    def likeness(kind: str) -> float:
        own = _WORD.findall(kind)
        # progress is printed again and again, in short lines
        return len(words & set(own)) ** 2 / (len(own) or 1) * math.log(1 + len(kinds[kind]))

    found = [kinds[kind][0] for kind in sorted(kinds, key=likeness, reverse=True)[:3]]
    shown = "".join(f"\n  line {line.number}: {_short(line)}" for line in found)
    near = f"; the nearest are:{shown}\n" if found else "; no line of it has a number. "
    return (
        f"{near}If another script wrote it, no source here reads it: write what it says as rows of "
        "a CSV, as docs/importing.md describes"
    )


def _short(line: Line) -> str:
    return textwrap.shorten(line.text, 160, placeholder=" …")
