"""Make the sample corpus of a language model: English prose as byte-level BPE tokens, no download.

The input is the prose of prepare/prose.py; a chapter is a document. The output is a vocabulary of
2,048 entries learned from it, as GPT-2 keeps one (bytes, merges, and last the end token), the
tokens in Megatron-LM's form, an end token after each document, and the manifest, which is written
last. The same pinned libraries give the same bytes.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.token_files import FILE, HEADER, MAGIC, TYPES, VERSION, index_path
from dlperf.prepare import manifest
from dlperf.prepare.prose import SOURCE, documents

VOCABULARY = 2048
END = "<|endoftext|>"  # between documents, as in GPT-2
SMALLEST = 8  # Megatron-LM's code of uint16


def tokenizer(model: models.Model) -> Tokenizer:
    """A tokenizer of bytes, split into words as GPT-2 splits them."""
    made = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def learn(texts: list[str]) -> tuple[Tokenizer, dict[str, int], list[tuple[str, str]]]:
    """A tokenizer of these texts, its entries with their ids, END the last, and its merges."""
    learner = tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    entries = sorted(model["vocab"], key=model["vocab"].__getitem__)
    numbered = {entry: number for number, entry in enumerate([*entries, END])}
    return learner, numbered, [(first, second) for first, second in model["merges"]]


def index(lengths: Sequence[int], code: int = SMALLEST) -> bytes:
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


def make(out: Path) -> dict:
    """Write vocabulary and tokens, and then manifest.json in one step; return the manifest."""
    manifest.begin(out)

    texts = [" ".join(verses) for verses in documents()]
    bpe, entries, merges = learn(texts)
    if len(entries) != VOCABULARY:
        raise DataError(f"the prose gives {len(entries)} entries; {VOCABULARY} are needed")
    end = entries[END]
    encoded = [[*each.ids, end] for each in bpe.encode_batch(texts)]
    tokens = np.fromiter(itertools.chain(*encoded), TYPES[SMALLEST])
    contents = {
        FILE: tokens.tobytes(),
        index_path(FILE): index([len(each) for each in encoded]),
        "vocabulary.json": (json.dumps(entries, indent=0, ensure_ascii=False) + "\n").encode(),
        "merges.txt": "".join(
            ["#version: 0.2\n", *(f"{first} {second}\n" for first, second in merges)]
        ).encode(),
    }
    for name, content in contents.items():
        (out / name).write_bytes(content)
    return manifest.finish(
        out,
        "prose-tokens",
        manifest.listed(out, contents),
        documents=len(texts),
        tokens=len(tokens),
        largest_token=int(tokens.max()),
        vocabulary="vocabulary.json",
        vocabulary_size=len(entries),
        end_token=end,
        made_with={"tokenizers": version("tokenizers")},
        sources=[{**SOURCE, "version": version(SOURCE["package"])}],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.prose_tokens",
        description="Make the sample corpus of a language model, of English prose.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/data/prose-tokens"), help="folder"
    )
    asked = parser.parse_args(arguments)
    try:
        made = make(asked.out)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['tokens']} tokens in {made['documents']} documents, "
        f"{made['vocabulary_size']} entries, sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
