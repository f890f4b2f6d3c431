"""Files of the analysis: written whole or not at all, with the same bytes every time.

Tables are tab-separated text with a header. An empty field means that there is no value; numbers
are written so that they read back exactly.
"""

import contextlib
import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

from dlperf.analysis.schema.columns import numbers
from dlperf.contract import storage
from dlperf.contract.files import write

Row = dict[str, Any]
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
    """Rows as lines of TSV, without a header.

    Column by column, as most columns have values of one type; the csv module takes six times as
    long.
    """
    rows = list(rows)
    spelled = [_spell([row.get(name) for row in rows]) for name in columns]
    return "".join([f"{line}\n" for line in map("\t".join, zip(*spelled, strict=True))])


def write_lines(path: str | Path, columns: Sequence[str], parts: Iterable[str]) -> None:
    """Write a table of which `parts` are the lines, as write_table does with rows."""
    header = "\t".join(columns) + "\n"
    content = "".join([header, *parts]).encode()
    if str(path).endswith(".gz"):
        content = gzip.compress(content, compresslevel=3, mtime=0)
    write(path, content)


def _spell(values: list[Any]) -> Iterable[str]:
    """The fields of a column: a float by its repr, None as nothing, text in one line."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in _SPELLING:
            return map(_SPELLING[kind], values)
    return [_SPELLING.get(type(value), _other)(value) for value in values]


def _other(value: Any) -> str:
    return _in_one_line(str(value))


@lru_cache(4096)  # most texts are those of the row before
def _in_one_line(text: str) -> str:
    """A text as the csv module writes it, but for white space: a space each."""
    text = " ".join(text.split())
    return '"{}"'.format(text.replace('"', '""')) if '"' in text else text


_SPELLING: dict[type, Callable[[Any], str]] = {
    str: _in_one_line,
    float: repr,
    int: str,
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): {None: ""}.__getitem__,
}


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
