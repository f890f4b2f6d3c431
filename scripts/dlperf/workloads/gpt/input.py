"""Batches of tokens for GPT's pre-training, the same for every framework.

In: a corpus of tokens, from which sequences are drawn while training runs (loaders/token_files.py),
and a run's Input. Out: `Batch`es.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import functools
from typing import NamedTuple

import numpy as np

from dlperf.loaders import token_files
from dlperf.loaders.manifest import sha256_of_arrays
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import check
from dlperf.workloads.gpt import facts

# Keeps the stream apart from those of the other loaders.
NOISE = 40


class Batch(NamedTuple):
    """Arrays of a batch of sequences, both (batch, sequence_length), int32.

    labels: the tokens one place later, so that each token's label is the next one.
    """

    tokens: np.ndarray
    labels: np.ndarray


def batch_of(sequences):
    """Return the Batch of an array (batch, sequence_length + 1)."""
    # frameworks take arrays without gaps
    return Batch(*(np.ascontiguousarray(each) for each in (sequences[:, :-1], sequences[:, 1:])))


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); see batches.open_batches.

    `.next()` returns a Batch. Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    return synthetic(input) if input.data == "synthetic" else Tokens(input, prefetch)


def synthetic(input):
    """Random tokens."""
    return Pool(input, NOISE, functools.partial(noise, input), sha256_of_arrays)


def empty(batch_size, sequence_length):
    """A batch of these sizes with nothing in it, for what is compiled before the first one."""
    return batch_of(np.zeros((batch_size, sequence_length + 1), np.int32))


def noise(input, random):
    """The next synthetic batch."""
    shape = (input.batch_size, input.dimensions["sequence_length"] + 1)
    return batch_of(random.randint(0, facts.VOCABULARY, shape).astype(np.int32))


class Tokens(token_files.Tokens):
    """Sequences drawn from a corpus. Raises DataError as token_files.Tokens does."""

    def __init__(self, input, prefetch=None):
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        size = 2 * 4 * input.batch_size * input.dimensions["sequence_length"]
        super().__init__(input, facts.VOCABULARY, size, prefetch, facts.DATA[input.data].tests)

    def _batch(self, sequences):
        return batch_of(sequences)

    def _noise(self):
        return noise(self._input, self._noises)
