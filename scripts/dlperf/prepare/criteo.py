"""Make shards of clicks from a file in Criteo's form.

    python -m dlperf.prepare.criteo --source results/data/criteo-sample --out results/data/…-npz

The input is train.txt of the challenge (a row is a label, 13 numbers and 26 categories of 8
hexadecimal digits, separated by tabs; missing values are empty), a day of the terabyte set, which
has the same form, either of them compressed by gzip, the challenge's archive, or a folder that has
one of these and its manifest. The output is shards in the format npz, and their manifest. The last
seventh of the rows is to test with: Criteo's file has seven days in their order, and who predicts
clicks knows none of a later day. They are the last shards, `test_shards` of the manifest.

Categories become ids, as in the samples of HugeCTR and OneFlow: a value that is seen fewer than 6
times counts as missing; a field's ids are that of missing and then those of its values in order;
and fields follow each other. So do the two crosses (C1 with C2, C3 with C4) in a space of their
own. A number becomes its rank among the column's values, divided by how many there are; a missing
one is 0. Only rows to train on are looked at for this.

Rows are read a block at a time: memory grows with the different values, not with the rows.
"""

import argparse
import functools
import gzip
import hashlib
import os
import shutil
import string
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.manifest import SAMPLES, sha256_of_file, verify
from dlperf.prepare import progress, shards

NAME = "train.txt"
LEAST = 6  # how often a value must be seen
TEST_PART = 7  # one row in so many is to test with: the last day of seven
CROSSED = ((0, 1), (2, 3))  # C1 with C2, C3 with C4
NUMBERS, FIELDS = 13, 26  # columns of numbers and of categories
FIRST = 1 + NUMBERS  # column of the first category
COLUMNS = FIRST + FIELDS
DIGITS = frozenset(string.hexdigits.encode())
MOST_DIGITS = 18  # of a number: those of an int64
BLOCK = 2**20  # bytes that are read at a time: of more, memory grows and speed does not
FRESH = 2**18  # values that wait before they are counted
TAB, NEWLINE, MINUS = b"\t\n-"

#: A hexadecimal digit's character -> its value; 255: none.
HEX = np.full(256, 255, np.uint8)
for _digit in string.hexdigits:
    HEX[ord(_digit)] = int(_digit, 16)
#: A row as manifest.Digest takes it.
ROW = np.dtype([("numbers", "<f4", 13), ("wide", "<i8", 2), ("deep", "<i8", 26), ("label", "<i8")])


class Columns(NamedTuple):
    """The arrays of a shard: numbers, ids of the wide and of the deep part, labels."""

    numbers: np.ndarray
    wide: np.ndarray
    deep: np.ndarray
    labels: np.ndarray


class Rows(NamedTuple):
    """Rows as they are in the file; `there` says of a value that it is not missing.

    labels: (rows,). numbers: (rows, 13), int64. categories: (rows, 26), uint32.
    """

    labels: np.ndarray
    numbers: np.ndarray
    numbers_there: np.ndarray
    categories: np.ndarray
    categories_there: np.ndarray


class Counts:
    """Different values, in order, and how often each was seen (up to LEAST)."""

    def __init__(self, dtype: str) -> None:
        self.values, self.seen = np.zeros(0, dtype), np.zeros(0, np.uint8)
        self._fresh: list[np.ndarray] = []
        self._waiting = 0

    def add(self, values: np.ndarray) -> None:
        self._fresh.append(values)
        self._waiting += len(values)
        if self._waiting > max(FRESH, len(self.values) // 2):
            self.settle()

    def settle(self) -> None:
        if not self._waiting:
            return
        values, seen = np.unique(np.concatenate(self._fresh), return_counts=True)
        self._fresh, self._waiting = [], 0
        both = np.concatenate([self.values, values])
        seen = np.concatenate([self.seen, np.minimum(seen, LEAST).astype(np.uint8)])
        order = np.argsort(both, kind="stable")  # of two sorted parts: they are merged
        both, seen = both[order], seen[order]
        first = np.flatnonzero(np.append(True, both[1:] != both[:-1])[: len(both)])
        self.values = both[first]
        self.seen = np.minimum(np.add.reduceat(seen, first), LEAST).astype(np.uint8)

    def often(self) -> np.ndarray:
        self.settle()
        return self.values[self.seen >= LEAST]


class Field:
    """The ids of a column of categories: `start` is that of a missing one, others follow."""

    def __init__(self, start: int, values: np.ndarray) -> None:
        self.start, self.values, self.end = start, values, start + 1 + len(values)

    def ids(self, values: np.ndarray, there: np.ndarray) -> np.ndarray:
        place, known = found(self.values, values)
        return np.where(there & known, self.start + 1 + place, self.start)


class Cross:
    """The ids of a pair of columns. A pair of which one is missing is a value too.

    groups: for each of the four cases (which of both are there), the frequent pairs as `paired` has
    them, and their ids.
    """

    def __init__(self, start: int, groups: list[np.ndarray]) -> None:
        # in the order of the text "a,b": a missing one comes before all others
        keys = []
        for group, values in enumerate(groups):
            one = (values >> np.uint64(32)).astype(np.int64)
            other = (values & np.uint64(2**32 - 1)).astype(np.int64)
            gone = -np.ones_like(one)
            keys.append((one if group & 1 else gone, other if group & 2 else gone))
        ones, others = (np.concatenate(each) for each in zip(*keys, strict=True))
        place = np.empty(len(ones), np.int64)
        place[np.lexsort((others, ones))] = np.arange(len(ones))
        ends = np.cumsum([0, *map(len, groups)])
        self.start, self.end = start, start + 1 + len(ones)
        self.groups = [
            (values, start + 1 + place[first:last])
            for values, first, last in zip(groups, ends, ends[1:], strict=False)
        ]

    def ids(self, pairs: np.ndarray, group: np.ndarray) -> np.ndarray:
        ids = np.full(len(pairs), self.start)
        for number, (values, own) in enumerate(self.groups):
            here = np.flatnonzero(group == number)
            place, known = found(values, pairs[here])
            ids[here[known]] = own[place[known]]
        return ids


def found(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(places of `wanted` in the sorted `values`, whether they are there)."""
    place = np.searchsorted(values, wanted)
    if not len(values):
        return place, np.zeros(wanted.shape, bool)
    place = np.minimum(place, len(values) - 1)
    return place, values[place] == wanted


def paired(rows: Rows, cross: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(uint64 of the two categories, a missing one as 0; which are there: 1, 2, or 3 for both)."""
    one, other = cross
    there = rows.categories_there[:, one], rows.categories_there[:, other]
    high, low = (
        np.where(here, rows.categories[:, column], 0).astype(np.uint64)
        for here, column in zip(there, cross, strict=True)
    )
    return high << np.uint64(32) | low, there[0] + 2 * there[1]


class Index(NamedTuple):
    """What values become: of each number's column the values in order, and the columns of ids."""

    numbers: list[np.ndarray]
    wide: list[Cross]
    deep: list[Field]

    def columns(self, rows: Rows) -> Columns:
        numbers = np.zeros(rows.numbers.shape, np.float32)
        for column, values in enumerate(self.numbers):
            # of a value between those that were seen, the rank of the one below
            rank = np.searchsorted(values, rows.numbers[:, column], "right") / max(1, len(values))
            numbers[:, column] = np.where(rows.numbers_there[:, column], rank, 0.0)
        wide = [
            known.ids(*paired(rows, cross)) for known, cross in zip(self.wide, CROSSED, strict=True)
        ]
        deep = [
            known.ids(rows.categories[:, column], rows.categories_there[:, column])
            for column, known in enumerate(self.deep)
        ]
        ids = [np.stack(each, 1).astype(np.int32) for each in (wide, deep)]
        return Columns(numbers, *ids, rows.labels.astype(np.int64))


def make(
    out: Path,
    source: Path,
    count: int = 4,
    jobs: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Write `count` shards of the source's rows to train on into `out`, and those to test with.

    Then manifest.json; return that. Raises DataError if the source is incomplete, or has a row of
    another form; nothing is made then.
    """
    path, sha256 = located(source)
    if tarfile.is_tarfile(path) or is_gzip(path):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
            return make_of(out, unpacked(path, Path(folder)), path, sha256, count, jobs, told)
    return make_of(out, path, path, sha256, count, jobs, told)


def make_of(
    out: Path,
    path: Path,
    name: Path,
    sha256: str,
    count: int,
    jobs: int,
    told: Callable[[int, int], None],
) -> dict[str, Any]:
    """`path`: plain text; `name`: the file as messages call it."""
    rows, end, size = measured(path)
    tests = rows // TEST_PART
    test_shards = -(-count // (TEST_PART - 1)) if tests else 0
    if rows - tests < count or tests < test_shards:
        raise DataError(f"{name}: has {rows} rows; at most as many shards can be made")
    index = read(path, name, end, size)
    of_table = {"wide": index.wide[-1].end, "deep": index.deep[-1].end}
    settings = {
        "dataset": "clicks",
        "least": LEAST,
        **of_table,
        "test_shards": test_shards,
        "source_sha256": sha256,
    }
    places = starts(path, 0, end, count)[:-1] + starts(path, end, size, test_shards)
    write = functools.partial(write_shard, path, index, places, count)
    return shards.make(
        out, "npz", count + test_shards, write, Columns._fields, settings, jobs, told
    )


def located(source: Path) -> tuple[Path, str]:
    """(the file that has the rows, a sha256 that stands for it)

    Raises DataError if there is none.
    """
    if source.is_file():
        return source, sha256_of_file(source)
    made = verify(str(source / "manifest.json"))
    names = [file["path"] for file in made["files"]]
    if not names:
        raise DataError(
            f"{source}/manifest.json: lists no {NAME}, which is Criteo's file of rows, nor another"
        )
    return source / (NAME if NAME in names else names[0]), made["sha256"]


def is_gzip(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def unpacked(path: Path, folder: Path) -> Path:
    """The rows of an archive or of a compressed file, in this folder."""
    target = folder / NAME
    try:
        if not tarfile.is_tarfile(path):
            with gzip.open(path) as stream:
                return copied(stream, target)
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.isreg() and Path(member.name).name == NAME:
                    content = archive.extractfile(member)
                    assert content is not None
                    return copied(content, target)
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: is damaged ({error}); download it again") from None
    raise DataError(f"{path}: has no {NAME}, which is Criteo's file of rows")


def copied(stream: IO[bytes], target: Path) -> Path:
    with open(target, "wb") as copy:
        shutil.copyfileobj(stream, copy, BLOCK)
    return target


def measured(path: Path) -> tuple[int, int, int]:
    """(rows, the byte at which those to test with start, bytes of the file)"""
    before, size = [0], path.stat().st_size  # rows before each block
    last = b""
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            before.append(before[-1] + block.count(b"\n"))
            last = block
        rows = before[-1] + bool(last and not last.endswith(b"\n"))
        kept = rows - rows // TEST_PART
        if kept == rows:
            return rows, size, size
        number = int(np.searchsorted(before, kept)) - 1
        stream.seek(number * BLOCK)
        ends = np.flatnonzero(np.frombuffer(stream.read(BLOCK), np.uint8) == NEWLINE)
    return rows, number * BLOCK + int(ends[kept - before[number] - 1]) + 1, size


def read(path: Path, name: Path, end: int, size: int) -> Index:
    """Read all rows once, and count the values of those before the byte `end`.

    Raises DataError for the first row of another form.
    """
    numbers = [Counts("i8") for _ in range(NUMBERS)]
    deep = [Counts("u4") for _ in range(FIELDS)]
    wide = [[Counts("u8") for _ in range(4)] for _ in CROSSED]
    line = 0
    for place, block in blocks(path, 0, size, end):
        rows = parsed(block, name, line)
        line += len(rows.labels)
        if place >= end:
            continue
        for column, seen in enumerate(numbers):
            seen.add(rows.numbers[rows.numbers_there[:, column], column])
        for column, seen in enumerate(deep):
            seen.add(rows.categories[rows.categories_there[:, column], column])
        for cross, groups in zip(CROSSED, wide, strict=True):
            pairs, group = paired(rows, cross)
            for number, seen in enumerate(groups):
                seen.add(pairs[group == number])
    crosses: list[Cross] = []
    for groups in wide:
        start = crosses[-1].end if crosses else 0
        crosses.append(Cross(start, [each.often() for each in groups]))
    fields: list[Field] = []
    for counts in deep:
        fields.append(Field(fields[-1].end if fields else 0, counts.often()))
    for each in numbers:
        each.settle()
    return Index([each.values for each in numbers], crosses, fields)


def blocks(path: Path, start: int, end: int, cut: int = 0) -> Iterator[tuple[int, bytes]]:
    """(the place of its first byte, whole rows) of the file's bytes from `start` to `end`.

    No block lies on both sides of `cut`.
    """
    with open(path, "rb") as stream:
        stream.seek(start)
        while start < end:
            block = stream.read(min(BLOCK, (cut if start < cut else end) - start))
            whole = block.rfind(b"\n") + 1
            if not whole:  # the last row of a file may end without a newline
                block += stream.readline()
                whole = len(block)
            yield start, block[:whole]
            start += whole
            stream.seek(start)


def parsed(block: bytes, name: Path, line: int) -> Rows:
    """Whole rows. Raises DataError for the first one of another form; `line`: rows before these."""
    if not block.endswith(b"\n"):
        block += b"\n"
    data = np.frombuffer(block.replace(b"\r\n", b"\n"), np.uint8)
    ends = np.flatnonzero((data == TAB) | (data == NEWLINE))
    lines = np.flatnonzero(data[ends] == NEWLINE)
    if len(ends) != len(lines) * COLUMNS or (np.diff(lines, prepend=-1) != COLUMNS).any():
        raise first_problem(data.tobytes(), name, line)
    begins = np.append(0, ends[:-1] + 1).reshape(-1, COLUMNS)
    lengths = ends.reshape(-1, COLUMNS) - begins
    labels = data[begins[:, 0]] - ord("0")
    good = (lengths[:, 0] == 1) & (labels <= 1)
    numbers, there, right = whole_numbers(data, begins[:, 1:FIRST], lengths[:, 1:FIRST])
    good &= right.all(1)
    categories, categories_there, right = hexadecimal(data, begins[:, FIRST:], lengths[:, FIRST:])
    good &= right.all(1)
    if not good.all():
        raise first_problem(data.tobytes(), name, line)
    return Rows(labels, numbers, there, categories, categories_there)


def whole_numbers(
    data: np.ndarray, begins: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(numbers, which are there, which are right)"""
    there = lengths > 0
    first = np.where(there, data[begins], 0)
    negative = first == MINUS
    digits = lengths - negative
    right = ~there | ((digits >= 1) & (digits <= MOST_DIGITS))
    values = np.zeros(begins.shape, np.int64)
    for place in range(min(int(lengths.max(initial=0)), MOST_DIGITS + 1)):
        read = (place < lengths) & ((place > 0) | ~negative)
        character = data[np.minimum(begins + place, len(data) - 1)]
        digit = character.astype(np.int64) - ord("0")
        right &= ~read | ((digit >= 0) & (digit <= 9))
        values = np.where(read, values * 10 + digit, values)
    return np.where(negative, -values, values), there, right


def hexadecimal(
    data: np.ndarray, begins: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(numbers of 8 digits, which are there, which are right)"""
    there = lengths > 0
    windows = np.lib.stride_tricks.sliding_window_view(np.append(data, np.zeros(8, np.uint8)), 8)
    digits = HEX[windows[begins]]  # (rows, columns, 8)
    right = ~there | ((lengths == 8) & (digits < 16).all(2))
    pairs = digits[..., 0::2] << 4 | (digits[..., 1::2] & 15)
    return np.ascontiguousarray(pairs).view(">u4")[..., 0].astype(np.uint32), there, right


def first_problem(block: bytes, name: Path, before: int) -> DataError:
    """What is wrong with the first of these rows that is of another form."""
    for number, line in enumerate(block.splitlines(), before + 1):
        if problem := problem_of(line.split(b"\t")):
            return DataError(f"{name}: line {number}: {problem}")
    raise AssertionError(f"{name}: behind line {before}: all rows are right")


def problem_of(columns: list[bytes]) -> str:
    """Why this is no row, or ""."""
    if len(columns) != COLUMNS:
        wanted = f"a label, {NUMBERS} numbers and {FIELDS} categories"
        return f"has {len(columns)} columns; {COLUMNS} are needed: {wanted}"
    if columns[0] not in (b"0", b"1"):
        return f"the label is {shown(columns[0])}; it must be 0 or 1"
    for place, value in enumerate(columns[1:FIRST], 1):
        digits = value.removeprefix(b"-")
        if value and not (digits.isdigit() and len(digits) <= MOST_DIGITS):
            wanted = f"a whole number of at most {MOST_DIGITS} digits, or empty"
            return f"number {place} is {shown(value)}; it must be {wanted}"
    for place, value in enumerate(columns[FIRST:], 1):
        if value and not (len(value) == 8 and DIGITS.issuperset(value)):
            return f"category {place} is {shown(value)}; it must be 8 hexadecimal digits or empty"
    return ""


def shown(value: bytes) -> str:
    return repr(value[:40].decode("utf-8", "replace"))


def starts(path: Path, begin: int, end: int, count: int) -> list[int]:
    """Where each of `count` shards begins, at the start of a row, and where the last one ends."""
    places = [begin]
    with open(path, "rb") as stream:
        for number in range(1, count):
            stream.seek(begin + (end - begin) * number // count - 1)
            stream.readline()
            places.append(stream.tell())
    return [*places, end]


def write_shard(
    source: Path, index: Index, places: list[int], trained: int, number: int, path: Path
) -> dict[str, Any]:
    """One shard: facts for `shards.make`. Shards from `trained` on are to test with."""
    found = [
        index.columns(parsed(block, source, 0))
        for _, block in blocks(source, places[number], places[number + 1])
    ]
    columns = Columns(*map(np.concatenate, zip(*found, strict=True)))
    np.savez(path, **columns._asdict())
    count = len(columns.labels)
    rows = np.empty(count, ROW)
    for name, column in zip(ROW.names or (), columns, strict=True):
        rows[name] = column
    facts = {"samples": count, SAMPLES: hashlib.sha256(rows).hexdigest()}
    return {**facts, "counts": {"tests": count}} if number >= trained else facts


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.criteo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = {"type": int, "metavar": "N"}
    text = f"{NAME}, a day of the terabyte set, an archive of it, or a folder with a manifest"
    parser.add_argument("--source", type=Path, required=True, help=text)
    parser.add_argument("--out", type=Path, required=True, help="folder of the shards")
    text = "of rows to train on (default: %(default)s); others are to test with"
    parser.add_argument("--shards", **number, default=4, help=text)
    parser.add_argument("--jobs", **number, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args(arguments)
    for name in ("shards", "jobs"):
        if getattr(asked, name) < 1:
            sys.exit(f"error: --{name} is {getattr(asked, name)}: at least 1 is needed")
    try:
        told = progress.lines(f"shards of {asked.out}")
        made = make(asked.out, asked.source, asked.shards, asked.jobs, told)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['samples']} rows to train on and {made.get('tests', 0)} to test with "
        f"in {made['shards']} shards, {made['wide']} wide and {made['deep']} deep ids; sha256 of "
        f"the samples {made[SAMPLES]}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
