"""The sample corpus of a language model: prose as byte-level BPE tokens in Megatron-LM's form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from tokenizers import decoders, models

from dlperf.loaders.manifest import verify
from dlperf.loaders.token_files import check_whole, mapped
from dlperf.prepare import bpe, prose, prose_tokens

FILES = ("tokens.bin", "tokens.idx", "vocabulary.json", "merges.txt", "manifest.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data") / "prose-tokens"
    prose_tokens.make(out)
    return out


def test_another_process_makes_the_same_bytes(folder, tmp_path):
    """The trainer has hash tables, whose order differs between processes."""
    subprocess.run(
        [sys.executable, "-m", "dlperf.prepare.prose_tokens", "--out", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "RAYON_NUM_THREADS": "1"},
        check=True,
    )
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_vocabulary_has_2048_entries_and_ends_with_the_end_token(folder):
    entries = json.loads((folder / "vocabulary.json").read_text())
    assert sorted(entries.values()) == list(range(2048))
    assert entries["<|endoftext|>"] == 2047
    assert len((folder / "merges.txt").read_text().splitlines()) == 1 + 2048 - 256 - 1


def test_each_document_is_a_sequence_that_an_end_token_closes(folder):
    file = mapped(str(folder / "tokens.bin"))
    manifest = verify(str(folder / "manifest.json"))
    assert check_whole(file, 2048) == 2047 == manifest["largest_token"]
    assert len(file.tokens) == manifest["tokens"] > 1_000_000
    assert len(file.index.lengths) == manifest["documents"] == 1189
    ends = np.cumsum(file.index.lengths) - 1
    assert np.array_equal(np.flatnonzero(file.tokens == 2047), ends)


def test_the_files_give_the_prose_back(folder):
    """Whoever reads vocabulary.json and merges.txt as GPT-2's reads the same text."""
    entries = json.loads((folder / "vocabulary.json").read_text())
    merges = [
        tuple(line.split(" ")) for line in (folder / "merges.txt").read_text().splitlines()[1:]
    ]
    tokens = mapped(str(folder / "tokens.bin")).tokens
    chapters = [" ".join(verses) for verses in prose.documents()]
    learned = bpe.tokenizer(models.BPE(entries, merges))
    assert learned.encode(chapters[0]).ids == list(tokens[: np.argmax(tokens == 2047)])
    words = {number: entry for entry, number in entries.items()}
    text = decoders.ByteLevel().decode(["".join(words[token] for token in tokens)])
    assert text == "".join(chapter + "<|endoftext|>" for chapter in chapters)
