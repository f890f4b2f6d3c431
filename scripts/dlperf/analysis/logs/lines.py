"""A log file as lines: decoded, without colours and launchers' prefixes, with the rank they name.

A last line without its end may have been cut in the middle of a number: it is left out.
"""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlperf.analysis.schema.files import AnalysisError

#: Digits that are no number that a log prints; converted, they would take for ever or fail.
_DIGITS = re.compile(r"\d{41,}")
#: Characters of a line that are read: patterns would search longer ones for hours.
_LONGEST = 20_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: What launchers put before each rank's lines.
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[(?:default|rank)?(?P<rank>\d+)\]:? ",  # Intel MPI --prepend-rank, torchrun --tee
        r" *(?P<rank>\d+): (?=\D)",  # srun --label
    )
)


#: Open MPI --tag-output, horovodrun, with --timestamp-output; also in the middle of a line, after
#: a progress bar that did not end its own.
_TAG = re.compile(
    r"(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    r"\[\d+,(?P<rank>\d+)\]<std(?:out|err)>: ?"
)


@dataclass(frozen=True)
class Line:
    number: int  # in the file, from 1
    text: str
    rank: int | None  # who printed it, where a launcher says so
    launcher_time: str = ""  # when, where a launcher says so


@dataclass(frozen=True)
class Log:
    path: Path
    sha256: str
    lines: tuple[Line, ...]
    cut: str  # the last line, where it has no end; else ""


def read(path: Path) -> Log:
    """A log file; .gz is unpacked. Raises AnalysisError where it cannot be read."""
    try:
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise AnalysisError(f"{path}: cannot be read: {error}") from None
    whole, cut = _split(_decode(content))
    return Log(path, sha256, tuple(_lines(whole)), cut)


def _decode(content: bytes) -> str:
    """Text whatever its encoding: a byte that is none never costs its line."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's tee writes
        return content.decode("utf-16", errors="replace")
    return content.decode("utf-8-sig", errors="replace").replace("\0", "")


def _split(text: str) -> tuple[list[str], str]:
    # a progress bar overwrites its line after \r: each of its states is a line of its own
    *whole, rest = re.split(r"\r\n|\n|\r", text)
    return whole, rest


def _lines(texts: list[str]) -> Iterator[Line]:
    for number, text in enumerate(texts, start=1):
        if len(text) > _LONGEST:  # a number must not be cut
            text = text[:_LONGEST].rpartition(" ")[0]
        text = _DIGITS.sub("…", _COLOUR.sub("", text))
        tags = list(_TAG.finditer(text))
        before = text[: tags[0].start()] if tags else text
        if before or not tags:
            yield _labelled(number, before)
        ends = [*(tag.start() for tag in tags[1:]), len(text)]
        for tag, end in zip(tags, ends, strict=False):
            yield Line(number, text[tag.end() : end], int(tag["rank"]), tag["time"] or "")


def _labelled(number: int, text: str) -> Line:
    for prefix in _PREFIXES:
        if match := prefix.match(text):
            return Line(number, text[match.end() :], int(match["rank"]))
    return Line(number, text, None)
