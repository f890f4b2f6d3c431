"""Reads articles from a dump of Wikipedia as it is downloaded: bz2 streams of MediaWiki's XML.

The input is `pages-articles-multistream.xml.bz2` files, whole or in parts; the output is a stream
of articles. A multistream dump consists of many bz2 streams with whole pages, so its sections can
be read in parallel. The places where streams start are found in the file itself, without the index
of the dump. A DOCTYPE in the XML is refused, so there are no entities to expand.
"""

import bz2
import codecs
import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from dlperf.loaders import DataError

# The magic numbers of a stream and of its first block: ten bytes that do not occur by chance.
STREAM = re.compile(rb"BZh[1-9]1AY&SY")
MAGIC_BYTES = 10
READ_BYTES = 2**18
LARGEST = 2**22  # characters of an article; MediaWiki itself allows 2 MiB
ROOT = "mediawiki"
#: Path of an element -> what its text is called here. `redirect` has no text; it only has to exist.
KEPT = {
    f"/{ROOT}/page/title": "title",
    f"/{ROOT}/page/ns": "namespace",
    f"/{ROOT}/page/id": "id",
    f"/{ROOT}/page/redirect": "redirect",
    f"/{ROOT}/page/revision/text": "text",
}
FIX = "download it again and compare its sha1 with that of the dump's page"


class Dump(NamedTuple):
    """A file, its sha256, and where its bz2 streams start."""

    path: Path
    bytes: int
    sha256: str
    streams: list[int]


class Part(NamedTuple):
    """Whole streams of a file: its bytes from `start` to `end` - 1."""

    path: Path
    start: int
    end: int
    last: bool


class Article(NamedTuple):
    page: int
    title: str
    text: str


def scan(path: Path) -> Dump:
    """Read a file once. Raises DataError if it is not bz2."""
    sha256, streams, before, left = hashlib.sha256(), [], 0, b""
    with open(path, "rb") as stream:
        while content := stream.read(READ_BYTES):
            sha256.update(content)
            seen = left + content
            streams += [before - len(left) + match.start() for match in STREAM.finditer(seen)]
            before += len(content)
            left = seen[1 - MAGIC_BYTES :]  # too short to match again
    if streams[:1] != [0]:
        raise DataError(
            f"{path}: is not bz2; a dump's pages-articles-multistream.xml.bz2 is needed, as it was "
            "downloaded"
        )
    return Dump(path, before, sha256.hexdigest(), streams)


def divide(dumps: list[Dump], count: int) -> list[list[Part]]:
    """All streams, in order, in `count` parts of about equal size, none of them empty."""
    streams, before = [], 0
    for dump in dumps:
        streams += [(before + start, dump, start) for start in dump.streams]
        before += dump.bytes
    if count > len(streams):
        raise DataError(
            f"{', '.join(str(dump.path) for dump in dumps)}: {len(streams)} bz2 streams, too few "
            f"for {count} shards: use the dump that is called multistream, or fewer --shards"
        )
    cuts = [0]
    for number in range(1, count):
        cut = bisect_left(streams, before * number // count, key=lambda stream: stream[0])
        cuts.append(min(max(cut, cuts[-1] + 1), len(streams) - count + number))
    cuts.append(len(streams))
    shares = []
    for first, end in zip(cuts, cuts[1:], strict=False):
        parts: dict[Path, Part] = {}
        for number in range(first, end):
            _, dump, start = streams[number]
            following = streams[number + 1] if number + 1 < len(streams) else None
            last = following is None or following[1] is not dump
            begin = parts[dump.path].start if dump.path in parts else start
            stop = dump.bytes if last else following[2]
            parts[dump.path] = Part(dump.path, begin, stop, last)
        shares.append(list(parts.values()))
    return shares


def articles(part: Part, largest: int, skipped: Counter[str]) -> Iterator[Article]:
    """The pages of namespace 0 with text, in order; the others are counted by reason.

    largest: characters of wikitext. Longer articles are skipped and never held in memory.
    Raises DataError if the file is damaged, ends too early, or is not MediaWiki's XML.
    """
    pages = Pages(part, largest, skipped)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    if part.start:  # only the first stream opens the root, and only the last one closes it
        pages.feed(f"<{ROOT}>")
    for pages.place, content in decompressed(part):
        pages.feed(decoder.decode(content))
        yield from pages.taken()
    pages.feed(decoder.decode(b"", True) + ("" if part.last else f"</{ROOT}>"), True)
    yield from pages.taken()


def decompressed(part: Part) -> Iterator[tuple[int, bytes]]:
    """Pieces of text, each with its place in the file in bytes. Raises DataError as `articles`."""
    with open(part.path, "rb") as stream:
        place = part.start
        while place < part.end:
            stream.seek(place)
            decompressor, start = bz2.BZ2Decompressor(), place
            while not decompressor.eof:
                content = b""
                if decompressor.needs_input:
                    content = stream.read(min(READ_BYTES, part.end - place))
                    place += len(content)
                    if not content:
                        where = "the file ends" if part.last else "the next one starts"
                        raise DataError(
                            f"{part.path}: the bz2 stream at byte {start} is cut short: {where} at "
                            f"byte {place}: {FIX}"
                        )
                try:
                    content = decompressor.decompress(content, READ_BYTES)
                except OSError as error:
                    raise DataError(
                        f"{part.path}: the bz2 stream at byte {start} is damaged ({error}): {FIX}"
                    ) from None
                yield start, content
            place -= len(decompressor.unused_data)


class Pages:
    """Handlers of the XML parser, which collect one page at a time."""

    def __init__(self, part: Part, largest: int, skipped: Counter[str]) -> None:
        self.place = part.start
        self._file, self._largest, self._skipped = part.path, largest, skipped
        self._path = ""
        self._page: dict[str, str | None] = {}
        self._pieces: list[str] = []
        self._length = 0
        self._found: list[Article] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, text: str, final: bool = False) -> None:
        try:
            self._parser.Parse(text, final)
        except expat.ExpatError as error:
            raise DataError(
                f"{self._where()}: not MediaWiki's XML, or cut short ({error}): {FIX}"
            ) from None

    def taken(self) -> Iterable[Article]:
        found, self._found = self._found, []
        return found

    def _where(self) -> str:
        return f"{self._file}: in the bz2 stream at byte {self.place}"

    def _doctype(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self._where()}: a DOCTYPE, which could define entities without end; dumps of "
            f"MediaWiki have none: {FIX}"
        )

    def _start(self, name: str, _: object) -> None:
        if not self._path and name != ROOT:
            raise DataError(
                f"{self._where()}: the XML's root is <{name}>, expected <{ROOT}>: is this a dump?"
            )
        self._path += f"/{name}"
        self._pieces, self._length = [], 0
        if self._path == f"/{ROOT}/page":
            self._page = {}

    def _characters(self, text: str) -> None:
        if self._path in KEPT:
            self._length += len(text)
            if self._length <= self._largest:
                self._pieces.append(text)
            else:
                self._pieces.clear()

    def _end(self, name: str) -> None:
        if self._path in KEPT:
            whole = self._length <= self._largest
            self._page[KEPT[self._path]] = "".join(self._pieces) if whole else None
        if self._path == f"/{ROOT}/page":
            self._finish()
        self._path = self._path[: -len(name) - 1]

    def _finish(self) -> None:
        page = self._page
        text = page.get("text", "")
        if page.get("namespace") != "0":
            self._skipped["other namespace"] += 1
        elif "redirect" in page:
            self._skipped["redirect"] += 1
        elif text is None:
            self._skipped["too large"] += 1
        elif not text:
            self._skipped["no text"] += 1
        elif "\ufffd" in text:  # what the decoder writes instead of wrong bytes
            self._skipped["invalid UTF-8"] += 1
        else:
            number, title = page.get("id") or "", page.get("title") or ""
            if not number.isdecimal() or int(number) >= 2**32:
                raise DataError(f"{self._where()}: page {title!r} has the id {number!r}: {FIX}")
            self._found.append(Article(int(number), title, text))
