"""RecordIO: MXNet's files of images, each after a header with its label, and an index beside them.

A sample has `image` (bytes), `label` (an int, or a tuple of floats) and `id` (int). Layout:
dmlc-core's recordio.h (magic number, kind and length in one word, padding to four bytes; a record
that contains the magic number at such a place is stored in parts, without it) and mxnet/recordio.py
(IRHeader; the index's lines: id, tab, offset).
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlperf.loaders import DataError

SUFFIX = ".rec"
MAGIC = struct.pack("<I", 0xCED7230A)
WHOLE, FIRST, MIDDLE, LAST = range(4)
HEADER = struct.Struct("<IfQQ")  # flag (how many labels follow, 0: the one here), label, id, id2


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    """Also writes the index, with suffix .idx."""
    index = []
    with open(path, "wb") as stream:
        for sample in samples:
            index.append(f"{sample['id']}\t{stream.tell()}\n")
            record = header(sample["label"], sample["id"]) + sample["image"]
            parts = split(record)
            for number, part in enumerate(parts):
                kind = WHOLE if len(parts) == 1 else FIRST if number == 0 else MIDDLE
                kind = LAST if 0 < number == len(parts) - 1 else kind
                stream.write(MAGIC + struct.pack("<I", kind << 29 | len(part)) + part)
                stream.write(bytes(-len(part) % 4))
    path.with_suffix(".idx").write_text("".join(index), encoding="utf-8")


def header(label: int | tuple[float, ...], number: int) -> bytes:
    if isinstance(label, tuple):
        return HEADER.pack(len(label), 0, number, 0) + struct.pack(f"<{len(label)}f", *label)
    return HEADER.pack(0, label, number, 0)


def split(record: bytes) -> list[bytes]:
    """The record without the magic numbers at multiples of four bytes, cut where they were."""
    cuts = []
    place = record.find(MAGIC)
    while place >= 0:
        aligned = place % 4 == 0
        if aligned:
            cuts.append(place)
        place = record.find(MAGIC, place + (4 if aligned else 1))
    starts = [0, *(cut + 4 for cut in cuts)]
    return [record[start:end] for start, end in zip(starts, [*cuts, len(record)], strict=True)]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the file ends within a record or a magic number is missing."""
    size = os.path.getsize(path)
    parts = []
    with open(path, "rb") as stream:
        while head := stream.read(8):
            where = f"{path}: byte {stream.tell() - len(head)}"
            if len(head) < 8 or head[:4] != MAGIC:
                raise DataError(f"{where}: there is no record here")
            word = struct.unpack("<I", head[4:])[0]
            kind, length = word >> 29, word & 0x1FFFFFFF
            if stream.tell() + length > size or (kind in (WHOLE, FIRST)) == bool(parts):
                raise DataError(f"{where}: the file ends in a record, or a part of one is missing")
            parts.append(stream.read(length))
            stream.read(-length % 4)
            if kind in (WHOLE, LAST):
                record, parts = MAGIC.join(parts), []
                if len(record) < HEADER.size:
                    raise DataError(f"{where}: a record is too short for its header")
                flag, label, number, _ = HEADER.unpack_from(record)
                start = HEADER.size + 4 * flag
                labels = (
                    struct.unpack_from(f"<{flag}f", record, HEADER.size) if flag else int(label)
                )
                yield {"image": record[start:], "label": labels, "id": number}
    if parts:
        raise DataError(f"{path}: ends within a record")
