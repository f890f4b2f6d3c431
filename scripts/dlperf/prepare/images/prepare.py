"""Makes shards in a format from an index of images, which it checks and shuffles once.

A shard is a section of the shuffled images, so it is a random part of the set. The digest of the
samples covers labels and JPEG bytes in that order, and is the same for every format.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dlperf.loaders.manifest import SAMPLES, Digest
from dlperf.prepare import formats, shards
from dlperf.prepare.images import archive, jpeg
from dlperf.prepare.images.archive import Entry, Index

#: What each format calls a sample's label and image, as in the frameworks' own scripts.
NAMES = {
    "folders": ("label", "image"),
    "tfrecord": ("image/class/label", "image/encoded"),
    "recordio": ("label", "image"),
    "ofrecord": ("class/label", "encoded"),
    "mindrecord": ("label", "image"),
    "webdataset": ("cls", "jpg"),
}


def make(
    index: Index,
    format: str,
    out: Path,
    count: int,
    settings: dict[str, Any],
    jobs: int = 1,
    seed: int | None = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Make shards and manifest. Seed None keeps the source's order (for a validation set).

    Raises DataError as `shards.make` and the format do.
    """
    settings = {**settings, "classes_sha256": sha256_of_names(index), "seed": seed}
    write = functools.partial(write_shard, index, format, count, seed)
    return shards.make(out, format, count, write, NAMES[format], settings, jobs, progress)


def write_shard(
    index: Index, format: str, count: int, seed: int | None, number: int, path: Path
) -> dict[str, Any]:
    """One shard: facts for `shards.make`."""
    digest = Digest()
    skipped: dict[str, list[str]] = {}
    repaired: dict[str, list[str]] = {}

    def samples() -> Iterator[dict[str, Any]]:
        for position in stretch(len(index), count, seed, number):
            entry = index[int(position)]
            name = f"{entry.folder}/{entry.name}"
            try:
                if entry.reason:
                    raise jpeg.NoImage(entry.reason)
                content, width, height, how = jpeg.checked(archive.read(entry))
            except jpeg.NoImage as reason:
                skipped.setdefault(str(reason), []).append(name)
                continue
            if how:
                repaired.setdefault(how, []).append(name)
            digest.add(entry.label, content)
            yield sample(format, entry, int(position), content, width, height)

    formats.of(format).write(path, samples())
    facts = {"samples": digest.samples, SAMPLES: digest.hex()}
    return {**facts, "skipped": skipped, "repaired": repaired}


def stretch(images: int, count: int, seed: int | None, number: int) -> np.ndarray:
    """The positions of shard `number` of `count`. RandomState's stream never changes."""
    order = np.arange(images) if seed is None else np.random.RandomState(seed).permutation(images)
    return order[images * number // count : images * (number + 1) // count]


def sample(
    format: str, entry: Entry, position: int, content: bytes, width: int, height: int
) -> dict[str, Any]:
    """An image as its format's own readers expect it."""
    label, image = NAMES[format]
    fields: dict[str, Any] = {label: entry.label, image: content}
    if format == "folders":
        fields["path"] = f"{entry.folder}/{entry.name}".encode()
    elif format == "recordio":
        fields["id"] = position
    elif format == "webdataset":
        # a key ends at the first dot
        stem = entry.name.removesuffix(".JPEG").replace(".", "_")
        fields = {"__key__": f"{entry.folder}/{stem}".encode(), **fields}
    elif format == "tfrecord":
        fields |= {"image/filename": entry.name.encode()}
        fields |= {"image/height": height, "image/width": width}
    else:
        fields["filename"] = entry.name.encode()
    return fields


def sha256_of_names(index: Index) -> str:
    digest = Digest()
    digest.add(*(name.encode() for name in index.classes))
    return digest.hex()
