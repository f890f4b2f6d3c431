"""Reads batches of ready examples for BERT's pre-training from shards on disk.

The input is a folder that dlperf.data.wikipedia made in the format npz. The output is text.py's
`Batch`es, the same ones in the same order for every framework. In each epoch the shards are
shuffled, and the examples within each. Each rank takes its own slice of every global batch, so two
ranks with a batch of 8 see what one rank with a batch of 16 sees. Shards are mapped, not loaded, so
memory does not grow with them.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import os
import zipfile

import numpy as np

from dlperf.data.manifest import read, sha256_of_arrays, sha256_of_file
from dlperf.data.prefetch import DataError, Prefetched, check
from dlperf.data.text import Batch, empty

# Fields of the shards, in the order of Batch's.
FIELDS = (
    "input_ids",
    "segment_ids",
    "input_mask",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)
ORDER = 12  # makes the stream of random numbers differ from those of batches.py and text.py
LOCAL_HEADER = 30  # bytes of a zip member's local header, before its name


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); `.next()` returns a text.Batch.

    Raises DataError for everything that can be found before the first batch.
    """
    check(input)
    return Examples(input, prefetch)


class Examples(Prefetched):
    """Raises DataError if the folder is incomplete or has sequences of another length."""

    def __init__(self, input, prefetch=None):
        manifest_path = os.path.join(input.data_dir, "manifest.json")
        manifest = read(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        length = input.dimensions["sequence_length"]
        if manifest.get("format") != "npz" or manifest.get("sequence_length") != length:
            raise DataError(
                f"{manifest_path}: has the format {manifest.get('format')!r} and sequences of "
                f"{manifest.get('sequence_length')} tokens; 'npz' and {length} are needed"
            )
        self._whole = input.parts * input.batch_size
        if manifest["samples"] < self._whole:
            raise DataError(
                f"{manifest_path} has {manifest['samples']} examples, fewer than the "
                f"{self._whole} of one global batch ({input.parts} ranks x batch size "
                f"{input.batch_size}): ask for a smaller batch size"
            )
        self._paths = [os.path.join(input.data_dir, file["path"]) for file in manifest["files"]]
        self._counts = [file["samples"] for file in manifest["files"]]
        self._shards = {}
        self._input, self._length = input, length
        size = sum(each.nbytes for each in empty(input.batch_size, length))
        super().__init__(size, input.batches, prefetch)

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def _batches(self):
        whole, size = self._whole, self._input.batch_size
        for epoch in itertools.count():
            places = np.zeros((0, 2), np.int64)  # (shard, row) of the examples that come next
            for shard in self._random(epoch).permutation(len(self._paths)):
                rows = self._random(epoch, shard).permutation(self._counts[shard])
                there = np.stack([np.full(len(rows), shard), rows], axis=1)
                places = np.concatenate([places, there])
                while len(places) >= whole:
                    own = places[self._input.part * size :][:size]
                    yield self._batch(own)
                    places = places[whole:]

    def _random(self, *numbers):
        return np.random.RandomState(
            [self._input.seed, ORDER] + [int(number) for number in numbers]
        )

    def _batch(self, places):
        batch = empty(self._input.batch_size, self._length)
        for position, (shard, row) in enumerate(places):
            if shard not in self._shards:
                self._shards[shard] = mapped(self._paths[shard])
            for array, field in zip(batch, FIELDS):
                array[position] = self._shards[shard][field][row]
        return Batch(*batch)


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
