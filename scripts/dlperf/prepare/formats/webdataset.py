"""WebDataset: tar files in which consecutive files with the same name are a sample.

A sample has `__key__` (bytes, the name) and fields named by their suffix, such as `jpg` and `cls`;
numbers are stored as text, as WebDataset's decoders expect. Owner, mode and time are constants, so
that the same samples give the same bytes. https://webdataset.github.io/webdataset/
"""

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlperf.loaders import DataError

SUFFIX = ".tar"
MODE = 0o444


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    # USTAR is the oldest form that can have such names, so everything reads it
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for sample in samples:
            key = sample["__key__"].decode()
            for name, value in sample.items():
                if name != "__key__":
                    content = value if isinstance(value, bytes) else str(value).encode()
                    member = tarfile.TarInfo(f"{key}.{name}")
                    member.size, member.mode = len(content), MODE
                    archive.addfile(member, io.BytesIO(content))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the archive is broken or ends before its end mark."""
    sample: dict[str, Any] = {}
    try:
        # tarfile itself treats the end of the file as the end of the archive
        with open(path, "rb") as stream:
            stream.seek(-2 * tarfile.BLOCKSIZE, io.SEEK_END)
            if any(stream.read()) or stream.tell() % tarfile.RECORDSIZE:
                raise tarfile.ReadError("its end is missing")
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                key, _, name = member.name.partition(".")
                if sample and sample["__key__"] != key.encode():
                    yield sample
                    sample = {}
                content = archive.extractfile(member).read()
                sample["__key__"] = key.encode()
                sample[name] = int(content) if content.isdigit() else content
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{path}: not a whole tar archive ({error})") from None
    if sample:
        yield sample
