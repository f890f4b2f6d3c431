"""Batches of rows of Criteo's form, with ids in place of categories, the same for every framework.

In: a folder that data/criteo.py made, and a case. Out: `Batch`es. All ids of the deep table lie in
one space, field after field, and so do those of the wide one: a row of a table belongs to one
field. `synthetic` draws ids over all rows of the tables.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import os
from typing import NamedTuple

import numpy as np

from dlperf.data.manifest import read, sha256_of_arrays
from dlperf.data.prefetch import Constant, DataError, check
from dlperf.data.rows import Rows
from dlperf.workloads.wide_deep.facts import CROSSES, FIELDS, NUMBERS

CLICKS = 0.256  # share of the labels that are 1, in Criteo's file
# The first number after the seed keeps the streams apart, also from those of the other loaders.
NOISE, ORDER = 13, 14


class Batch(NamedTuple):
    """Arrays of a batch.

    numbers: float32, (batch, 13), from 0 to 1. wide, deep: int32, (batch, 2) and (batch, 26), rows
    of the two tables. labels: float32, (batch,), 0 or 1.
    """

    numbers: np.ndarray
    wide: np.ndarray
    deep: np.ndarray
    labels: np.ndarray


def empty(size):
    return Batch(
        np.empty((size, NUMBERS), np.float32),
        np.empty((size, CROSSES), np.int32),
        np.empty((size, FIELDS), np.int32),
        np.empty(size, np.float32),
    )


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); `.next()` returns a Batch.

    Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    return synthetic(input) if input.data == "synthetic" else Clicks(input, prefetch)


def synthetic(input):
    """Random numbers, and ids that lie evenly over each field's share of the rows; made once."""
    random = np.random.RandomState([input.seed, NOISE, input.part])
    found = [noise(input, random) for _ in range(input.distinct)]
    return Constant(found, sha256_of_arrays(found[0]))


def noise(input, random):
    """The next synthetic batch."""
    size, rows = input.batch_size, input.dimensions["vocabulary"]
    batch = empty(size)
    batch.numbers[...] = random.random_sample(batch.numbers.shape)
    for ids in (batch.wide, batch.deep):
        ends = rows * np.arange(ids.shape[1] + 1) // ids.shape[1]
        ids[...] = ends[:-1] + random.random_sample(ids.shape) * np.diff(ends)
    batch.labels[...] = random.random_sample(size) < CLICKS
    return batch


class Clicks(Rows):
    """Raises DataError if the folder is incomplete, or has ids beyond the tables' rows."""

    def __init__(self, input, prefetch=None):
        manifest_path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        manifest = read(manifest_path)
        if manifest.get("format") != "npz" or manifest.get("dataset") != "clicks":
            raise DataError(
                f"{manifest_path}: has the data set {manifest.get('dataset')!r} in the format "
                f"{manifest.get('format')!r}; 'clicks' in 'npz' is needed, which python -m "
                "dlperf.data.criteo makes"
            )
        rows, needed = input.dimensions["vocabulary"], max(manifest["wide"], manifest["deep"])
        if rows < needed:
            raise DataError(
                f"vocabulary is {rows}, but the data of {input.data_dir} have {needed} ids: ask "
                f"for a vocabulary of {needed} or more, or for `data: synthetic`"
            )
        size = sum(each.nbytes for each in empty(input.batch_size))
        super().__init__(input, manifest_path, manifest, ORDER, size, prefetch)

    def _batch(self, places):
        batch = empty(len(places))
        for number in np.unique(places[:, 0]):
            here, shard = places[:, 0] == number, self._shard(number)
            for field, array in batch._asdict().items():
                array[here] = shard[field][places[here, 1]]
        return batch
