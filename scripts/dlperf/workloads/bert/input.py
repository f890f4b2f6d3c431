"""Batches of text for BERT's pre-training: sentence pairs, masked, the same for every framework.

In: the tokens of a corpus, from which examples are drawn while training runs (loaders/text.py), or
a folder of ready examples in the format npz, which dlperf.prepare.wikipedia makes; and a run's
Input. Out: `Batch`es.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import functools
import os
from typing import NamedTuple

import numpy as np

from dlperf.loaders import DataError, text
from dlperf.loaders.manifest import read, sha256_of_arrays
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import check
from dlperf.loaders.rows import Rows
from dlperf.loaders.text import FIRST_WORD, MASK, START, hide
from dlperf.workloads.bert.facts import DATA, VOCABULARY, masked_positions

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
# The first number after the seed keeps the streams apart, also from those of other loaders.
NOISE, ORDER = 11, 12


class Batch(NamedTuple):
    """Arrays of a batch of sentence pairs; all int32 except `predicted`, which is float32.

    tokens, segments, mask: (batch, tokens). segments is 1 in the second passage; mask is 1 where
    there is a token, 0 after them. positions, labels, predicted: (batch, predictions): which tokens
    are predicted, their true values, and 1.0 for each prediction, 0.0 for unused places (their
    position and label are 0). follows: (batch,), 0 where the second passage follows, 1 where it was
    taken from elsewhere.
    """

    tokens: np.ndarray
    segments: np.ndarray
    mask: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    follows: np.ndarray


def empty(batch_size, sequence_length):
    places = masked_positions(sequence_length)
    wide, narrow = (batch_size, sequence_length), (batch_size, places)
    return Batch(
        *(np.zeros(wide, np.int32) for _ in range(3)),
        *(np.zeros(narrow, np.int32) for _ in range(2)),
        np.zeros(narrow, np.float32),
        np.zeros(batch_size, np.int32),
    )


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); see batches.open_batches.

    `.next()` returns a Batch. Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    if input.data == "synthetic":
        return synthetic(input)
    return Prose(input, prefetch) if input.data == "sample" else Examples(input, prefetch)


def synthetic(input):
    """Random tokens, no padding, every prediction used."""
    return Pool(input, NOISE, functools.partial(noise, input), sha256_of_arrays)


def noise(input, random):
    """The next synthetic batch."""
    batch_size, sequence_length = input.batch_size, input.dimensions["sequence_length"]
    batch = empty(batch_size, sequence_length)
    batch.tokens[...] = random.randint(FIRST_WORD, VOCABULARY, batch.tokens.shape)
    batch.tokens[:, 0] = START
    batch.segments[:, sequence_length // 2 :] = 1
    batch.mask[...] = 1
    batch.labels[...] = random.randint(FIRST_WORD, VOCABULARY, batch.labels.shape)
    batch.predicted[...] = 1
    batch.follows[...] = random.randint(0, 2, batch_size)
    for row, places in enumerate(batch.positions):
        places[...] = np.sort(1 + random.choice(sequence_length - 1, len(places), replace=False))
        batch.tokens[row, places] = MASK
    return batch


class Prose(text.Prose):
    """Examples drawn from a corpus, ahead of time, by one background thread.

    Raises DataError where the folder's manifest or a file of it is missing or differs.
    """

    def __init__(self, input, prefetch=None):
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        super().__init__(input, prefetch, DATA[input.data].tests)

    def _empty(self):
        return empty(self._input.batch_size, self._length)

    def _noise(self):
        return noise(self._input, self._noises)

    def _example(self, random, documents, batch, row):
        """Draw an example from these documents into a row of the batch."""
        pair, middle, elsewhere = self._pair(random, documents)
        count = len(pair)
        batch.segments[row, middle:count] = 1
        batch.mask[row, :count] = 1
        batch.follows[row] = elsewhere
        chosen, labels = hide(
            pair, np.flatnonzero(pair >= FIRST_WORD), batch.positions.shape[1], random
        )
        batch.tokens[row, :count] = pair
        batch.positions[row, : len(chosen)] = chosen
        batch.labels[row, : len(chosen)] = labels
        batch.predicted[row, : len(chosen)] = 1


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
