"""Batches of questions on paragraphs, cut into windows, the same for every framework.

In: a folder that prepare/questions.py made, and a case. Out: `Batch`es. A window is [CLS], a
question, [SEP], a piece of its paragraph, [SEP]. A paragraph that is longer than the room behind
the question has several windows, which overlap; one that has not the whole answer says that there
is none. A piece that is tested is judged by the workload's answers.py, which `known` gives the
texts.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import functools
import itertools
import json
import os
from typing import NamedTuple

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import sha256_of_arrays, sha256_of_file, verify
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import Prefetched, check
from dlperf.loaders.text import FIRST_WORD, SEPARATOR, START
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.answers import Known

# The first number after the seed keeps the streams apart, also from those of the other loaders.
NOISE, ORDER = 30, 31


class Batch(NamedTuple):
    """Arrays of a batch of windows; int32, but for `allowed` and `impossible`, which are float32.

    tokens, segments, mask, allowed: (batch, tokens). segments is 1 in the piece of the paragraph
    and the [SEP] behind it; mask is 1 where there is a token; allowed is 1 where an answer may
    begin or end: in the piece, and at [CLS], which stands for none. starts, ends: (batch,): the
    places that the answer begins and ends at, 0 where there is none. impossible: (batch,), 1 where
    there is none. windows: (batch,), the number of each window.
    """

    tokens: np.ndarray
    segments: np.ndarray
    mask: np.ndarray
    allowed: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    impossible: np.ndarray
    windows: np.ndarray


def empty(batch_size, sequence_length):
    wide = (batch_size, sequence_length)
    return Batch(
        *(np.zeros(wide, np.int32) for _ in range(3)),
        np.zeros(wide, np.float32),
        *(np.zeros(batch_size, np.int32) for _ in range(2)),
        np.zeros(batch_size, np.float32),
        np.zeros(batch_size, np.int32),
    )


def open_batches(input, layout="", prefetch=None):
    """The batches of one reader (a contract.run.Input); `.next()` returns a Batch.

    Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    return synthetic(input) if input.data == "synthetic" else Squad(input, prefetch)


def synthetic(input):
    """Random tokens, no padding."""
    return Pool(input, NOISE, functools.partial(noise, input), sha256_of_arrays)


def noise(input, random):
    """The next synthetic batch: full windows, a third of them without an answer."""
    length = input.dimensions["sequence_length"]
    batch = empty(input.batch_size, length)
    batch.tokens[...] = random.randint(FIRST_WORD, facts.VOCABULARY, batch.tokens.shape)
    for row in range(input.batch_size):
        asked = random.randint(1, facts.question_tokens(length) + 1)
        answer = np.sort(random.randint(asked + 2, length - 1, 2))
        if random.random_sample() < 1 / 3:
            answer = (0, 0)
        fill(batch, row, asked, length - asked - 3, answer)
    return batch


def fill(batch, row, asked, count, answer):
    """All of a row but its words: a question of so many tokens, and a piece of `count`."""
    place = asked + 2
    end = place + count
    batch.tokens[row, 0] = START
    batch.tokens[row, [place - 1, end]] = SEPARATOR
    batch.segments[row, place : end + 1] = 1
    batch.mask[row, : end + 1] = 1
    batch.allowed[row, place:end] = 1
    batch.allowed[row, 0] = 1
    batch.starts[row], batch.ends[row] = answer
    batch.impossible[row] = answer[0] == 0


class Questions:
    """The questions of a folder's file, cut into windows of a length."""

    def __init__(self, path, sequence_length):
        with np.load(path) as arrays:
            self.arrays = {name: arrays[name] for name in arrays.files}
        self._length = sequence_length
        self.table = windows(self.arrays, sequence_length)

    def batch(self, numbers):
        """The Batch of the windows of these numbers."""
        found, arrays = empty(len(numbers), self._length), self.arrays
        for row, number in enumerate(numbers):
            question, begin, count, place = self.table[number]
            asked = arrays["questions"][question]
            first = arrays["paragraphs"][arrays["paragraph_of"][question]] + begin
            length = place - 2
            found.tokens[row, 1 : place - 1] = arrays["question_tokens"][asked : asked + length]
            piece = arrays["paragraph_tokens"][first : first + count]
            found.tokens[row, place : place + count] = piece
            start, end = (arrays[name][question] - begin for name in ("first", "last"))
            inside = arrays["first"][question] >= 0 and start >= 0 and end < count
            fill(found, row, length, count, (place + start, place + end) if inside else (0, 0))
            found.windows[row] = number
        return found


def windows(arrays, sequence_length):
    """A row a window: question, first token of its piece, tokens of that, its place in the window.

    Windows of a paragraph begin `facts.stride` apart, until one reaches its end.
    """
    asked = np.minimum(np.diff(arrays["questions"]), facts.question_tokens(sequence_length))
    lengths = np.diff(arrays["paragraphs"])[arrays["paragraph_of"]]
    rows = []
    for question, (own, length) in enumerate(zip(asked.tolist(), lengths.tolist())):
        room = sequence_length - own - 3
        begin, step = 0, facts.stride(room)
        while True:
            rows.append((question, begin, min(room, length - begin), own + 2))
            if begin + room >= length:
                break
            begin += step
    return np.array(rows, np.int32)


class Squad(Prefetched):
    """Windows to train on, shuffled each epoch; what fills no global batch at its end is left out.

    Raises DataError where the folder's manifest or a file of it is missing or differs, and where
    there are fewer windows than a global batch takes.
    """

    def __init__(self, input, prefetch=None):
        manifest_path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        manifest = verify(manifest_path)
        if manifest.get("dataset") != "questions":
            raise DataError(
                f"{manifest_path}: has the data set {manifest.get('dataset')!r}, not 'questions', "
                "which python -m dlperf.prepare.questions makes"
            )
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self.parity = dict(self.parity, initial_weights=started_from(manifest))
        self._input, self._length = input, input.dimensions["sequence_length"]
        self._questions = Questions(os.path.join(input.data_dir, "train.npz"), self._length)
        self._whole = input.parts * input.batch_size
        count = len(self._questions.table)
        if count < self._whole:
            raise DataError(
                f"{manifest_path} has {count} windows to train on, fewer than the {self._whole} of "
                f"one global batch ({input.parts} ranks x batch size {input.batch_size}): ask for "
                "a smaller batch size"
            )
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        self._tested = None
        size = sum(each.nbytes for each in empty(input.batch_size, self._length))
        super().__init__(size, input.batches, prefetch, input.warmup)

    def _test_questions(self):
        if self._tested is None:
            self._tested = Questions(os.path.join(self._input.data_dir, "test.npz"), self._length)
        return self._tested

    def tests(self):
        """Pairs of a batch and how many of its windows count: all windows to test with.

        They are part 0's alone: a question's windows are judged together. Others have none.
        """
        return Tests(self._test_questions(), self._input.batch_size) if not self._input.part else []

    def known(self):
        """What the tests' batches are of: (a Known,)."""
        with open(os.path.join(self._input.data_dir, "answers.json"), encoding="utf-8") as stream:
            answers = json.load(stream)
        arrays = self._test_questions().arrays
        return (
            Known(
                self._test_questions().table,
                arrays["paragraphs"],
                arrays["offsets"],
                arrays["paragraph_of"],
                answers["contexts"],
                answers["answers"],
            ),
        )

    def _noise(self):
        return noise(self._input, self._noises)

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def _batches(self):
        size = self._input.batch_size
        for epoch in itertools.count():
            random = np.random.RandomState([self._input.seed, ORDER, epoch])
            order = random.permutation(len(self._questions.table))
            for start in range(0, len(order) - self._whole + 1, self._whole):
                yield self._questions.batch(order[start + self._input.part * size :][:size])


class Tests:
    """Batches of all windows in their order, made when they are asked for.

    The last one is filled up with its first window, so that all have one shape.
    """

    def __init__(self, questions, size):
        self._questions, self._size = questions, size

    def __len__(self):
        return -(-len(self._questions.table) // self._size)

    def __iter__(self):
        count = len(self._questions.table)
        for start in range(0, count, self._size):
            own = np.arange(start, min(start + self._size, count))
            filled = np.append(own, np.repeat(own[:1], self._size - len(own)))
            yield self._questions.batch(filled), len(own)


def started_from(manifest):
    """What the parity sheet says of the weights that training starts from."""
    weights = manifest.get("weights")
    return "released, sha256 %s" % weights["sha256"] if weights else "random, from the seed"
