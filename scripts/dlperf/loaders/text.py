"""Passages of text for pre-training, from a corpus on disk, the same for every framework.

In: the tokens of a corpus (prepare/prose.py makes them) and a run's Input. Out: batches of a
workload's own form, which it draws from pairs of passages. Example i of a run depends on the seed
and on i alone, so 2 ranks of 8 together see the same batch as 1 rank of 16. The rules are those of
google-research/bert's create_pretraining_data.py: pairs of passages, the second in half of all
cases from another document; 15 % of the tokens predicted, of which 80 % are masked, 10 % replaced
and 10 % left.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import json
import os

import numpy as np

from dlperf.loaders.manifest import sha256_of_arrays, sha256_of_file, verify
from dlperf.loaders.prefetch import Prefetched, share

# The special tokens, which come before the words in the vocabulary.
PADDING, UNKNOWN, START, SEPARATOR, MASK, FIRST_WORD = range(6)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 30522  # entries of BERT's, without upper case
LONGEST = 512  # tokens of a sequence that BERT has positions for

PREDICTED = 0.15  # share of the tokens
SHORT = 0.1  # share of the examples that are given a random, shorter length
# The first number after the seed keeps the streams apart, also from those of other loaders.
EXAMPLE, TEST = 10, 13
EVERY = 10  # of so many documents the last one is held out to test with
TEST_SEED = 1  # the same tests for every seed of a run


def predictions(sequence_length):
    """The most positions of a sequence that BERT predicts: 20 of 128, 80 of 512."""
    return sequence_length * 5 // 32


class Prose(Prefetched):
    """Examples drawn from a corpus, ahead of time, by one background thread.

    A subclass has `_empty()`, a batch of zeros; `_example(random, documents, batch, row)`, which
    draws an example from these documents into a row of it; and `_noise()`, the next synthetic
    batch. tests: how many examples there are to test with. Raises DataError where the folder's
    manifest or a file of it is missing or differs.
    """

    def __init__(self, input, prefetch=None, tests=0):
        data_dir = input.data_dir
        manifest_path = os.path.join(data_dir, "manifest.json") if data_dir else ""
        verify(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._tokens, self._sentences, self._documents = (
            np.load(os.path.join(data_dir, name + ".npy"))
            for name in ("tokens", "sentences", "documents")
        )
        self._input, self._length = input, input.dimensions["sequence_length"]
        self._tests = tests
        everything = np.arange(len(self._documents) - 1)
        held_out = everything % EVERY == EVERY - 1 if input.held_out else everything < 0
        self._own, self._held_out = everything[~held_out], everything[held_out]
        size = sum(each.nbytes for each in self._empty())
        super().__init__(size, input.batches, prefetch, input.warmup)

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def tests(self):
        """[(a batch, how many of its samples count)]: this part's share of what is held out."""
        found = []
        for places, own in share(self._input, self._tests):
            batch = self._empty()
            for row, place in enumerate(places):
                random = np.random.RandomState([TEST_SEED, TEST, place])
                self._example(random, self._held_out, batch, row)
            found.append((batch, own))
        return found

    def _batches(self):
        size, seed = self._input.batch_size, self._input.seed
        for step in itertools.count():
            first = (step * self._input.parts + self._input.part) * size
            batch = self._empty()
            for row in range(size):
                random = np.random.RandomState([seed, EXAMPLE, first + row])
                self._example(random, self._own, batch, row)
            yield batch

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
