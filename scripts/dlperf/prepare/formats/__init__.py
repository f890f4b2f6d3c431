"""Formats of shards: each module writes a file of samples and reads it back, byte by byte.

A sample is a mapping from a field's name to bytes, an int or a one-dimensional NumPy array (int32,
int64 or float32). Each module has

    SUFFIX                  of its files' names (OneFlow's have none)
    write(path, samples)    `samples` is any iterable; the same ones give the same bytes everywhere
    read(path)              the samples again, one by one; raises DataError where a byte is wrong

and knows the format's definition, no framework. The exception is MindRecord, which only MindSpore
itself writes and reads: its module starts that framework's interpreter.
"""

import importlib
from types import ModuleType

NAMES = ("folders", "tfrecord", "recordio", "ofrecord", "mindrecord", "webdataset", "hdf5", "npz")


def file_name(format: str, number: int, count: int) -> str:
    """A shard's name. OneFlow's reader takes a folder's parts by prefix and number alone."""
    if format == "ofrecord":
        return f"part-{number:05d}"
    return f"{number:05d}-of-{count:05d}{of(format).SUFFIX}"


def of(name: str) -> ModuleType:
    """The module of a format. Raises ValueError for any other name."""
    if name not in NAMES:
        raise ValueError(f"format {name!r} is not known; it is one of {', '.join(NAMES)}")
    return importlib.import_module(f"dlperf.prepare.formats.{name}")
