"""Class folders: each image is a file, as ImageNet is usually kept, and a list names them.

A sample has `path` (bytes, relative: folder and file name), `label` (int) and `image` (bytes). The
shard itself is the list, with a line for each image: sha256, label and path. The images are in
folders beside it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlperf.loaders import DataError

SUFFIX = ".tsv"


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    lines = []
    for sample in samples:
        name = sample["path"].decode()
        image = path.parent / name
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(sample["image"])
        sha256 = hashlib.sha256(sample["image"]).hexdigest()
        lines.append(f"{sha256}\t{sample['label']}\t{name}\n")
    path.write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if an image is missing or its sha256 differs."""
    for line in path.read_text(encoding="utf-8").splitlines():
        sha256, label, name = line.split("\t")
        image = path.parent / name
        if not image.is_file():
            raise DataError(f"{image}: missing, though {path} lists it")
        content = image.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DataError(f"{image}: its sha256 differs from the one in {path}")
        yield {"path": name.encode(), "label": int(label), "image": content}
