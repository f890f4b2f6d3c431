"""Reads batches of rows from shards on disk, shuffled, the same ones for every framework.

The input is the manifest of a folder of shards in the format npz. In each epoch the shards are
shuffled, and the rows within each. Each rank takes its own slice of every global batch, so two
ranks with a batch of 8 see what one rank with a batch of 16 sees. Shards are mapped, not loaded, so
memory does not grow with them.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import os
import zipfile

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import sha256_of_arrays, sha256_of_file
from dlperf.loaders.prefetch import Prefetched, share

LOCAL_HEADER = 30  # bytes of a zip member's local header, before its name


class Rows(Prefetched):
    """A subclass has `_batch(places)`: the batch of these (shard, row), from `self._shard(number)`.

    order: the first number after the seed, which makes a data set's stream of random numbers its
    own. tests: so many rows of the last shard are to test with, and none of that shard to train on,
    where the input asks for what is held out. Raises DataError if there are fewer rows than a
    global batch takes, or than tests.
    """

    def __init__(self, input, manifest_path, manifest, order, batch_bytes, prefetch, tests=0):
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._whole = input.parts * input.batch_size
        self._tests = tests if input.held_out else 0
        files = manifest["files"]
        if self._tests and files[-1]["samples"] < self._tests:
            raise DataError(
                f"{manifest_path}: its last shard, which is held out to test with, has "
                f"{files[-1]['samples']} examples; {self._tests} are needed: make fewer shards"
            )
        samples = sum(file["samples"] for file in (files[:-1] if self._tests else files))
        if samples < self._whole:
            raise DataError(
                f"{manifest_path} has {samples} examples{' to train on' if self._tests else ''}, "
                f"fewer than the "
                f"{self._whole} of one global batch ({input.parts} ranks x batch size "
                f"{input.batch_size}): ask for a smaller batch size"
            )
        self._paths = [os.path.join(input.data_dir, file["path"]) for file in manifest["files"]]
        self._counts = [file["samples"] for file in manifest["files"]]
        self._shards = {}
        self._input, self._order = input, order
        super().__init__(batch_bytes, input.batches, prefetch, input.warmup)

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def tests(self):
        """[(a batch, how many of its samples count)]: this part's share of what is held out."""
        last = len(self._paths) - 1
        return [
            (self._batch([(last, place) for place in places]), own)
            for places, own in share(self._input, self._tests)
        ]

    def _batches(self):
        whole, size = self._whole, self._input.batch_size
        for epoch in itertools.count():
            places = np.zeros((0, 2), np.int64)  # (shard, row) of the examples that come next
            trained = len(self._paths) - (self._tests > 0)
            for shard in self._random(epoch).permutation(trained):
                rows = self._random(epoch, shard).permutation(self._counts[shard])
                there = np.stack([np.full(len(rows), shard), rows], axis=1)
                places = np.concatenate([places, there])
                while len(places) >= whole:
                    own = places[self._input.part * size :][:size]
                    yield self._batch(own)
                    places = places[whole:]

    def _random(self, *numbers):
        return np.random.RandomState(
            [self._input.seed, self._order] + [int(number) for number in numbers]
        )

    def _shard(self, number):
        """The arrays of a shard by field."""
        if number not in self._shards:
            self._shards[number] = mapped(self._paths[number])
        return self._shards[number]


def mapped(path):
    """The arrays of an uncompressed .npz, mapped from the file: name -> array, read-only.

    Raises DataError if it is compressed or not a whole archive.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as stream:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED:
                    raise DataError(f"{path}: {member.filename} is compressed")
                stream.seek(member.header_offset)
                header = stream.read(LOCAL_HEADER)
                lengths = [
                    int.from_bytes(header[place : place + 2], "little") for place in (26, 28)
                ]
                stream.seek(sum(lengths), os.SEEK_CUR)  # its name and extra field
                np.lib.format.read_magic(stream)
                shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
                name = os.path.splitext(member.filename)[0]
                arrays[name] = np.memmap(path, dtype, "r", stream.tell(), shape)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a whole NPZ archive ({error})")
    return arrays
