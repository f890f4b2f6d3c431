"""The list of a data set's files, with the sha256 of each, checked before anything is read."""

import hashlib
import json
import os
import zlib

import numpy as np

from dlperf.loaders import DataError

CLASSES = 1000
SAMPLES = "samples_sha256"  # the digest of a data set's samples, whatever their format


def verify(manifest_path):
    """The manifest, after a check that every file in it exists and has its sha256.

    Raises DataError that names the first file that is missing or differs, and how to fix it.
    """
    manifest = read(manifest_path)
    data_dir = os.path.dirname(manifest_path)
    for file in manifest["files"]:
        path = os.path.join(data_dir, file["path"])
        found = sha256_of_file(path)
        if found != file["sha256"]:
            raise DataError(
                f"{path}: sha256 {found} differs from {file['sha256']} in {manifest_path}; "
                + how_to_fix(data_dir)
            )
    return manifest


def read(manifest_path):
    """The manifest, after a check that every file in it exists and has its size.

    For data that are too large to be read before each run; `python -m dlperf.prepare.check` does so
    once. Raises DataError as `verify` does.
    """
    if not manifest_path:
        raise DataError(
            "settings key 'data_dir' is empty; `data: sample` needs a folder that has a "
            "manifest.json, such as results/data/sample"
        )
    data_dir = os.path.dirname(manifest_path)
    if not os.path.isfile(manifest_path):
        raise DataError(f"{manifest_path}: no such file; {how_to_fix(data_dir)}")
    try:
        with open(manifest_path, encoding="utf-8") as file:
            manifest = json.load(file)
        schema, listing = manifest["schema"], manifest["sha256"]
        files = [(file["path"], file["bytes"]) for file in manifest["files"]]
        labels = [file["label"] for file in manifest["files"] if "classes" in manifest]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{manifest_path}: not a data manifest ({error!r}); {how_to_fix(data_dir)}")
    if schema != "dlperf.data/1":
        raise DataError(
            f"{manifest_path}: schema {schema!r}, expected 'dlperf.data/1'; {how_to_fix(data_dir)}"
        )
    if listing != sha256_of_listing(manifest["files"]):
        raise DataError(
            f"{manifest_path}: its list of files differs from its sha256; {how_to_fix(data_dir)}"
        )
    for (path, _), label in zip(files, labels):
        if not 0 <= label < CLASSES:
            raise DataError(
                f"{os.path.join(data_dir, path)}: label {label} is not within 0 and 999"
            )
    for path, size in files:
        path = os.path.join(data_dir, path)
        if not os.path.isfile(path):
            raise DataError(
                f"{path}: missing, though {manifest_path} lists it; {how_to_fix(data_dir)}"
            )
        if os.path.getsize(path) != size:
            raise DataError(
                f"{path}: has {os.path.getsize(path)} bytes, {size} in {manifest_path}; "
                + how_to_fix(data_dir)
            )
    return manifest


def how_to_fix(data_dir):
    """How to make the data of a folder (again)."""
    target = f"results/data/{os.path.basename(os.path.abspath(data_dir))}/manifest.json"
    return f"make the data again: snakemake --profile local --force {target}"


def sha256_of_listing(files):
    """The sha256 of a line for each file, as sha256sum prints it, its label (if any) at the end."""
    lines = (
        f"{file['sha256']}  {file['path']}" + (f" {file['label']}\n" if "label" in file else "\n")
        for file in files
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256_of_file(path):
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(2**22), b""):
            sha256.update(part)
    return sha256.hexdigest()


def sha256_of_arrays(arrays):
    """sha256 of shapes and values, whatever the arrays' byte order or width of type."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(repr(array.shape).encode())
        kind = "<f4" if array.dtype.kind == "f" else "<i4"
        sha256.update(np.ascontiguousarray(array, kind).data)
    return sha256.hexdigest()


class Digest:
    """sha256 over samples, the same for each format that they are kept in.

    `values` are a sample's bytes, ints and arrays in an order that the data set defines. Of bytes,
    their length and CRC-32 stand for them, which is several times as fast: against changes, each
    file has its own sha256.
    """

    def __init__(self):
        self.samples = 0
        self._sha256 = hashlib.sha256()

    def add(self, *values):
        self.samples += 1
        for value in values:
            if isinstance(value, bytes):
                value = np.array([len(value), zlib.crc32(value)])
            kind = "<f4" if np.asarray(value).dtype.kind == "f" else "<i8"
            self._sha256.update(np.asarray(value, kind).tobytes())

    def hex(self):
        return self._sha256.hexdigest()


def sha256_of_shards(digests):
    """The digest of a data set from those of its shards."""
    return hashlib.sha256("".join(digest + "\n" for digest in digests).encode()).hexdigest()
