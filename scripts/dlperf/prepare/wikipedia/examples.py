"""Makes examples for BERT's pre-training from documents: pairs of passages with masked words.

The rules and the names of the fields are those of google-research/bert's
create_pretraining_data.py. An example depends on the seed, on its document and on the other
documents of the shard, as in half of all cases its second passage comes from one of these. It does
not depend on the number of processes, nor on which shards an earlier run left.
"""

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import SAMPLES, Digest, verify
from dlperf.loaders.text import (
    LONGEST,
    SHORT,
    SPECIAL,
    VOCABULARY,
    hide,
    predictions,
    truncate,
)
from dlperf.prepare import formats, shards
from dlperf.prepare.formats import npz

FORMATS = ("tfrecord", "ofrecord", "hdf5", "npz", "mindrecord")
SHORTEST = (
    16  # tokens that a sequence needs for three marks, two passages, and something to predict
)
FIELDS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)
# The first number after the seed makes the streams differ, also from those of data/*.py.
DOCUMENT, SHUFFLE = 20, 21
# How many documents (counted once for each duplicate) are in memory to shuffle their examples.
# Documents are shuffled within their shard first, so it need not be all of them.
SHUFFLED = 4096


class Document(NamedTuple):
    page: int
    tokens: np.ndarray
    starts: list[int]  # where the sentences start, and where the last one ends


class Marks(NamedTuple):
    """Their numbers in the vocabulary."""

    start: int
    separator: int
    mask: int


def make(
    out: Path,
    documents: Path,
    format: str,
    length: int,
    seed: int = 1,
    duplicates: int = 5,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Make shards and manifest of the examples, as many shards as there are of documents.

    Raises DataError if the documents' folder is incomplete, or as the format does.
    """
    if not SHORTEST <= length <= LONGEST:
        raise DataError(f"--sequence-length is {length}; it must be from {SHORTEST} to {LONGEST}")
    source = verify(str(documents / "manifest.json"))
    if source.get("dataset") != "wikipedia-documents":
        raise DataError(
            f"{documents}: has the data set {source.get('dataset')!r}, expected "
            "'wikipedia-documents'"
        )
    _, _, *marks = (source["vocabulary"]["special"][entry] for entry in SPECIAL)
    settings = {
        "dataset": f"wikipedia-seq{length}",
        "sequence_length": length,
        "predictions": predictions(length),
        "duplicates": duplicates,
        "seed": seed,
        "documents_sha256": source["sha256"],
        **{key: source[key] for key in ("dumps", "vocabulary", "language", "pages")},
        **{key: source[key] for key in ("documents", "sentences", "tokens")},
        "pages_skipped": source["skipped"],
    }
    names = [file["path"] for file in source["files"] if "samples" in file]
    write = functools.partial(
        write_shard, documents, names, format, length, seed, duplicates, Marks(*marks)
    )
    return shards.make(out, format, len(names), write, FIELDS, settings, jobs, progress)


def write_shard(
    folder: Path,
    names: list[str],
    format: str,
    length: int,
    seed: int,
    duplicates: int,
    marks: Marks,
    number: int,
    path: Path,
) -> dict[str, Any]:
    """One shard: facts for `shards.make`."""
    documents = load(folder / names[number])
    digest = Digest()

    def samples() -> Iterator[dict[str, Any]]:
        random = np.random.RandomState([seed, SHUFFLE, number])
        order = random.permutation(len(documents) * duplicates)
        for first in range(0, len(order), SHUFFLED):
            made = [
                example
                for place in order[first : first + SHUFFLED]
                for example in examples(
                    documents, *divmod(int(place), duplicates), length, seed, marks
                )
            ]
            for place in random.permutation(len(made)):
                digest.add(*(made[place][field] for field in FIELDS))
                yield made[place]

    formats.of(format).write(path, samples())
    facts = {"samples": digest.samples, SAMPLES: digest.hex()}
    return {**facts, "counts": {"examples": digest.samples}}


def load(path: Path) -> list[Document]:
    return [
        Document(each["page"], each["tokens"], [0, *each["sentences"].tolist()])
        for each in npz.read(path)
    ]


def examples(
    documents: list[Document], index: int, duplicate: int, length: int, seed: int, marks: Marks
) -> Iterator[dict[str, Any]]:
    """All examples of one document, for one of the times that it is used."""
    page, tokens, starts = documents[index]
    random = np.random.RandomState([seed, DOCUMENT, page, duplicate])
    room = length - 3  # [CLS] first [SEP] second [SEP]
    target = room
    if random.random_sample() < SHORT:
        target = random.randint(2, room + 1)
    sentence, sentences = 0, len(starts) - 1
    while sentence < sentences:
        end = until(starts, sentence, target)
        middle = sentence + 1
        if end > middle:
            middle = sentence + random.randint(1, end - sentence)
        first = tokens[starts[sentence] : starts[middle]]
        elsewhere = end == middle or random.random_sample() < 0.5
        if elsewhere:
            # from any other document; the remaining sentences of this one begin the next example
            other = documents[(index + random.randint(1, len(documents))) % len(documents)]
            begin = random.randint(0, len(other.starts) - 1)
            stop = until(other.starts, begin, target - len(first))
            second = other.tokens[other.starts[begin] : other.starts[stop]]
            sentence = middle
        else:
            second = tokens[starts[middle] : starts[end]]
            sentence = end
        yield example(*truncate(first, second, room, random), elsewhere, length, marks, random)


def until(starts: list[int], sentence: int, target: int) -> int:
    """The sentence after those (at least one) that have `target` tokens together."""
    end = bisect_left(starts, starts[sentence] + target, sentence + 1)
    return min(end, len(starts) - 1)


def example(
    first: np.ndarray,
    second: np.ndarray,
    elsewhere: bool,
    length: int,
    marks: Marks,
    random: np.random.RandomState,
) -> dict[str, Any]:
    """A pair of passages with its marks and some masked words, padded with zeros."""
    middle, count = len(first) + 1, len(first) + len(second) + 3
    pair = np.empty(count, np.int32)
    pair[0], pair[middle], pair[-1] = marks.start, marks.separator, marks.separator
    pair[1:middle], pair[middle + 1 : -1] = first, second
    candidates = np.concatenate([np.arange(1, middle), np.arange(middle + 1, count - 1)])
    places = predictions(length)
    chosen, labels = hide(pair, candidates, places, random, marks.mask, (0, VOCABULARY))
    return {
        "input_ids": padded(pair, length),
        "input_mask": padded(np.ones(count, np.int32), length),
        "segment_ids": padded(np.arange(count) > middle, length),
        "masked_lm_positions": padded(chosen, places),
        "masked_lm_ids": padded(labels, places),
        "masked_lm_weights": padded(np.ones(len(chosen), np.float32), places),
        "next_sentence_labels": int(elsewhere),
    }


def padded(values: np.ndarray, length: int) -> np.ndarray:
    """The values, padded with zeros; as int32, unless they are float32."""
    filled = np.zeros(length, np.float32 if values.dtype.kind == "f" else np.int32)
    filled[: len(values)] = values
    return filled
