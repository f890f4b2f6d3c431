"""Byte-level BPE of GPT-2's kind (Radford et al. 2019, section 2.2); corpora of it.

In: documents as text. Out: in Megatron-LM's form tokens.bin, the ids end to end with an end token
behind each document, and tokens.idx, which says where documents begin.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from dlperf.loaders import DataError
from dlperf.loaders.token_files import FILE, HEADER, MAGIC, TYPES, VERSION, index_path

END = "<|endoftext|>"  # between documents, as in GPT-2
#: Megatron-LM's codes of types: of vocabularies below 65,500 entries, and of larger ones.
UINT16, INT32 = 8, 4
MOST_UINT16 = 65_500
TOGETHER = 1000  # documents that are encoded at a time, by all cores


@dataclass(frozen=True)
class Vocabulary:
    """Entries with their ids, END among them, and the merges that make them, in their order."""

    entries: dict[str, int]
    merges: list[tuple[str, str]]

    def __post_init__(self) -> None:
        if END not in self.entries:
            raise DataError(f"a vocabulary without {END}, which closes documents")
        if sorted(self.entries.values()) != list(range(len(self.entries))):
            raise DataError(f"{len(self.entries)} entries are not numbered from 0 on without gaps")
        bytes_missing = set(pre_tokenizers.ByteLevel.alphabet()) - self.entries.keys()
        if bytes_missing:
            raise DataError(f"{len(bytes_missing)} of 256 bytes are no entries: not byte-level BPE")

    @property
    def code(self) -> int:
        """Megatron-LM's code of the type that its ids are written in."""
        return UINT16 if len(self.entries) < MOST_UINT16 else INT32


def tokenizer(model: models.Model) -> Tokenizer:
    """A tokenizer of bytes, split into words as GPT-2 splits them."""
    made = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def encoded(texts: Iterable[str], vocabulary: Vocabulary) -> Iterator[list[int]]:
    """The ids of each document, END last."""
    bpe = tokenizer(models.BPE(vocabulary.entries, vocabulary.merges))
    end = vocabulary.entries[END]
    left = iter(texts)
    while some := list(itertools.islice(left, TOGETHER)):
        for each in bpe.encode_batch(some, add_special_tokens=False):
            yield [*each.ids, end]


@dataclass(frozen=True)
class Written:
    """What a corpus has."""

    files: tuple[str, ...]
    documents: int
    tokens: int
    largest: int


def write(out: Path, texts: Iterable[str], vocabulary: Vocabulary) -> Written:
    """Write tokens.bin, and then tokens.idx. Raises DataError where there is no document."""
    lengths, largest = list[int](), 0
    with (out / FILE).open("wb") as stream:
        for ids in encoded(texts, vocabulary):
            stream.write(np.asarray(ids, TYPES[vocabulary.code]).tobytes())
            lengths.append(len(ids))
            largest = max(largest, *ids)
    if not lengths:
        raise DataError("there is no document; at least one is needed")
    (out / index_path(FILE)).write_bytes(index(lengths, vocabulary.code))
    return Written((FILE, index_path(FILE)), len(lengths), sum(lengths), largest)


def index(lengths: Sequence[int], code: int = UINT16) -> bytes:
    """Megatron-LM's index of a corpus in which each document is one sequence."""
    ends = np.cumsum(lengths, dtype=np.int64) * TYPES[code].itemsize
    return b"".join(
        (
            HEADER.pack(MAGIC, VERSION, code, len(lengths), len(lengths) + 1),
            np.asarray(lengths, "<i4").tobytes(),
            np.append(0, ends[:-1]).astype("<i8").tobytes(),
            np.arange(len(lengths) + 1, dtype="<i8").tobytes(),
        )
    )
