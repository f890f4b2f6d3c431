"""Unpack an archive so that no file lands outside its folder.

The input is a zip or a tar (plain, or compressed by gzip, bzip2 or xz). The output is a complete
folder, or none and a DataError that names the entry that was refused.
"""

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from dlperf.data.prefetch import DataError
from dlperf.data.progress import size

COPY = 2**20


def unpack(archive: Path, folder: Path, most_bytes: int | None = None) -> int:
    """Unpack `archive` into `folder`, which must not exist yet; return the bytes of its files.

    Refuses links, devices, entries whose path is absolute or leads outside, and archives whose
    entries declare more than `most_bytes` together (by default, what is free on the disk). Then
    nothing is left behind. Modes and owners are not restored.
    """
    if folder.exists():
        raise DataError(f"{folder}: exists already; remove it, or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    most = shutil.disk_usage(folder.parent).free if most_bytes is None else most_bytes
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        done = _into(work, archive, most)
        work.chmod(0o777 & ~_umask())
        os.rename(work, folder)
        return done
    # zipfile raises NotImplementedError for a compression that it does not know
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as why:
        raise DataError(f"{archive}: is damaged, or not a tar or zip ({why})") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = os.path.relpath(error.filename, work)
        raise _refused(archive, name, "occurs twice, or as a file and a folder") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _into(work: Path, archive: Path, most: int) -> int:
    done = 0
    for name, declared, stream in _entries(archive):
        target = work / _inside(archive, name)
        if stream is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        done += declared
        if done > most:
            raise DataError(
                f"{archive}: refused, because it unpacks to more than {size(most)} (at '{name}')"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with stream, open(target, "xb") as copy:
            shutil.copyfileobj(stream, copy, COPY)
    return done


def _entries(archive: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Name, declared size and content (None: a folder) of each entry. Refuses all other kinds.

    Neither tarfile nor zipfile gives more bytes of an entry than it declares.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _refused(archive, entry.filename, "is a link or a device")
                if entry.flag_bits & 1:
                    raise _refused(archive, entry.filename, "is encrypted")
                name, folder = entry.filename, entry.is_dir()
                yield name, entry.file_size, None if folder else opened.open(entry)
        return
    with tarfile.open(archive, "r|*") as stream:
        for member in stream:
            if not (member.isreg() or member.isdir()):
                raise _refused(archive, member.name, "is a link or a device")
            content = None if member.isdir() else stream.extractfile(member)
            yield member.name, member.size, content


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _refused(archive, name, "leads outside its folder")
    return path


def _refused(archive: Path, name: str, why: str) -> DataError:
    return DataError(f"{archive}: refused, because its entry '{name}' {why}; nothing was unpacked")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
