"""Make the sample corpus of a language model: English prose as byte-level BPE tokens, no download.

The input is the prose of prepare/prose.py; a chapter is a document. The output is a vocabulary of
2,048 entries learned from it, as GPT-2 keeps one (bytes, merges, and last the end token), the
tokens in Megatron-LM's form, an end token after each document, and the manifest, which is written
last. The same pinned libraries give the same bytes.
"""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

from tokenizers import models, pre_tokenizers, trainers

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.prepare import bpe, manifest
from dlperf.prepare.bpe import END, Vocabulary
from dlperf.prepare.prose import SOURCE, documents

VOCABULARY = 2048


def learn(texts: list[str]) -> Vocabulary:
    """The vocabulary of these texts, END its last entry."""
    learner = bpe.tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    entries = sorted(model["vocab"], key=model["vocab"].__getitem__)
    numbered = {entry: number for number, entry in enumerate([*entries, END])}
    return Vocabulary(numbered, [(first, second) for first, second in model["merges"]])


def make(out: Path) -> dict:
    """Write vocabulary and tokens, and then manifest.json in one step; return the manifest."""
    manifest.begin(out)

    texts = [" ".join(verses) for verses in documents()]
    vocabulary = learn(texts)
    entries = vocabulary.entries
    if len(entries) != VOCABULARY:
        raise DataError(f"the prose gives {len(entries)} entries; {VOCABULARY} are needed")
    corpus = bpe.write(out, texts, vocabulary)
    contents = {
        "vocabulary.json": json.dumps(entries, indent=0, ensure_ascii=False) + "\n",
        "merges.txt": "".join(
            ["#version: 0.2\n", *(f"{first} {second}\n" for first, second in vocabulary.merges)]
        ),
    }
    for name, content in contents.items():
        (out / name).write_bytes(content.encode())
    return manifest.finish(
        out,
        "prose-tokens",
        manifest.listed(out, [*corpus.files, *contents]),
        documents=corpus.documents,
        tokens=corpus.tokens,
        largest_token=corpus.largest,
        vocabulary="vocabulary.json",
        vocabulary_size=len(entries),
        end_token=entries[END],
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
