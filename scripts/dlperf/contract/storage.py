"""What stops a file from being read or written, said in one line.

Runs under every framework's interpreter: Python 3.7, standard library only.
"""

import errno
import re

#: Of other errors the system's own message says what they mean.
FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of this disk is used up",
}
LIMITED = {
    errno.EFBIG: "the file would be larger than files may be here (ulimit -f)",
    errno.EMFILE: "too many files are open at a time (ulimit -n)",
    errno.ENOMEM: "there is no more memory (ulimit -v)",
}
SHUT = {
    errno.EROFS: "is on a disk that is mounted read-only",
    errno.EACCES: "may not be read or written by this user",
}

#: What a machine or its user lacks: no fault of what the files say.
LACKING = frozenset([*FULL, *LIMITED, *SHUT, errno.EPERM, errno.ENFILE, errno.EIO])

# What contract.files writes to before it renames it.
_PART = re.compile(r"\.([^/]+)\.\d+\.part$")


def is_lacking(error):
    """Whether an error says that this machine or user lacks something: room, memory, rights, …"""
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in LACKING


def message(error, path=""):
    """One line on an OSError: which file, what is wrong, how to go on.

    A full disk is met while a file is written, where the error names none: then it is `path`.
    """
    place = _PART.sub(r"\1", str(error.filename2 or error.filename or path))
    told = SHUT.get(error.errno) or error.strerror or str(error)
    if error.errno in FULL:
        told = f"{FULL[error.errno]}; make room and run the same command again"
    if error.errno in LIMITED:
        told = f"{LIMITED[error.errno]}; allow more and run the same command again"
    return f"{place}: {told}" if place else told
