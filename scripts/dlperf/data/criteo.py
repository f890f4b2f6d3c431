"""Make shards of clicks from a file in Criteo's form.

    python -m dlperf.data.criteo --source results/data/criteo-sample --out results/data/…-npz

The input is a folder with train.txt, in the form of the challenge's file (a row is a label, 13
numbers and 26 categories of 8 hexadecimal digits, separated by tabs; missing values are empty), and
its manifest. The output is shards in the format npz, and their manifest.

Categories become ids, as in the samples of HugeCTR and OneFlow: a value that is seen fewer than 6
times counts as missing; a field's ids are that of missing and then those of its values in order;
and fields follow each other. So do the two crosses (C1 with C2, C3 with C4) in a space of their
own. A number becomes its rank among the column's values, divided by how many there are; a missing
one is 0.
"""

import argparse
import functools
import os
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlperf.data import manifest, progress, shards
from dlperf.data.clicks import Batch
from dlperf.data.formats import npz
from dlperf.data.manifest import SAMPLES, Digest
from dlperf.data.prefetch import DataError
from dlperf.workloads.wide_deep.facts import FIELDS, NUMBERS

NAME = "train.txt"
LEAST = 6  # how often a value must be seen
CROSSED = ((0, 1), (2, 3))  # C1 with C2, C3 with C4
FIRST = 1 + NUMBERS  # column of the first category
DIGITS = frozenset(string.hexdigits.encode())


class Index(NamedTuple):
    """What values become. The id of a missing value is that of b"" in each of a table's columns."""

    numbers: list[dict[bytes, float]]
    wide: list[dict[bytes, int]]
    deep: list[dict[bytes, int]]
    rows: int

    def row(self, columns: list[bytes]) -> dict[str, Any]:
        """A row's fields."""
        numbers = [known[each] for known, each in zip(self.numbers, columns[1:FIRST], strict=True)]
        return {
            "numbers": np.array(numbers, np.float32),
            "wide": ids(self.wide, crosses(columns)),
            "deep": ids(self.deep, columns[FIRST:]),
            "labels": int(columns[0]),
        }


def ids(known: list[dict[bytes, int]], values: list[bytes]) -> np.ndarray:
    found = [each.get(value, each[b""]) for each, value in zip(known, values, strict=True)]
    return np.array(found, np.int32)


def crosses(columns: list[bytes]) -> list[bytes]:
    return [columns[FIRST + one] + b"," + columns[FIRST + other] for one, other in CROSSED]


def make(
    out: Path,
    source: Path,
    count: int = 4,
    jobs: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Write `count` shards of the source's rows into `out`, then manifest.json; return that.

    Raises DataError if the source is incomplete, or has a row of another form.
    """
    made = manifest.verify(str(source / "manifest.json"))
    path = source / NAME
    if NAME not in [file["path"] for file in made["files"]]:
        raise DataError(f"{source}/manifest.json: lists no {NAME}, which is Criteo's file of rows")
    index = read(path)
    if index.rows < count:
        raise DataError(f"{path}: has {index.rows} rows; at most as many shards can be made")
    size = {name: sum(map(len, getattr(index, name))) for name in ("wide", "deep")}
    settings = {"dataset": "clicks", "least": LEAST, **size, "source_sha256": made["sha256"]}
    write = functools.partial(write_shard, path, index, starts(path, count))
    return shards.make(out, "npz", count, write, Batch._fields, settings, jobs, told)


def read(path: Path) -> Index:
    """Read all rows once. Raises DataError for the first one of another form."""
    numbers: list[set[bytes]] = [set() for _ in range(NUMBERS)]
    deep: list[Counter[bytes]] = [Counter() for _ in range(FIELDS)]
    wide: list[Counter[bytes]] = [Counter() for _ in CROSSED]
    rows = 0
    with open(path, "rb") as stream:
        for line in stream:
            rows += 1
            columns = line.rstrip(b"\r\n").split(b"\t")
            if problem := problem_of(columns):
                raise DataError(f"{path}: line {rows}: {problem}")
            for seen, value in zip(numbers, columns[1:FIRST], strict=True):
                seen.add(value)
            for counted, value in zip(deep, columns[FIRST:], strict=True):
                counted[value] += 1
            for counted, value in zip(wide, crosses(columns), strict=True):
                counted[value] += 1
    return Index([ranks(seen) for seen in numbers], numbered(wide), numbered(deep), rows)


def problem_of(columns: list[bytes]) -> str:
    """Why this is no row, or ""."""
    if len(columns) != FIRST + FIELDS:
        wanted = f"a label, {NUMBERS} numbers and {FIELDS} categories"
        return f"has {len(columns)} columns; {FIRST + FIELDS} are needed: {wanted}"
    if columns[0] not in (b"0", b"1"):
        return f"the label is {shown(columns[0])}; it must be 0 or 1"
    for place, value in enumerate(columns[1:FIRST], 1):
        if value and not value.removeprefix(b"-").isdigit():
            return f"number {place} is {shown(value)}; it must be a whole number or empty"
    for place, value in enumerate(columns[FIRST:], 1):
        if value and not (len(value) == 8 and DIGITS.issuperset(value)):
            return f"category {place} is {shown(value)}; it must be 8 hexadecimal digits or empty"
    return ""


def shown(value: bytes) -> str:
    return repr(value[:40].decode("utf-8", "replace"))


def ranks(seen: Iterable[bytes]) -> dict[bytes, float]:
    """Each value -> its rank, from 1 / n to 1; a missing one is 0."""
    values = sorted({int(value) for value in seen if value})
    rank = {value: (place + 1) / len(values) for place, value in enumerate(values)}
    return {value: rank[int(value)] if value else 0.0 for value in seen}


def numbered(columns: list[Counter[bytes]]) -> list[dict[bytes, int]]:
    """Each column's values that are seen often enough -> ids; those of b"" are for all others."""
    found, start = [], 0
    for counted in columns:
        often = sorted(value for value, seen in counted.items() if value and seen >= LEAST)
        found.append({value: start + place for place, value in enumerate([b"", *often])})
        start += 1 + len(often)
    return found


def starts(path: Path, count: int) -> list[int]:
    """Where each shard begins, at the start of a row, and where the last one ends."""
    size, found = path.stat().st_size, [0]
    with open(path, "rb") as stream:
        for number in range(1, count):
            stream.seek(size * number // count - 1)
            stream.readline()
            found.append(stream.tell())
    return [*found, size]


def write_shard(
    source: Path, index: Index, places: list[int], number: int, path: Path
) -> dict[str, Any]:
    """One shard: facts for `shards.make`."""
    digest = Digest()

    def samples() -> Iterator[Mapping[str, Any]]:
        with open(source, "rb") as stream:
            stream.seek(places[number])
            while stream.tell() < places[number + 1]:
                sample = index.row(stream.readline().rstrip(b"\r\n").split(b"\t"))
                digest.add(*(sample[field] for field in Batch._fields))
                yield sample

    npz.write(path, samples())
    return {"samples": digest.samples, SAMPLES: digest.hex()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.data.criteo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--source", type=Path, required=True, help=f"folder of {NAME}")
    parser.add_argument("--out", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--shards", **number, default=4, help="default: %(default)s")
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
        f"{asked.out}: {made['samples']} rows in {made['shards']} shards, {made['wide']} wide and "
        f"{made['deep']} deep ids; sha256 of the samples {made[SAMPLES]}"
    )


if __name__ == "__main__":
    main()
