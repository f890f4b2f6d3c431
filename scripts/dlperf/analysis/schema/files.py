"""Files of the analysis: written whole or not at all, with the same bytes every time.

Tables are tab-separated text with a header. An empty field means that there is no value; numbers
are written so that they read back exactly.
"""

import contextlib
import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

from dlperf.analysis.schema.columns import numbers
from dlperf.contract import storage
from dlperf.contract.files import write

Row = dict[str, Any]
#: What the csv module writes as we do: a float by its repr, None as nothing.
AS_IT_IS = {float, int, type(None)}
# All latencies of a repetition are one field.
csv.field_size_limit(2**31 - 1)


class AnalysisError(Exception):
    """What a user can fix; the message names the file, what is wrong and what to do."""


def write_table(
    path: str | Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows as TSV; gzipped, without a time stamp, where the name ends in .gz."""
    write_lines(path, columns, [lines(columns, rows)])


def lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as lines of TSV, without a header."""
    text = io.StringIO()
    csv.writer(text, dialect="excel-tab", lineterminator="\n").writerows(
        [value if type(value) in AS_IT_IS else _spell(value) for value in map(row.get, columns)]
        for row in rows
    )
    return text.getvalue()


def write_lines(path: str | Path, columns: Sequence[str], parts: Iterable[str]) -> None:
    """Write a table of which `parts` are the lines, as write_table does with rows."""
    header = "\t".join(columns) + "\n"
    content = "".join([header, *parts]).encode()
    if str(path).endswith(".gz"):
        content = gzip.compress(content, compresslevel=3, mtime=0)
    write(path, content)


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _in_one_line(value if type(value) is str else str(value))


@lru_cache(1024)  # most texts are those of the row before
def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def read_table(path: str | Path, only: Sequence[str] = ()) -> list[Row]:
    """Rows of a TSV, columns.numbers() converted; an empty number is None, an empty text "".

    `only`: the columns that are wanted; all, where none is named.
    """
    try:
        with _open(path) as stream:
            read = _fields(stream)
            header = next(read, [])
            rows = [*_by_name(header, only, filter(None, read))]
            kinds = numbers(only or header)
    except (OSError, EOFError) as error:
        if storage.is_lacking(error):
            raise
        raise AnalysisError(f"{path}: cannot be read: {error}") from None
    for line, row in enumerate(rows, start=2):
        try:
            for name, kind in kinds.items():
                row[name] = kind(row[name]) if row[name] else None
        except ValueError:
            wrong = f"{path}: line {line}: {name}: {row[name]!r} is not a number"
            raise AnalysisError(wrong) from None
    return rows


def _fields(stream: IO[str]) -> Iterator[list[str]]:
    """The fields of each line; the csv module, which takes twice as long, reads quoted ones."""
    for line in stream:
        if '"' in line:
            yield from csv.reader(chain([line], stream), dialect="excel-tab")
            return
        text = line.rstrip("\r\n")
        yield text.split("\t") if text else []


def _by_name(
    header: Sequence[str], only: Sequence[str], lines: Iterable[Sequence[str]]
) -> Iterator[Row]:
    """The fields of each line by their names in the header; what a short line lacks is None.

    csv.DictReader takes three times as long.
    """
    places = [(name, header.index(name)) for name in only]
    absent: list[Any] = [None] * len(header)
    for line in lines:
        if len(line) != len(header):
            line = [*line, *absent[len(line) :]]
        if only:
            yield {name: line[place] for name, place in places}
        else:
            yield dict(zip(header, line, strict=False))


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[IO[str]]:
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as stream:
        yield stream
