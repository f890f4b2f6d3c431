"""Batches of text for BERT's pre-training: sentence pairs, masked, the same for every framework.

In: the tokens of a corpus (data/prose.py makes them) and a case. Out: `Batch`es. Example i of
a run depends on the seed and on i alone, so 2 ranks of 8 together see the same batch as 1
rank of 16. The rules are those of google-research/bert's create_pretraining_data.py: pairs of
passages, the second in half of all cases from another document; 15 % of the tokens predicted, of
which 80 % are masked, 10 % replaced and 10 % left.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import json
import os
from typing import NamedTuple

import numpy as np

from dlperf.data.manifest import sha256_of_arrays, sha256_of_file, verify
from dlperf.data.prefetch import Constant, Prefetched, check, share
from dlperf.workloads.bert.facts import DATA, VOCABULARY, masked_positions

# The special tokens, which come before the words in the vocabulary.
PADDING, UNKNOWN, START, SEPARATOR, MASK, FIRST_WORD = range(6)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

PREDICTED = 0.15  # share of the tokens
SHORT = 0.1  # share of the examples that are given a random, shorter length
# The first number after the seed keeps the streams apart, also from those of batches.py.
EXAMPLE, NOISE, TEST = 10, 11, 13
EVERY = 10  # of so many documents the last one is held out to test with
TEST_SEED = 1  # the same tests for every seed of a run


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
    return synthetic(input) if input.data == "synthetic" else Prose(input, prefetch)


def synthetic(input):
    """Random tokens, no padding, every prediction used, made once."""
    random = np.random.RandomState([input.seed, NOISE, input.part])
    found = [noise(input, random) for _ in range(input.distinct)]
    return Constant(found, sha256_of_arrays(found[0]))


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


class Prose(Prefetched):
    """Examples drawn from a corpus, ahead of time, by one background thread.

    Raises DataError where the folder's manifest or a file of it is missing or differs.
    """

    def __init__(self, input, prefetch=None):
        data_dir = input.data_dir
        manifest_path = os.path.join(data_dir, "manifest.json") if data_dir else ""
        verify(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._tokens, self._sentences, self._documents = (
            np.load(os.path.join(data_dir, name + ".npy"))
            for name in ("tokens", "sentences", "documents")
        )
        self._input, self._length = input, input.dimensions["sequence_length"]
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        everything = np.arange(len(self._documents) - 1)
        held_out = everything % EVERY == EVERY - 1 if input.held_out else everything < 0
        self._own, self._held_out = everything[~held_out], everything[held_out]
        size = sum(each.nbytes for each in self._empty())
        super().__init__(size, input.batches, prefetch, input.warmup)

    def _empty(self):
        return empty(self._input.batch_size, self._length)

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def tests(self):
        """[(a batch, how many of its samples count)]: this part's share of what is held out."""
        found = []
        for places, own in share(self._input, DATA[self._input.data].tests):
            batch = empty(self._input.batch_size, self._length)
            for row, place in enumerate(places):
                random = np.random.RandomState([TEST_SEED, TEST, place])
                self._example(random, self._held_out, batch, row)
            found.append((batch, own))
        return found

    def _noise(self):
        return noise(self._input, self._noises)

    def _batches(self):
        size, seed = self._input.batch_size, self._input.seed
        for step in itertools.count():
            first = (step * self._input.parts + self._input.part) * size
            batch = self._empty()
            for row in range(size):
                random = np.random.RandomState([seed, EXAMPLE, first + row])
                self._example(random, self._own, batch, row)
            yield batch

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

    def _pair(self, random, documents):
        """Two passages of these documents: the tokens, where the second begins, and whether that
        was taken from elsewhere.
        """
        room = self._length - 3  # [CLS] first [SEP] second [SEP]
        if random.random_sample() < SHORT:
            room = random.randint(2, room + 1)
        place = random.randint(len(documents))
        document = documents[place]
        start = random.randint(self._documents[document], self._documents[document + 1])
        end = self._documents[document + 1]
        split = random.randint(1, room)
        middle = start + 1
        while middle < end and self._sentences[middle] - self._sentences[start] < split:
            middle += 1
        first = self._passage(start, middle)
        elsewhere = middle == end or random.random_sample() < 0.5
        if elsewhere:
            # any other document
            document = documents[(place + random.randint(1, len(documents))) % len(documents)]
            middle = random.randint(self._documents[document], self._documents[document + 1])
            end = self._documents[document + 1]
        second = self._passage(middle, end)[:room]
        first, second = truncate(first, second, room, random)
        pair = np.concatenate([[START], first, [SEPARATOR], second, [SEPARATOR]])
        return pair, len(first) + 2, elsewhere

    def _passage(self, start, end):
        """The tokens of sentences `start` to `end` - 1."""
        return self._tokens[self._sentences[start] : self._sentences[end]].astype(np.int32)


def truncate(first, second, room, random):
    """Cut the longer of both, at a random end, until they fit into `room` tokens together."""
    bounds = [[0, len(first)], [0, len(second)]]
    while True:
        lengths = [stop - start for start, stop in bounds]
        if sum(lengths) <= room:
            return first[slice(*bounds[0])], second[slice(*bounds[1])]
        longer = bounds[0] if lengths[0] > lengths[1] else bounds[1]
        if random.random_sample() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1


def hide(tokens, candidates, places, random, mask=MASK, words=(FIRST_WORD, VOCABULARY)):
    """Choose what is predicted, and hide it in `tokens`; returns the places and their true tokens.

    candidates: the places to choose from; places: at most so many; words: the first of the words
    that replace one, and the one behind the last.
    """
    wanted = min(places, max(1, int(round(PREDICTED * len(tokens)))))
    chosen = np.sort(random.permutation(candidates)[:wanted])
    labels = tokens[chosen]
    for place in chosen:
        dice = random.random_sample()
        if dice < 0.8:
            tokens[place] = mask
        elif dice < 0.9:
            tokens[place] = random.randint(*words)
    return chosen, labels


def decoded(data_dir, tokens):
    """The words of a row of tokens, for people."""
    with open(os.path.join(data_dir, "manifest.json"), encoding="utf-8") as stream:
        name = json.load(stream)["vocabulary"]
    with open(os.path.join(data_dir, name), encoding="utf-8") as stream:
        words = stream.read().split("\n")
    return " ".join(words[token] for token in tokens).replace(" ##", "")
