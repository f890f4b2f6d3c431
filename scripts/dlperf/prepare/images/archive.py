"""Finds images in ImageNet's tar archives or in class folders, without unpacking them.

The input is the path of a user's files. The output is an `Index` with the class, the name and the
place of each image. Tar archives are not compressed, so an image in one, even in a tar within a
tar, is a section of the outermost file. The index of 1.3 million images takes about 200 MB of
memory.
"""

import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import CLASSES

PLAIN = re.compile(r"[\w-][\w.-]*")  # a file name that cannot lead out of its folder
BAD_NAME, NO_FILE = "not a plain file name", "a link or no regular file"


@dataclass(frozen=True)
class Entry:
    """An image: `start` and `size` in its file. `reason` says why it must not be read, if so."""

    label: int
    folder: str
    name: str
    file: str
    start: int
    size: int
    reason: str = ""


class Index:
    """The images in the order of their source. They are kept as arrays, to save memory."""

    def __init__(self, entries: Iterator[Entry], classes: Sequence[str]) -> None:
        columns: tuple[list, ...] = ([], [], [], [], [], [], [])
        pooled: dict[str, str] = {}
        for entry in entries:
            for column, value in zip(columns, vars(entry).values(), strict=True):
                # the same few folders and files occur often, so each is one object
                column.append(pooled.setdefault(value, value) if isinstance(value, str) else value)
        self.classes = list(classes)
        label, self._folder, self._name, self._file, start, size, self._reason = columns
        self._label, self._start, self._size = (
            np.array(column, np.int64) for column in (label, start, size)
        )

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, number: int) -> Entry:
        return Entry(
            int(self._label[number]),
            self._folder[number],
            self._name[number],
            self._file[number],
            int(self._start[number]),
            int(self._size[number]),
            self._reason[number],
        )


def index(source: Path, labels: Path | None = None) -> Index:
    """The images of a tar of class tars, of a flat tar, or of a folder of class folders.

    Classes are numbered in the order of their names. If class folders have a manifest, as the
    sample set has, it gives the labels. A flat tar (ImageNet's validation set) needs `labels`, a
    file with a line for each image, its name and its class's name, or ImageNet's development kit
    as it is downloaded, which numbers the classes of the validation set. Raises DataError if the
    source is none of these, or has more than CLASSES classes.
    """
    if source.is_dir():
        return _of_folders(source)
    try:
        with tarfile.open(source, "r:") as archive:
            members = archive.getmembers()
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{source}: neither a folder nor a tar archive ({error})") from None
    if labels is None:
        return _of_class_tars(source, [member for member in members if not member.isdir()])
    return _of_flat_tar(source, members, labels)


def read(entry: Entry) -> bytes:
    """The bytes of an image. Raises DataError if the file ends before the image does."""
    with open(entry.file, "rb", buffering=0) as stream:
        content = os.pread(stream.fileno(), entry.size, entry.start)
    if len(content) < entry.size:
        raise DataError(f"{entry.file}: ends within {entry.folder}/{entry.name}")
    return content


def _of_class_tars(source: Path, members: Sequence[tarfile.TarInfo]) -> Index:
    classes = sorted(member.name.removesuffix(".tar") for member in members)
    _check(source, classes, f"{source}: has no class archives (n01440764.tar and so on) inside")
    numbers = {name: number for number, name in enumerate(classes)}
    for member in members:
        if not (member.isreg() and member.name.endswith(".tar") and PLAIN.fullmatch(member.name)):
            raise DataError(
                f"{source}: {member.name!r} is not a class archive such as n01440764.tar; for a "
                "tar of images, name the file that has their classes (--labels)"
            )

    def entries() -> Iterator[Entry]:
        with open(source, "rb") as stream:
            for member in sorted(members, key=lambda member: member.name):
                folder = member.name.removesuffix(".tar")
                part = _Part(stream, member.offset_data, member.size)
                try:
                    with tarfile.open(fileobj=part, mode="r:") as inner:
                        found = inner.getmembers()
                except tarfile.TarError as error:
                    raise DataError(f"{source}: {member.name} in it is broken ({error})") from None
                for image in found:
                    start = member.offset_data + image.offset_data
                    yield _entry(numbers[folder], folder, image, source, start)

    return Index(entries(), classes)


def _of_flat_tar(source: Path, members: Sequence[tarfile.TarInfo], labels: Path) -> Index:
    if labels.name.endswith(".tar.gz"):
        lines = of_development_kit(labels)
    else:
        lines = [line.split() for line in labels.read_text(encoding="utf-8").splitlines() if line]
    wrong = next((number for number, line in enumerate(lines, 1) if len(line) != 2), None)
    if wrong:
        raise DataError(f"{labels}: line {wrong}: must be an image's name and its class's name")
    class_of = {name: folder for name, folder in lines}
    classes = sorted(set(class_of.values()))
    _check(labels, classes, f"{labels}: has no lines")
    numbers = {name: number for number, name in enumerate(classes)}

    def entries() -> Iterator[Entry]:
        for image in members:
            if image.isdir():
                continue
            folder = class_of.get(image.name)
            if folder is None:
                raise DataError(f"{labels}: has no line for {image.name}, which is in {source}")
            yield _entry(numbers[folder], folder, image, source, image.offset_data)

    return Index(entries(), classes)


def of_development_kit(path: Path) -> list[list[str]]:
    """[name of a validation image, its class], from ILSVRC2012_devkit_t12.tar.gz.

    meta.mat has the synsets' numbers and names, those without children are the classes; the ground
    truth has a number for each image, in the order of their names. As torchvision reads them
    (datasets/imagenet.py). Raises DataError if it is another file.
    """
    from scipy.io import loadmat  # 0.2 s, and needed here only

    try:
        with tarfile.open(path, "r:gz") as archive:
            members = {Path(name).name: name for name in archive.getnames()}

            def content(name: str) -> bytes:
                stream = archive.extractfile(members[name])
                assert stream is not None
                return stream.read()

            synsets = loadmat(io.BytesIO(content("meta.mat")), squeeze_me=True)["synsets"]
            truth = content("ILSVRC2012_validation_ground_truth.txt").split()
        names = {
            int(each["ILSVRC2012_ID"]): str(each["WNID"])
            for each in synsets
            if not each["num_children"]
        }
        return [
            [f"ILSVRC2012_val_{number:08d}.JPEG", names[int(own)]]
            for number, own in enumerate(truth, 1)
        ]
    except (tarfile.TarError, OSError, EOFError, KeyError, ValueError, AssertionError) as error:
        raise DataError(f"{path}: not ImageNet's development kit ({error!r})") from None


def _entry(label: int, folder: str, image: tarfile.TarInfo, source: Path, start: int) -> Entry:
    reason = "" if image.isreg() else NO_FILE
    reason = reason if PLAIN.fullmatch(image.name) else BAD_NAME
    return Entry(label, folder, image.name, str(source), start, image.size, reason)


def _of_folders(source: Path) -> Index:
    folders = sorted(path for path in source.iterdir() if path.is_dir() and path.name[0] != ".")
    manifest = source / "manifest.json"
    labels = {}
    if manifest.exists():
        listed = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        labels = {os.path.dirname(file["path"]): file["label"] for file in listed}
        folders = [folder for folder in folders if folder.name in labels]
    classes = [folder.name for folder in folders]
    _check(source, classes, f"{source}: has no class folders (n01440764 and so on)")

    def entries() -> Iterator[Entry]:
        for number, folder in enumerate(folders):
            for image in sorted(folder.iterdir(), key=lambda path: path.name):
                reason = "" if image.is_file() and not image.is_symlink() else NO_FILE
                reason = reason if PLAIN.fullmatch(image.name) else BAD_NAME
                size = 0 if reason else image.stat().st_size
                label = labels.get(folder.name, number)
                yield Entry(label, folder.name, image.name, str(image), 0, size, reason)

    return Index(entries(), classes)


def _check(source: Path, classes: Sequence[str], none: str) -> None:
    if not classes:
        raise DataError(none)
    if len(classes) > CLASSES:
        raise DataError(f"{source}: has {len(classes)} classes, more than {CLASSES}")
    bad = next((name for name in classes if not PLAIN.fullmatch(name)), None)
    if bad is not None:
        raise DataError(f"{source}: the class {bad!r} is not a plain name")


class _Part(io.RawIOBase):
    """A section of a file as a file, for the tar within a tar."""

    def __init__(self, stream: io.BufferedReader, start: int, size: int) -> None:
        self._stream, self._start, self._size, self._place = stream, start, size, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = base + place
        return self._place

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._place)
        self._stream.seek(self._start + self._place)
        content = self._stream.read(left if size < 0 else min(size, left))
        self._place += len(content)
        return content
