"""Reads records of a RecordIO file by number: MXNet's, in which InsightFace keeps its pictures.

In: train.rec, and train.idx beside it (a line a record: number, tab, offset). Out: a record's
labels and its bytes. Layout: dmlc-core's recordio.h and mxnet/recordio.py, as
prepare/formats/recordio.py, which writes such files, says in more detail.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import os
import struct

import numpy as np

from dlperf.loaders import DataError

MAGIC = struct.pack("<I", 0xCED7230A)
WHOLE, FIRST, MIDDLE, LAST = range(4)
HEADER = struct.Struct("<IfQQ")  # how many labels follow (0: the one here), label, number, another


class Records:
    """The records of a file, read in any order. Raises DataError where the index is none."""

    def __init__(self, path):
        self._path = path
        index = os.path.splitext(path)[0] + ".idx"
        try:
            pairs = np.fromfile(index, np.int64, sep=" ").reshape(-1, 2)
            self._file = open(path, "rb", buffering=0)
        except (OSError, ValueError) as error:
            raise DataError(f"{index}: no index of a RecordIO file ({error})")
        self._size = os.fstat(self._file.fileno()).st_size
        self._offsets = pairs[np.argsort(pairs[:, 0]), 1]
        if not np.array_equal(np.sort(pairs[:, 0]), np.arange(len(pairs))):
            raise DataError(f"{index}: does not number its records from 0 on, each once")

    def __len__(self):
        return len(self._offsets)

    def read(self, number):
        """(labels, a tuple of floats; the rest of the record as bytes)

        Raises DataError where there is no such record, or it is damaged.
        """
        record = self._record(number)
        if len(record) < HEADER.size:
            raise DataError(f"{self._path}: record {number} is too short for its header")
        count, label, _, _ = HEADER.unpack_from(record)
        if len(record) < HEADER.size + 4 * count:
            raise DataError(f"{self._path}: record {number} is too short for {count} labels")
        labels = struct.unpack_from("<%df" % count, record, HEADER.size) if count else (label,)
        return labels, record[HEADER.size + 4 * count :]

    def _record(self, number):
        """A record's bytes: where its magic number stood within, it was cut into parts."""
        if not 0 <= number < len(self):
            raise DataError(f"{self._path}: has {len(self)} records, and none of number {number}")
        place, parts = int(self._offsets[number]), []
        while True:
            head = os.pread(self._file.fileno(), 8, place)
            if len(head) < 8 or head[:4] != MAGIC:
                raise DataError(f"{self._path}: byte {place}: there is no record here")
            word = struct.unpack("<I", head[4:])[0]
            kind, length = word >> 29, word & 0x1FFFFFFF
            if place + 8 + length > self._size or (kind in (WHOLE, FIRST)) == bool(parts):
                raise DataError(f"{self._path}: byte {place}: a part of a record is missing")
            parts.append(os.pread(self._file.fileno(), length, place + 8))
            place += 8 + length + -length % 4
            if kind in (WHOLE, LAST):
                return MAGIC.join(parts)

    def close(self):
        self._file.close()
