"""Sequences of tokens for language models, from a corpus on disk, the same for every framework.

The input is a folder with `tokens.bin` in one of two forms: Megatron-LM's, whose `tokens.idx` says
the type and where sequences and documents begin, or nanoGPT's, flat uint16 without an index.
Documents follow one another with an end token between them. The output is batches of sequences
with one token more than the model reads. Sample i of a run depends on the seed and on i alone, so
2 ranks of 8 together see the same batch as 1 rank of 16. The file is mapped, not loaded, so memory
does not grow with it.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import os
import struct
from typing import NamedTuple, Optional

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import read, sha256_of_arrays, sha256_of_file
from dlperf.loaders.prefetch import Prefetched, share

FILE = "tokens.bin"

# Megatron-LM's index (megatron/core/datasets/indexed_dataset.py): the header; then the length of
# each sequence (int32), its first byte in the .bin (int64), and the sequence that each document
# begins with, closed by the number of sequences (int64).
MAGIC, VERSION = b"MMIDIDX\0\0", 1
HEADER = struct.Struct("<9sQBQQ")  # magic, version, code of the type, sequences, documents
TYPES = {8: np.dtype("<u2"), 4: np.dtype("<i4")}
FLAT = np.dtype("<u2")  # of a file without an index

HELD_OUT = 20  # the last of so many parts of the tokens is to test with
# The first number after the seed keeps the stream apart, also from those of other loaders.
SAMPLE = 41
CHUNK = 1 << 24  # tokens that a check of a whole file holds at once

AGAIN = "write both again with Megatron-LM's tools/preprocess_data.py"


class Index(NamedTuple):
    """Megatron-LM's index, mapped: lengths and offsets of sequences, documents' first sequences."""

    type: np.dtype
    lengths: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray


class TokenFile(NamedTuple):
    """The tokens of a file, mapped, and its index if it has one."""

    path: str
    tokens: np.ndarray
    index: Optional[Index]


def index_path(path):
    """The path of the index that belongs to a .bin file."""
    return os.path.splitext(path)[0] + ".idx"


def mapped(path):
    """Return the TokenFile of a .bin file, without reading its tokens.

    Raises DataError if there is no such file, if it is not a whole number of tokens, or if its
    index is of another form or contradicts its size.
    """
    if not os.path.isfile(path):
        raise DataError(
            "%s: no such file; it holds token ids, in Megatron-LM's form (.bin and .idx) or as "
            "flat uint16: name the file that has them" % path
        )
    index = read_index(index_path(path)) if os.path.isfile(index_path(path)) else None
    size = os.path.getsize(path)
    if index is not None:
        check_size(path, size, index)
    kind = index.type if index else FLAT
    if size % kind.itemsize:
        raise DataError(
            "%s: has %d bytes, which is no multiple of the %d of a token (%s); it is cut short, or "
            "of another type: write it again as flat uint16, or with an index (.idx)"
            % (path, size, kind.itemsize, kind.name)
        )
    # an empty file cannot be mapped
    tokens = np.memmap(path, kind, "r") if size else np.zeros(0, kind)
    return TokenFile(path, tokens, index)


def read_index(path):
    """Map Megatron-LM's index. Raises DataError if it is of another form, or cut short."""
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        header = stream.read(HEADER.size)
    if len(header) < HEADER.size or not header.startswith(MAGIC):
        raise DataError(
            "%s: begins with %r; an index of Megatron-LM begins with %r: %s, or remove the index "
            "if the .bin is flat uint16" % (path, header[: len(MAGIC)], MAGIC, AGAIN)
        )
    _, version, code, sequences, documents = HEADER.unpack(header)
    if version != VERSION:
        raise DataError(
            "%s: is of version %d; version %d is needed: %s" % (path, version, VERSION, AGAIN)
        )
    if code not in TYPES:
        known = ", ".join("%d (%s)" % (each, kind.name) for each, kind in TYPES.items())
        raise DataError(
            "%s: has the type code %d; the types of token ids are %s: %s"
            % (path, code, known, AGAIN)
        )
    needed = HEADER.size + 12 * sequences + 8 * documents
    if size != needed:
        raise DataError(
            "%s: has %d bytes; %d are needed for the %d sequences and %d documents that it names: "
            "%s" % (path, size, needed, sequences, documents, AGAIN)
        )

    def array(kind, place, count):
        if not count:
            return np.zeros(0, kind)
        return np.memmap(path, kind, "r", place, (count,))

    offsets = HEADER.size + 4 * sequences
    return Index(
        TYPES[code],
        array("<i4", HEADER.size, sequences),
        array("<i8", offsets, sequences),
        array("<i8", offsets + 8 * sequences, documents),
    )


def check_size(path, size, index):
    """Raise DataError if a .bin file does not end where the last sequence of its index does."""
    end = 0
    if len(index.lengths):
        end = int(index.offsets[-1]) + int(index.lengths[-1]) * index.type.itemsize
    if size != end:
        raise DataError(
            "%s: has %d bytes; %s says %d: one of the two is cut short or of another corpus: %s"
            % (path, size, index_path(path), end, AGAIN)
        )


def check_whole(file, vocabulary):
    """Check every token and all of the index; return the largest token.

    Raises DataError if a token is not below `vocabulary`, or if the sequences of the index do not
    follow one another without gaps.
    """
    if file.index is not None:
        ends = np.cumsum(file.index.lengths, dtype=np.int64) * file.index.type.itemsize
        starts = np.append(np.int64(0), ends)
        wrong = np.flatnonzero(starts[:-1] != file.index.offsets)
        if len(wrong) or (file.index.lengths < 0).any():
            first = int(wrong[0]) if len(wrong) else int(np.argmax(file.index.lengths < 0))
            raise DataError(
                "%s: sequence %d has %d tokens and begins at byte %d; the sequences before it end "
                "at byte %d, where it has to begin: %s"
                % (
                    index_path(file.path),
                    first,
                    file.index.lengths[first],
                    file.index.offsets[first],
                    starts[first],
                    AGAIN,
                )
            )
        documents = file.index.documents
        count = len(file.index.lengths)
        bounds = [int(documents[0]), int(documents[-1])] if len(documents) else []
        if bounds != [0, count] or (np.diff(documents) < 0).any():
            raise DataError(
                "%s: its documents do not begin with sequence 0 and end with the last of %d, in "
                "order: %s" % (index_path(file.path), count, AGAIN)
            )
    largest = 0
    for start in range(0, len(file.tokens), CHUNK):
        tokens = file.tokens[start : start + CHUNK]
        check_below(file.path, tokens, start, vocabulary)
        largest = max(largest, int(tokens.max()))
    return largest


def check_below(path, tokens, start, vocabulary):
    """Raise DataError if one of these tokens, which stand at `start`, is not in the vocabulary."""
    if len(tokens) and (tokens.max() >= vocabulary or tokens.min() < 0):
        place = int(np.argmax((tokens >= vocabulary) | (tokens < 0)))
        raise DataError(
            "%s: token %d is %d; ids of 0 to %d are needed, as the vocabulary has %d entries: "
            "write the corpus again with a tokenizer that fits"
            % (path, start + place, tokens[place], vocabulary - 1, vocabulary)
        )


class Tokens(Prefetched):
    """Sequences drawn from a corpus, ahead of time, by one background thread.

    A subclass has `_batch(sequences)`, the workload's batch of an int32 array (batch,
    sequence_length + 1), and `_noise()`, the next synthetic batch. batch_bytes: the size of a
    batch. vocabulary: the number of the model's entries. tests: how many sequences there are to
    test with. Raises DataError if the folder's manifest or a file of it is missing or of another
    size or form, if a token is not in the vocabulary, or if there are too few of them.
    """

    def __init__(self, input, vocabulary, batch_bytes, prefetch=None, tests=0):
        data_dir = input.data_dir
        manifest_path = os.path.join(data_dir, "manifest.json") if data_dir else ""
        manifest = read(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._path = os.path.join(data_dir, FILE)
        largest = manifest.get("largest_token", 0)
        if largest >= vocabulary:
            raise DataError(
                "%s: has the token %d; the model's vocabulary has %d entries: take a corpus of a "
                "smaller one" % (manifest_path, largest, vocabulary)
            )
        self._tokens = mapped(self._path).tokens
        self._input, self._vocabulary = input, vocabulary
        self._length = input.dimensions["sequence_length"] + 1
        self._tests = tests if input.held_out else 0
        # with a test set, the last part is held out, and no sequence reaches into it
        whole = len(self._tokens)
        self._trained = whole - whole // HELD_OUT if input.held_out else whole
        self._check_enough(self._trained, "to train on" if input.held_out else "")
        if self._tests:
            self._check_enough(whole - self._trained, "to test with (the last 5 %)")
        super().__init__(batch_bytes, input.batches, prefetch, input.warmup)

    def _check_enough(self, count, purpose):
        if count < self._length:
            raise DataError(
                "%s: has %d tokens%s; a sample takes %d (sequence_length + 1): ask for a shorter "
                "sequence_length, or take a larger corpus"
                % (self._path, count, purpose and " " + purpose, self._length)
            )

    def _digest(self, batch):
        return sha256_of_arrays(batch)

    def tests(self):
        """[(a batch, how many of its samples count)]: this part's share of what is held out.

        They are spread evenly, the same for every seed.
        """
        room = len(self._tokens) - self._trained - self._length
        last = max(1, self._tests - 1)
        return [
            (self._read([self._trained + int(place) * room // last for place in places]), count)
            for places, count in share(self._input, self._tests)
        ]

    def _batches(self):
        size, seed = self._input.batch_size, self._input.seed
        starts = self._trained - self._length + 1  # so many places a sequence can begin at
        for step in itertools.count():
            first = (step * self._input.parts + self._input.part) * size
            yield self._read(
                [
                    np.random.RandomState([seed, SAMPLE, sample]).randint(starts, dtype=np.int64)
                    for sample in range(first, first + size)
                ]
            )

    def _read(self, starts):
        """The batch of the sequences that begin at these tokens."""
        sequences = np.empty((len(starts), self._length), np.int32)
        for row, start in enumerate(starts):
            sequences[row] = self._tokens[start : start + self._length]
            check_below(self._path, sequences[row], start, self._vocabulary)
        return self._batch(sequences)
