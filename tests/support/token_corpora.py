"""Small corpora of token ids in the forms that Megatron-LM and nanoGPT write."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

KINDS = {8: "<u2", 4: "<i4"}


def megatron(folder: Path, lengths: Sequence[int], code: int = 8, **changes) -> Path:
    """A .bin of the tokens 0, 1, 2, … with its .idx, spelled as indexed_dataset.py writes it.

    changes: other values of the index: magic, version, written_code, offsets, documents.
    """
    kind = np.dtype(KINDS[code])
    starts = np.cumsum([0, *lengths])
    path = folder / "tokens.bin"
    np.arange(starts[-1]).astype(kind).tofile(path)
    index = {
        "magic": b"MMIDIDX\x00\x00",
        "version": 1,
        "written_code": code,
        "offsets": starts[:-1] * kind.itemsize,
        "documents": range(len(lengths) + 1),
        **changes,
    }
    parts = [
        index["magic"],
        struct.pack("<Q", index["version"]),
        struct.pack("<B", index["written_code"]),
        struct.pack("<Q", len(lengths)),
        struct.pack("<Q", len(index["documents"])),
        np.array(lengths, np.int32).tobytes(),
        np.array(index["offsets"], np.int64).tobytes(),
        np.array(index["documents"], np.int64).tobytes(),
    ]
    (folder / "tokens.idx").write_bytes(b"".join(parts))
    return path


def flat(folder: Path, tokens: Sequence[int]) -> Path:
    """nanoGPT's form."""
    path = folder / "tokens.bin"
    np.array(tokens, np.uint16).tofile(path)
    return path
