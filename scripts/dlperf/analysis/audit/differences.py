"""What differs between a stored table, figure or page and the same one made again.

In: the content of both. Out: a `Difference` a cell, a text or a drawing. Files that are the same
byte by byte differ in nothing; only others are taken apart. What may differ without being told is
said by `Likeness`: nothing, where both were made with the same libraries on the same processor.
"""

import csv
import gzip
import html
import html.parser
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dlperf.analysis.schema import columns

ABSENT = "(not there)"
#: Where libraries or processors differ: relative difference of numbers in TSV files, points in SVG
#: files, and steps of 255 in a pixel. What is larger is no rounding.
ROUNDING = 1e-9
POINTS = 0.01
PIXEL = 16
#: What names a row of measurements, cells, parity and certificates, where the file has it.
NAMING = ("workload", "framework", "case", "repetition", "key", "tier")


class Difference(NamedTuple):
    """`stored` is what lies there, `made` what the raw records give. `rounding`: no more differs
    than other libraries or another processor may round."""

    row: str
    column: str
    stored: str
    made: str
    rounding: bool = False


@dataclass(frozen=True)
class Likeness:
    """How alike the two makings were. `same`: the same bytes are expected. Otherwise rounding may
    differ, and, where `drawn` is False (another Matplotlib), figures cannot be compared."""

    same: bool = True
    drawn: bool = True


#: (row, column, text) of one cell or one piece of text.
Piece = tuple[str, str, str]


def compare(name: str, stored: bytes, made: bytes, likeness: Likeness) -> list[Difference]:
    """What differs between the two contents of the file `name`, whose ending says its kind."""
    if stored == made:
        return []
    if name.endswith(".png"):
        return _png(stored, made, likeness)
    try:
        old, new = _text(stored), _text(made)
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        return [Difference("", "", f"cannot be read: {error}", "")]
    if name.endswith(".svg"):
        return svg(old, new, likeness)
    if name.endswith(".html"):
        return _page(old, new, likeness)
    take = _markdown if name.endswith(".md") else _tsv
    return list(_unlike(take(old), take(new), likeness)) or _first_line(old, new)


def _text(content: bytes) -> str:
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()


def _unlike(stored: Sequence[Piece], made: Sequence[Piece], like: Likeness) -> Iterator[Difference]:
    """Pieces whose texts differ. A row that only one of them has is one difference."""
    old, new = _by_place(stored), _by_place(made)
    rows_old, rows_new = ({row for row, _ in each} for each in (old, new))
    told = set()
    for row, column in {**old, **new}:
        if row in rows_old and row in rows_new:
            before, after = old.get((row, column), ABSENT), new.get((row, column), ABSENT)
            if before != after:
                rounding = not like.same and _rounded(before, after)
                yield Difference(row, column, before, after, rounding)
        elif row not in told:
            told.add(row)
            if row in rows_old:
                yield Difference(row, "", _row(old, row), ABSENT)
            else:
                yield Difference(row, "", ABSENT, _row(new, row))


def _by_place(pieces: Sequence[Piece]) -> dict[tuple[str, str], str]:
    """The texts by row and column; places that occur again are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for row, column, text in pieces:
        seen[row, column] += 1
        count = seen[row, column]
        found[f"{row} #{count}" if count > 1 else row, column] = text
    return found


def _row(pieces: dict[tuple[str, str], str], row: str) -> str:
    return " | ".join(text for (each, _), text in pieces.items() if each == row and text)[:300]


def _rounded(before: str, after: str) -> bool:
    try:
        return math.isclose(float(before), float(after), rel_tol=ROUNDING)
    except ValueError:
        return False


def _first_line(old: str, new: str) -> list[Difference]:
    """Of texts that say the same but are not the same: where they begin to differ."""
    lines, others = old.splitlines(), new.splitlines()
    lines += [ABSENT] * (len(others) - len(lines))
    others += [ABSENT] * (len(lines) - len(others))
    for number, (before, after) in enumerate(zip(lines, others, strict=True), start=1):
        if before != after:
            return [Difference(f"line {number}", "", before[:300], after[:300])]
    return [Difference("ends of lines", "", "", "")] if old != new else []


def _tsv(text: str) -> list[Piece]:
    rows = csv.reader(io.StringIO(text, newline=""), dialect="excel-tab")
    header = next(rows, [])
    naming = NAMING if "case" in header else (*columns.CERTIFICATE[:7], "tier")
    places = [header.index(name) for name in naming if name in header] or [0]
    pieces = []
    for row in rows:
        label = " ".join(row[place] for place in places if place < len(row) and row[place])
        pieces += [(label, column, value) for column, value in zip(header, row, strict=False)]
        if len(row) != len(header):
            pieces.append((label, "number of fields", str(len(row))))
    # a header alone is compared too: it has no row
    return pieces or [("header", name, name) for name in header]


def _markdown(text: str) -> list[Piece]:
    header: list[str] = []
    pieces = []
    for line in text.splitlines():
        if not line.startswith("|"):
            pieces.append(("text", "", line))
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not header:
            header = cells
        for column, cell in zip(header, cells, strict=False):
            pieces.append((cells[0] or "header", column, cell))
    return pieces


_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_COMPUTED_WITH = re.compile(r'(<dd id="computed-with">)(.*?)(</dd>)', re.DOTALL)


def computed_with(page: str) -> list[str]:
    """What the page says that it was computed with; [] where it says nothing."""
    found = _COMPUTED_WITH.search(page)
    return html.unescape(found[2]).split("; ") if found else []


def _page(old: str, new: str, likeness: Likeness) -> list[Difference]:
    found = []
    drawn = [dict(_drawings(text)) for text in (old, new)]
    for name in {**drawn[0], **drawn[1]}:
        before, after = (each.get(name) for each in drawn)
        if before is None or after is None:
            stored, made = (ABSENT if each is None else "(a figure)" for each in (before, after))
            found.append(Difference(f"figure {name}", "", stored, made))
        else:
            inside = svg(before, after, likeness)
            found += [each._replace(row=f"figure {name}: {each.row}") for each in inside]
    # what a page was computed with is read before, not compared
    old, new = (_COMPUTED_WITH.sub(r"\1\3", _SVG.sub("", text)) for text in (old, new))
    told = list(_unlike(_html(old), _html(new), Likeness()))
    return found + (told or _first_line(old, new))


def _drawings(page: str) -> Iterator[tuple[str, str]]:
    for number, match in enumerate(_SVG.finditer(page), start=1):
        name = re.match(r'<svg[^>]* id="([^"]*)"', match[0])
        yield (name[1] if name else f"{number}", match[0])


class _Pieces(html.parser.HTMLParser):
    """Cells by the labels of their row and column, other texts by heading and element."""

    HEADINGS = ("title", "h1", "h2", "h3", "h4", "summary")
    BLOCKS = (*HEADINGS, "p", "li", "dt", "dd", "pre", "figcaption", "caption", "th", "td", "style")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Piece] = []
        self.heading, self.term, self.kind = "", "", ""
        self.words: list[str] = []
        self.titles: list[str] = []  # what shows when one points at a text
        self.header: list[str] = []
        self.cells: list[tuple[str, str, int]] = []  # of a row: (th or td, text, colspan)
        self.span, self.in_head = 1, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.words.append(" ")
        if tag in self.BLOCKS:
            self._end()
            self.kind, self.span = tag, int(given.get("colspan") or 1)
        elif tag == "table":
            self._end()
            self.header = []
        elif tag in ("thead", "tbody"):
            self.in_head = tag == "thead"
        elif tag == "tr":
            self._end()
            self.cells = []
        if given.get("title"):
            self.titles.append(f" [{given['title']}]")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.BLOCKS:
            self._end()
        elif tag == "tr":
            self._end_row()

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        """A block ended: what it said goes to its place."""
        text = " ".join("".join([*self.words, *self.titles]).split())
        kind, self.kind, self.words, self.titles = self.kind or "text", "", [], []
        if kind in ("th", "td"):
            self.cells.append((kind, text, self.span))
        elif kind == "dt":
            self.term = text
        elif text:
            if kind in self.HEADINGS:
                self.heading = text
            self.found.append((self.heading, self.term if kind == "dd" else kind, text))

    def _end_row(self) -> None:
        self._end()
        if self.in_head:
            self.header = [text for _, text, span in self.cells for _ in range(span)]
            self.found += [(f"{self.heading}: header", text, text) for text in self.header]
            return
        own = [text for kind, text, _ in self.cells if kind == "th"]
        label = " ".join(own or [text for _, text, _ in self.cells[:3]])
        place = 0
        for _, text, span in self.cells:
            column = self.header[place] if place < len(self.header) else str(place + 1)
            self.found.append((f"{self.heading}: {label}", column, text))
            place += span


def _html(text: str) -> list[Piece]:
    parser = _Pieces()
    parser.feed(text)
    parser.close()
    return parser.found


_TEXT = re.compile(r"<text\b[^>]*>(.*?)</text>", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w#])-?\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)")
#: Ids that Matplotlib makes of what they stand for: another last digit, another id.
_MADE_ID = re.compile(r"\b[a-z]?[0-9a-f]{10}\b")


def svg(old: str, new: str, likeness: Likeness) -> list[Difference]:
    """Texts one by one; of the drawing itself, where it begins to differ."""
    if old == new or not likeness.drawn:
        return []
    found = list(_unlike(_texts(old), _texts(new), Likeness()))
    if not likeness.same:
        old, new = (_MADE_ID.sub("id", each) for each in (old, new))
        skeletons = (_NUMBER.sub("0", each) for each in (old, new))
        if len(set(skeletons)) == 1 and _near(_NUMBER.findall(old), _NUMBER.findall(new)):
            return found
    if not found:
        found = [each._replace(row=f"drawing, {each.row}") for each in _first_line(old, new)]
    return found


def _texts(drawing: str) -> list[Piece]:
    found = enumerate(_TEXT.findall(drawing), start=1)
    return [("text", str(number), text) for number, text in found]


def _near(old: Sequence[str], new: Sequence[str]) -> bool:
    return all(
        abs(float(before) - float(after)) <= POINTS for before, after in zip(old, new, strict=True)
    )


def _png(stored: bytes, made: bytes, likeness: Likeness) -> list[Difference]:
    import numpy
    from PIL import Image, ImageChops, UnidentifiedImageError

    if not likeness.drawn:
        return []
    try:
        old, new = (Image.open(io.BytesIO(each)).convert("RGB") for each in (stored, made))
    except (UnidentifiedImageError, OSError, ValueError) as error:
        return [Difference("", "", f"cannot be read: {error}", "")]
    if old.size != new.size:
        return [Difference("size", "", "x".join(map(str, old.size)), "x".join(map(str, new.size)))]
    apart = ImageChops.difference(old, new)
    most = int(numpy.asarray(apart).max())
    if not likeness.same:
        return [Difference("pixels", "", f"up to {most} of 255 apart", "")] if most > PIXEL else []
    where = apart.getbbox()
    told = f"others in the box {where}" if where else "the same, but not the file's other bytes"
    return [Difference("pixels", "", told, "")]
