"""Unpack an archive so that no file lands outside its folder.

The input is a zip or a tar (plain, or compressed by gzip, bzip2 or xz). The output is a complete
folder, or none and a DataError that names the entry that was refused. An archive may come from
anybody: whatever is wrong with it is one message.
"""

import errno
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from dlperf.loaders import DataError
from dlperf.prepare.progress import size

COPY = 2**20
#: What an archive unpacks to without being suspicious, and how many times its own size beyond that.
#: (Text and tables have ratios of 5 to 20; deflate allows 1032.)
ALWAYS, RATIO = 2**30, 200
MOST_ENTRIES = 2_000_000
#: The extended header of a tar's entry is read into memory, so its size is limited.
MOST_HEADER = 2**20
#: What the libraries raise for files that are damaged, or made to look so. NotImplementedError, a
#: RuntimeError, is what zipfile raises for a compression that it does not know.
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, ValueError),
)


def unpack(archive: Path, folder: Path, most_bytes: int | None = None) -> int:
    """Unpack `archive` into `folder`, which must not exist yet; return the bytes of its files.

    Refuses links, devices, entries whose path is absolute or leads outside, and archives whose
    entries declare more than `most_bytes` together, or than is free on the disk. By default that is
    RATIO times the archive, if that is more than ALWAYS. Then nothing is left behind.
    Modes and owners are not restored.
    """
    if not archive.is_file():
        raise DataError(f"{archive}: is not there, or no file")
    if folder.exists():
        raise DataError(f"{folder}: exists already; remove it, or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    most, free = most_bytes, shutil.disk_usage(folder.parent).free
    if most is None:
        most = max(ALWAYS, RATIO * archive.stat().st_size)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        done = _into(work, archive, most, free)
        work.chmod(0o777 & ~_umask())
        os.rename(work, folder)
        return done
    except DataError:
        raise
    except DAMAGED as why:
        told = " ".join(str(why).split())[:200] or type(why).__name__
        raise DataError(f"{archive}: is damaged, or not a tar or zip ({told})") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = os.path.relpath(error.filename, work)
        raise _refused(archive, name, "occurs twice, or as a file and a folder") from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        told = f"the disk of {folder.parent} is full" if full else error.strerror or str(error)
        raise DataError(f"{archive}: was not unpacked: {told}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _into(work: Path, archive: Path, most: int, free: int) -> int:
    done = 0
    for number, (name, declared, stream) in enumerate(_entries(archive)):
        if number >= MOST_ENTRIES:
            raise DataError(f"{archive}: has more than {MOST_ENTRIES:,} entries; refused")
        target = work / _inside(archive, name)
        if stream is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        if declared < 0:  # it would make room for others
            raise _refused(archive, name, "says that it has less than no bytes")
        done += declared
        if done > most:
            raise DataError(
                f"{archive}: refused, because it unpacks to more than {size(most)} (at '{name}')"
            )
        if done > free:
            raise DataError(
                f"{archive}: was not unpacked: only {size(free)} are free on the disk of "
                f"{work.parent}; make room and run the same command again"
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
    with tarfile.open(archive, "r|*", tarinfo=_Entry) as stream:
        for member in stream:
            if not (member.isreg() or member.isdir()):
                raise _refused(archive, member.name, "is a link or a device")
            content = None if member.isdir() else stream.extractfile(member)
            yield member.name, member.size, content


class _Entry(tarfile.TarInfo):
    """An entry of a tar whose header says of itself that it is short."""

    @classmethod
    def frombuf(cls, *arguments: Any) -> "_Entry":
        found = super().frombuf(*arguments)
        if found.type in _EXTENDED and found.size > MOST_HEADER:
            raise tarfile.ReadError(f"the header of an entry is {size(found.size)} long")
        return found


_EXTENDED = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _refused(archive, name, "leads outside its folder")
    return path


def _refused(archive: Path, name: str, why: str) -> DataError:
    return DataError(f"{archive}: refused, because its entry {name!r} {why}; nothing was unpacked")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
