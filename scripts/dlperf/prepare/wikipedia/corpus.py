"""Joins documents into one corpus, of which ELECTRA draws its passages as of the sample's prose.

In: the shards of documents.py. Out: a folder of prepare/prose.py's form: tokens.npy (uint16), and
sentences.npy and documents.npy (int64), where each begins, and where the last one ends.

The special tokens have the numbers that loaders/text.py names, which are the first ones: each has
changed places with what the vocabulary has there, in BERT's an entry that no text has.
"""

from pathlib import Path
from typing import Any

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import verify
from dlperf.loaders.text import SPECIAL, VOCABULARY
from dlperf.prepare import manifest
from dlperf.prepare.formats import npz

NAMES = ("tokens.npy", "sentences.npy", "documents.npy")


def make(out: Path, folder: Path) -> dict[str, Any]:
    """Write the corpus of a folder of documents; its manifest. One that is there already stays.

    Raises DataError if the documents are incomplete.
    """
    source = verify(str(folder / "manifest.json"))
    if source.get("dataset") != "wikipedia-documents":
        found = f"has the data set {source.get('dataset')!r}, expected 'wikipedia-documents'"
        raise DataError(f"{folder}: {found}")
    if (out / "manifest.json").exists():
        there = verify(str(out / "manifest.json"))
        if there.get("documents_sha256") == source["sha256"]:
            return there
    manifest.begin(out)
    numbers = renumbered(source["vocabulary"]["special"])
    tokens = np.lib.format.open_memmap(out / NAMES[0], "w+", np.uint16, (source["tokens"],))
    sentences = np.zeros(source["sentences"] + 1, np.int64)
    documents = np.zeros(source["documents"] + 1, np.int64)
    document = sentence = token = 0
    for shard in (file["path"] for file in source["files"] if "samples" in file):
        for each in npz.read(folder / shard):
            ends = token + each["sentences"].astype(np.int64)
            sentences[sentence + 1 : sentence + 1 + len(ends)] = ends
            tokens[token : ends[-1]] = numbers[each["tokens"]]
            document, sentence, token = document + 1, sentence + len(ends), int(ends[-1])
            documents[document] = sentence
    tokens.flush()
    for name, starts in zip(NAMES[1:], (sentences, documents), strict=True):
        np.save(out / name, starts)
    return manifest.finish(
        out,
        "wikipedia-corpus",
        manifest.listed(out, NAMES),
        documents_sha256=source["sha256"],
        **{key: source[key] for key in ("documents", "sentences", "tokens")},
        **{key: source[key] for key in ("dumps", "vocabulary", "language", "pages")},
    )


def renumbered(special: dict[str, int]) -> np.ndarray:
    """Number in the vocabulary -> number in the corpus; uint16."""
    numbers = np.arange(VOCABULARY, dtype=np.uint16)
    for wanted, entry in enumerate(SPECIAL):
        here = int(np.flatnonzero(numbers == wanted)[0])
        numbers[[here, special[entry]]] = numbers[[special[entry], here]]
    return numbers
