"""Batches of text for ELECTRA's pre-training, the same for every framework.

The passages are those of text.py. 15 % of a sequence's tokens are chosen, among the words, each
once; 85 % of them are hidden, the others stay (google-research/electra, whose draws may choose one
place twice). What replaces them the model draws itself, on its device. In certificates a batch
brings the noise of these draws, for every framework the same.

In the quality scenario, which holds passages out, sequences are longer in its second phase, and a
batch may have another number of them: the batches of the first one come first (phases.py). Passages
to evaluate on are as long as those of the second phase, and come in batches of its size.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import copy
import functools
import itertools
from typing import NamedTuple

import numpy as np

from dlperf.loaders import text
from dlperf.loaders.manifest import sha256_of_arrays
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import check
from dlperf.workloads.electra import facts

HIDDEN = 0.85  # share of the chosen places
SURE = 100.0  # far above every other score
# Keeps the stream apart from those of the other loaders.
SYNTHETIC = 20


class Batch(NamedTuple):
    """Arrays of a batch of sequences; int32, but for `chosen` and `noise`, which are float32.

    tokens, segments, mask: (batch, tokens); tokens with [MASK] in the hidden places. segments is 1
    in the second passage; mask is 1 where there is a token, 0 after them. positions, labels,
    chosen: (batch, places): the chosen positions, their true tokens, and 1.0 for each of them; an
    unused place has 0.0, position 0, and the label [CLS], which stands there. noise: (batch,
    places, vocabulary), Gumbel's; only where the facts say that it is given.
    """

    tokens: np.ndarray
    segments: np.ndarray
    mask: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    chosen: np.ndarray


class Noisy(NamedTuple):
    """A Batch with its noise."""

    tokens: np.ndarray
    segments: np.ndarray
    mask: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    chosen: np.ndarray
    noise: np.ndarray


def empty(batch_size, sequence_length):
    places = facts.masked_positions(sequence_length)
    wide, narrow = (batch_size, sequence_length), (batch_size, places)
    arrays = [np.zeros(wide, np.int32) for _ in range(3)]
    arrays += [np.zeros(narrow, np.int32), np.full(narrow, text.START, np.int32)]
    arrays.append(np.zeros(narrow, np.float32))
    if not facts.GIVEN_NOISE:
        return Batch(*arrays)
    return Noisy(*arrays, np.zeros(narrow + (facts.VOCABULARY,), np.float32))


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); see batches.open_batches.

    `.next()` returns a Batch. Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    return synthetic(input) if input.data == "synthetic" else Prose(input, prefetch)


def synthetic(input):
    """Random tokens, no padding, every place used."""
    return Pool(input, SYNTHETIC, functools.partial(random_batch, input), sha256_of_arrays)


def random_batch(input, random):
    """The next synthetic batch."""
    batch = empty(input.batch_size, input.dimensions["sequence_length"])
    length = batch.tokens.shape[1]
    batch.tokens[...] = random.randint(text.FIRST_WORD, facts.VOCABULARY, batch.tokens.shape)
    batch.tokens[:, 0] = text.START
    batch.segments[:, length // 2 :] = 1
    batch.mask[...] = 1
    for row in range(input.batch_size):
        places = batch.positions.shape[1]
        hide(batch, row, 1 + random.permutation(length - 1)[:places], random)
    if facts.GIVEN_NOISE:
        batch.noise[...] = random.gumbel(size=batch.noise.shape)
    return batch


class Prose(text.Prose):
    """Sequences drawn from a corpus, ahead of time, by one background thread.

    Raises DataError where the folder's manifest or a file of it is missing or differs.
    """

    def __init__(self, input, prefetch=None):
        self._phases = phases_of(input)
        self._noise_numbers = itertools.count()
        self._noises = np.random.RandomState([input.seed, SYNTHETIC, input.part])
        tests = facts.DATA[input.data].tests if input.held_out else 0
        # what is read ahead is counted by the larger batch
        super().__init__(max(self._phases, key=size_of), prefetch, tests)

    def _of(self, phase):
        """The same reader, of batches of a phase, 0 or 1."""
        own = copy.copy(self)
        own._input = self._phases[min(phase, len(self._phases) - 1)]
        own._length = own._input.dimensions["sequence_length"]
        return own

    def _empty(self):
        return empty(self._input.batch_size, self._length)

    def _noise(self):
        """Half of the steps on noise are of the first phase, half of the second."""
        count = self._input.dimensions.get("micro_steps", 1)  # batches of a step
        step = next(self._noise_numbers) // count
        own = self._of(step >= (self._input.warmup // count + 1) // 2)
        return random_batch(own._input, self._noises)

    def tests(self):
        return super(Prose, self._of(1)).tests()

    def _batches(self):
        own, seed, part = self._input.dimensions, self._input.seed, self._input.part
        phases = (self._of(0), self._of(1))
        first = own.get("first_steps", 0) * own.get("micro_steps", 1)
        start = own.get("skipped", 0)  # samples of all parts that came before
        for number in itertools.count():
            phase = phases[number >= first]
            size = phase._input.batch_size
            batch = phase._empty()
            for row in range(size):
                random = np.random.RandomState([seed, text.EXAMPLE, start + part * size + row])
                phase._example(random, self._own, batch, row)
            start += self._input.parts * size
            yield batch

    def _example(self, random, documents, batch, row):
        pair, middle, _ = self._pair(random, documents)
        count = len(pair)
        batch.tokens[row, :count] = pair
        batch.segments[row, middle:count] = 1
        batch.mask[row, :count] = 1
        wanted = min(batch.positions.shape[1], max(1, int(round(text.PREDICTED * count))))
        words = np.flatnonzero(pair >= text.FIRST_WORD)
        hide(batch, row, random.permutation(words)[:wanted], random)
        if facts.GIVEN_NOISE:
            batch.noise[row] = random.gumbel(size=batch.noise.shape[1:])
            if random.random_sample() < 0.5:  # where the true token wins it is no replacement
                batch.noise[row, 0, batch.labels[row, 0]] += SURE


def phases_of(input):
    """An Input of each phase; of other scenarios there is one."""
    if not input.held_out:
        return (input,)
    own = input.dimensions
    size = own.get("second_batch_size", 0) or input.batch_size
    longer = dict(own, sequence_length=own["second_length"])
    return (input, input._replace(batch_size=size, dimensions=longer))


def size_of(input):
    """Tokens of a batch."""
    return input.batch_size * input.dimensions["sequence_length"]


def hide(batch, row, chosen, random):
    """Hide the chosen places of a row, all but a few."""
    chosen = np.sort(chosen)
    places = slice(0, len(chosen))
    batch.positions[row, places] = chosen
    batch.labels[row, places] = batch.tokens[row, chosen]
    batch.chosen[row, places] = 1
    hidden = chosen[random.random_sample(len(chosen)) < HIDDEN]
    batch.tokens[row, hidden] = text.MASK
