"""Reads batches of ready examples for BERT's pre-training from shards on disk.

The input is a folder that dlperf.data.wikipedia made in the format npz. The output is text.py's
`Batch`es, in the order of rows.py.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import os

import numpy as np

from dlperf.data.manifest import read
from dlperf.data.prefetch import DataError, check
from dlperf.data.rows import Rows
from dlperf.data.text import NOISE, Batch, empty, noise
from dlperf.workloads.bert.facts import DATA

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


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); `.next()` returns a text.Batch.

    Raises DataError for everything that can be found before the first batch.
    """
    check(input)
    return Examples(input, prefetch)


class Examples(Rows):
    """Raises DataError if the folder is incomplete or has sequences of another length."""

    def __init__(self, input, prefetch=None):
        manifest_path = os.path.join(input.data_dir, "manifest.json")
        manifest = read(manifest_path)
        length = input.dimensions["sequence_length"]
        if manifest.get("format") != "npz" or manifest.get("sequence_length") != length:
            raise DataError(
                f"{manifest_path}: has the format {manifest.get('format')!r} and sequences of "
                f"{manifest.get('sequence_length')} tokens; 'npz' and {length} are needed"
            )
        self._length = length
        size = sum(each.nbytes for each in empty(input.batch_size, length))
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        tests = DATA[input.data].tests
        super().__init__(input, manifest_path, manifest, ORDER, size, prefetch, tests)

    def _noise(self):
        return noise(self._input, self._noises)

    def _batch(self, places):
        batch = empty(self._input.batch_size, self._length)
        for position, (shard, row) in enumerate(places):
            for array, field in zip(batch, FIELDS):
                array[position] = self._shard(shard)[field][row]
        return Batch(*batch)
