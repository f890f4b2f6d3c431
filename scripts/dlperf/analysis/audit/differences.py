"""What differs between a stored file of a round and the same one made again.

In: the content of both. Out: a `Difference` a cell of a table (TSV); of everything that is derived
from tables (Markdown, HTML, SVG, PNG), where the bytes begin to differ.
"""

import csv
import gzip
import hashlib
import html
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dlperf.analysis.schema import columns

ABSENT = "(not there)"
#: Endings of tables.
TABLES = (".tsv", ".tsv.gz")
#: Relative difference of numbers that another processor may round to.
ROUNDING = 1e-9
#: What names a row of measurements, cells, parity and certificates, where the file has it.
NAMING = (
    *("workload", "framework", "case", "metric", "over", "together"),
    *("repetition", "key", "tier"),
    *("baseline", "baseline_case", "implementation", "published_table"),  # of figures of others
)
#: How much of a line is shown.
SHOWN = 300


class Difference(NamedTuple):
    """`stored` is what lies there, `made` what the raw records give. `rounding`: no more differs
    than another processor may round."""

    row: str
    column: str
    stored: str
    made: str
    rounding: bool = False


#: (row, column, text) of one cell of a table.
Piece = tuple[str, str, str]


def compare(name: str, stored: bytes, made: bytes) -> list[Difference]:
    """What differs between the two contents of the file `name`, whose ending says its kind."""
    if stored == made:
        return []
    if name.endswith((".png", ".pdf")):
        before, after = (hashlib.sha256(each).hexdigest() for each in (stored, made))
        return [Difference("", "sha256", before, after)]
    try:
        old, new = _text(stored), _text(made)
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        return [Difference("", "", f"cannot be read: {error}", "")]
    if name.endswith(TABLES):  # the same table may have other bytes, packed by another zlib
        return list(_unlike(_tsv(old), _tsv(new))) or _first_line(old, new)
    return _first_line(old, new)


def _text(content: bytes) -> str:
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()


def _unlike(stored: Sequence[Piece], made: Sequence[Piece]) -> Iterator[Difference]:
    """Cells whose texts differ. A row that only one of them has is one difference."""
    old, new = _by_place(stored), _by_place(made)
    rows_old, rows_new = ({row for row, _ in each} for each in (old, new))
    told = set()
    for row, column in {**old, **new}:
        if row in rows_old and row in rows_new:
            before, after = old.get((row, column), ABSENT), new.get((row, column), ABSENT)
            if before != after:
                yield Difference(row, column, before, after, _rounded(before, after))
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
    return " | ".join(text for (each, _), text in pieces.items() if each == row and text)[:SHOWN]


def _rounded(before: str, after: str) -> bool:
    try:
        return math.isclose(float(before), float(after), rel_tol=ROUNDING)
    except ValueError:
        return False


def _first_line(old: str, new: str) -> list[Difference]:
    """Where two texts begin to differ, shown from just before that place."""
    lines, others = old.split("\n"), new.split("\n")
    lines += [ABSENT] * (len(others) - len(lines))
    others += [ABSENT] * (len(lines) - len(others))
    for number, (before, after) in enumerate(zip(lines, others, strict=True), start=1):
        if before != after:
            same = next(
                (i for i, (one, two) in enumerate(zip(before, after, strict=False)) if one != two),
                min(len(before), len(after)),
            )
            first = max(0, same - SHOWN // 10)
            shown = slice(first, first + SHOWN)
            return [Difference(f"line {number}", "", before[shown], after[shown])]
    return []


_COMPUTED_WITH = re.compile(rb'<dd id="computed-with">([^<]*)</dd>')


def computed_with(page: bytes) -> list[str]:
    """What the page says that it was computed with; [] where it says nothing.

    For a reader of the audit: the line itself is compared, as everything in the page is.
    """
    found = _COMPUTED_WITH.search(page)
    return html.unescape(found[1].decode(errors="replace")).split("; ") if found else []


def pinned(page: bytes) -> str:
    """The sha256 of SHA256SUMS that the page states; "" where it states none."""
    found = re.search(rb'id="sums-sha256">([0-9a-f]{64})<', page)
    return found[1].decode() if found else ""


def as_computed_with(page: bytes, said: Sequence[str]) -> bytes:
    """The page as if it had been computed with the versions in `said`.

    Only names with a version are taken: a page can say nothing else there.
    """
    names = [each.split(" ")[0] for each in computed_with(page)]
    if [each.split(" ")[0] for each in said] != names or not all(map(_VERSION.fullmatch, said)):
        return page
    line = b'<dd id="computed-with">%s</dd>' % html.escape("; ".join(said)).encode()
    return _COMPUTED_WITH.sub(lambda _: line, page, count=1)


_VERSION = re.compile(r"[A-Za-z][\w-]* [\w.+!-]{1,40}", re.ASCII)


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
