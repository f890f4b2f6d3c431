"""Batches of rows of Criteo's form, with ids in place of categories, the same for every framework.

In: a folder that prepare/criteo.py made, and a case. Out: `Batch`es. All ids of the deep table lie
in one space, field after field, and so do those of the wide one: a row of a table belongs to one
field. `synthetic` draws ids over all rows of the tables.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import functools
import os
from typing import NamedTuple

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import read, sha256_of_arrays
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import check
from dlperf.loaders.rows import Rows, mapped
from dlperf.workloads.wide_deep.facts import CROSSES, DATA, FIELDS, NUMBERS

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
    """Random numbers, and ids that lie evenly over each field's share of the rows."""
    return Pool(input, NOISE, functools.partial(noise, input), sha256_of_arrays)


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
    """Rows to train on; those to test with are never among them.

    Raises DataError if the folder is incomplete, or has ids beyond the tables' rows.
    """

    def __init__(self, input, prefetch=None):
        manifest_path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        manifest = read(manifest_path)
        if manifest.get("format") != "npz" or manifest.get("dataset") != "clicks":
            raise DataError(
                f"{manifest_path}: has the data set {manifest.get('dataset')!r} in the format "
                f"{manifest.get('format')!r}; 'clicks' in 'npz' is needed, which python -m "
                "dlperf.prepare.criteo makes"
            )
        rows, needed = input.dimensions["vocabulary"], max(manifest["wide"], manifest["deep"])
        if rows < needed:
            raise DataError(
                f"vocabulary is {rows}, but the data of {input.data_dir} have {needed} ids: ask "
                f"for a vocabulary of {needed} or more, or for `data: synthetic`"
            )
        if input.held_out:
            expected(manifest_path, manifest, DATA[input.data])
        trained = len(manifest["files"]) - manifest.get("test_shards", 0)
        self._held_out = manifest["files"][trained:]
        manifest = dict(manifest, files=manifest["files"][:trained])
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        size = sum(each.nbytes for each in empty(input.batch_size))
        super().__init__(input, manifest_path, manifest, ORDER, size, prefetch)

    def tests(self):
        """Pairs of a batch's arrays and how many of its rows count: all rows to test with.

        They are part 0's alone: an area under a curve is of all rows together. Others have none.
        """
        return Tests(self._input, self._held_out if self._input.part == 0 else [])

    def _noise(self):
        return noise(self._input, self._noises)

    def _batch(self, places):
        batch = empty(len(places))
        for number in np.unique(places[:, 0]):
            here, shard = places[:, 0] == number, self._shard(number)
            for field, array in batch._asdict().items():
                array[here] = shard[field][places[here, 1]]
        return batch


def expected(manifest_path, manifest, data):
    """Raise DataError where a folder has not the rows that the quality scenario counts on."""
    found = manifest["samples"], manifest.get("tests", 0)
    if found != (data.samples, data.tests):
        raise DataError(
            f"{manifest_path}: has {found[0]} rows to train on and {found[1]} to test with; a "
            f"the quality scenario needs {data.samples} and {data.tests}: make the data again "
            "from the whole file"
        )


class Tests:
    """Batches of the rows of some shards, in their order, made when they are asked for.

    The last one is filled up with its first row, so that all have one shape.
    """

    def __init__(self, input, files):
        self._size, self._count = input.batch_size, sum(file["samples"] for file in files)
        self._paths = [os.path.join(input.data_dir, file["path"]) for file in files]

    def __len__(self):
        return -(-self._count // self._size)

    def __iter__(self):
        rest = empty(0)
        for path in self._paths:
            shard = mapped(path)
            start = 0
            while start < len(shard["labels"]):
                taken = self._size - len(rest.labels)
                end = start + taken
                rest = Batch(
                    *(
                        np.concatenate([before, shard[field][start:end]]).astype(before.dtype)
                        for field, before in rest._asdict().items()
                    )
                )
                start = end
                if len(rest.labels) == self._size:
                    yield rest, self._size
                    rest = empty(0)
        count = len(rest.labels)
        if count:
            filled = np.append(np.arange(count), np.zeros(self._size - count, int))
            yield Batch(*(each[filled] for each in rest)), count
