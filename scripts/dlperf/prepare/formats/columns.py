"""Samples as columns: one array for each field, for the formats that keep whole arrays.

A field of ints becomes a column of numbers. A field of arrays of equal length becomes a table with
a row for each sample. Other arrays, and bytes, are stored one after another, with `<field>.ends`,
the places where the samples end. Columns grow in files and not in memory.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dlperf.loaders import DataError

ENDS = ".ends"


class Column:
    def __init__(self, name: str, first: Any, stream: BinaryIO) -> None:
        self.name, self._stream = name, stream
        self._bytes, self._number = isinstance(first, bytes), isinstance(first, int)
        if self._bytes or self._number:
            self._dtype = np.dtype("uint8" if self._bytes else "int64")
        else:
            self._dtype = first.dtype
        self._lengths = array("q")

    def add(self, value: Any) -> None:
        if self._bytes != isinstance(value, bytes) or self._number != isinstance(value, int):
            raise DataError(f"field {self.name!r}: its values are not all of one kind")
        content = np.frombuffer(value, np.uint8) if self._bytes else np.asarray(value, self._dtype)
        self._lengths.append(content.size)
        self._stream.write(content.tobytes())

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        self._stream.flush()
        lengths = np.frombuffer(self._lengths, np.int64)
        values = np.zeros(0, self._dtype)
        if lengths.any():  # an empty file cannot be mapped
            values = np.memmap(self._stream.name, self._dtype, "r")
        if self._number:
            yield self.name, values
        elif not self._bytes and (lengths == lengths[0]).all():
            yield self.name, values.reshape(len(lengths), lengths[0])
        else:
            yield self.name, values
            yield self.name + ENDS, np.cumsum(lengths)


def collect(samples: Iterable[Mapping[str, Any]], folder: Path) -> dict[str, np.ndarray]:
    """The columns, mapped from files in `folder`. Raises DataError if samples have other fields."""
    columns: dict[str, Column] | None = None
    streams = []
    try:
        for sample in samples:
            if columns is None:
                streams = [open(folder / str(number), "wb") for number in range(len(sample))]
                columns = {
                    name: Column(name, value, stream)
                    for (name, value), stream in zip(sample.items(), streams, strict=True)
                }
            if columns.keys() != sample.keys():
                raise DataError(f"fields {sorted(sample)}, while others have {sorted(columns)}")
            for name, value in sample.items():
                columns[name].add(value)
        return dict(each for name in columns or () for each in columns[name].arrays())
    finally:
        for stream in streams:
            stream.close()


def samples(columns: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """The samples again; arrays of the type uint8 become bytes."""
    fields = {name: column for name, column in columns.items() if not name.endswith(ENDS)}
    ends = {name: columns[name + ENDS] for name in fields if name + ENDS in columns}
    count = min((len(ends.get(name, column)) for name, column in fields.items()), default=0)
    for row in range(count):
        sample = {}
        for name, column in fields.items():
            if name in ends:
                value = column[ends[name][row - 1] if row else 0 : ends[name][row]]
                sample[name] = value.tobytes() if value.dtype == np.uint8 else value
            else:
                sample[name] = column[row] if column.ndim > 1 else int(column[row])
        yield sample
