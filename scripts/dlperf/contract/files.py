"""Files that are whole or not there at all: what every package writes with.

Runs under every framework's interpreter: Python 3.7, standard library only.
"""

import os


def write(path, content):
    """Write `content` (text or bytes) by a temporary file, fsync and rename.

    A reader sees the old file or the new one; after a power cut too. Folders are made.
    """
    path = os.path.abspath(str(path))
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, ".%s.%d.part" % (name, os.getpid()))
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with open(part, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_if_changed(path, text):
    """Write `text`, unless the file (a pathlib.Path) has it already; whether it was written.

    A file that did not change keeps its time, so that Snakemake makes nothing again for it.
    """
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write(path, text)
    return True
