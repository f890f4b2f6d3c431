"""TFRecord: TensorFlow's files of `tf.train.Example`, each record with its length and checksums.

Layout: https://www.tensorflow.org/tutorials/load_data/tfrecord (length, its masked CRC-32C, the
record, its masked CRC-32C; numbers are little-endian). The index beside it is for DALI's
reader, as its tfrecord2idx writes it: a line for each record with its place and size in bytes.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from dlperf.loaders import DataError
from dlperf.prepare.formats import features

SUFFIX = ".tfrecord"
FEATURES = features.features("tensorflow", {"bytes_list": 1, "float_list": 2, "int64_list": 3})
EXAMPLE_TAG = b"\n"  # Example has only field number 1, whose length follows


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    """Also writes the index, with suffix .idx."""
    with (
        open(path, "wb") as stream,
        open(path.with_suffix(".idx"), "w", encoding="utf-8") as index,
    ):
        for sample in samples:
            record = features.encode(FEATURES, sample, "int64_list")
            example = EXAMPLE_TAG + varint(len(record)) + record
            length = struct.pack("<Q", len(example))
            start = stream.tell()
            stream.write(length + checksum(length) + example + checksum(example))
            index.write(f"{start} {stream.tell() - start}\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the file ends within a record or a checksum differs."""
    with open(path, "rb") as stream:
        while length := stream.read(8):
            where = f"{path}: byte {stream.tell() - len(length)}"
            if len(length) < 8 or stream.read(4) != checksum(length):
                raise DataError(f"{where}: a length's checksum differs, or the file ends here")
            example = stream.read(struct.unpack("<Q", length)[0])
            if stream.read(4) != checksum(example):
                raise DataError(f"{where}: a record's checksum differs, or the file ends in it")
            start = 1
            while example[start] & 0x80:  # all bytes of the length except the last one
                start += 1
            yield features.decode(FEATURES, example[start + 1 :], where)


def checksum(content: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number: int) -> bytes:
    """A protocol buffer's whole number: seven bits in each byte, the lowest first."""
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])
