"""OFRecord: OneFlow's files of maps of features. Each record follows its length.

Layout: oneflow/core/record/record.proto; the length is a little-endian int64. OneFlow's decoders
read whole numbers as int32 lists. There is no checksum; only bytes that are not a record are
noticed.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlperf.loaders import DataError
from dlperf.prepare.formats import features

SUFFIX = ""
LISTS = {"bytes_list": 1, "float_list": 2, "double_list": 3, "int32_list": 4, "int64_list": 5}
FEATURES = features.features("oneflow", LISTS)


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    with open(path, "wb") as stream:
        for sample in samples:
            record = features.encode(FEATURES, sample, "int32_list")
            stream.write(struct.pack("<q", len(record)) + record)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the file ends within a record or has something that is not a record."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        while header := stream.read(8):
            where = f"{path}: byte {stream.tell() - len(header)}"
            length = struct.unpack("<q", header)[0] if len(header) == 8 else -1
            if not 0 <= length <= size - stream.tell():
                raise DataError(f"{where}: a record's length is wrong, or the file ends in it")
            yield features.decode(FEATURES, stream.read(length), where)
