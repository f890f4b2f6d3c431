"""Makes documents from a dump: the tokens of each article, and where its sentences end.

They are made once for all formats. A shard is an NPZ file of a section of the dump. Each document
is a sample with `page` (its number in Wikipedia), `tokens` (uint16) and `sentences` (the number of
tokens up to the end of each sentence).
"""

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dlperf.loaders import DataError
from dlperf.loaders.manifest import SAMPLES, Digest, sha256_of_file, verify
from dlperf.loaders.text import SPECIAL
from dlperf.prepare import formats, shards, wordpiece
from dlperf.prepare.wikipedia import clean, dump
from dlperf.prepare.wikipedia.dump import Article, Part

FORMAT = "npz"
FIELDS = ("page", "tokens", "sentences")


def make(
    out: Path,
    dumps: list[Path],
    vocabulary: Path,
    count: int,
    jobs: int = 1,
    language: str = "en",
    largest: int = dump.LARGEST,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Make shards and manifest of the documents, unless the same set exists already.

    Raises DataError if a dump or the vocabulary is wrong, or an existing set is incomplete.
    """
    words = wordpiece.load(vocabulary)
    scanned = [dump.scan(path) for path in dumps]
    for number, one in enumerate(scanned):
        if one.sha256 in [other.sha256 for other in scanned[:number]]:
            raise DataError(f"--dump {one.path}: given twice")
    settings = {
        "dataset": "wikipedia-documents",
        "dumps": [
            {"name": one.path.name, "bytes": one.bytes, "sha256": one.sha256} for one in scanned
        ],
        "vocabulary": {
            "sha256": sha256_of_file(vocabulary),
            "special": {entry: words.token_to_id(entry) for entry in SPECIAL},
        },
        "language": language,
        "largest": largest,
        "made_with": {name: version(name) for name in ("wikiextractor", "sentencex", "tokenizers")},
    }
    if made_of({**settings, "shards": count}, out / "manifest.json"):
        return verify(str(out / "manifest.json"))
    shares = dump.divide(scanned, count)
    write = functools.partial(write_shard, shares, vocabulary, language, largest)
    return shards.make(out, FORMAT, count, write, FIELDS, settings, jobs, progress)


def made_of(settings: dict[str, Any], manifest_path: Path) -> bool:
    try:
        there = json.loads(manifest_path.read_text(encoding="utf-8"))
        return all(there[key] == value for key, value in settings.items())
    except (FileNotFoundError, ValueError, KeyError):
        return False


def write_shard(
    shares: list[list[Part]],
    vocabulary: Path,
    language: str,
    largest: int,
    number: int,
    path: Path,
) -> dict[str, Any]:
    """One shard: facts for `shards.make`."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each shard already has a process
    words = wordpiece.load(vocabulary)
    digest = Digest()
    skipped: Counter[str] = Counter()
    counts: Counter[str] = Counter(documents=0, sentences=0, tokens=0)

    def samples() -> Iterator[dict[str, Any]]:
        for part in shares[number]:
            for article in dump.articles(part, largest, skipped):
                document = tokenised(article, words, language, skipped)
                if document:
                    counts["documents"] += 1
                    counts["sentences"] += len(document["sentences"])
                    counts["tokens"] += len(document["tokens"])
                    digest.add(*(document[field] for field in FIELDS))
                    yield document

    formats.of(FORMAT).write(path, samples())
    if counts["documents"] < 2:
        raise DataError(
            f"{path.name}: {counts['documents']} documents with prose are too few, as "
            "second passages come from other documents of the shard: ask for fewer --shards"
        )
    counts["pages"] = counts["documents"] + sum(skipped.values())
    facts = {"samples": digest.samples, SAMPLES: digest.hex()}
    return {**facts, "counts": dict(counts), "skipped": dict(skipped)}


def tokenised(
    article: Article, words: Tokenizer, language: str, skipped: Counter[str]
) -> dict[str, Any] | None:
    try:
        sentences = clean.sentences(article.text, language)
    except clean.TooHard:
        skipped["too hard to clean"] += 1
        return None
    encoded = words.encode_batch_fast(sentences, add_special_tokens=False)
    ids = [each.ids for each in encoded if each.ids]
    if not ids:
        skipped["no prose"] += 1
        return None
    return {
        "page": article.page,
        "tokens": np.concatenate([np.array(each, np.uint16) for each in ids]),
        "sentences": np.cumsum([len(each) for each in ids]).astype(np.int32),
    }
