"""A corpus of token ids of one's own is checked as a whole, and linked."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from token_corpora import flat, megatron

from dlperf.contract.problems import ConfigError
from dlperf.loaders import DataError
from dlperf.loaders.manifest import verify
from dlperf.prepare import sources, tokens


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def test_a_corpus_with_an_index_is_linked_and_not_copied(corpus, tmp_path):
    file = megatron(corpus, [100, 200]).rename(corpus / "text_document.bin")
    (corpus / "tokens.idx").rename(corpus / "text_document.idx")
    out = tmp_path / "tokens"
    made = tokens.make(out, file, 300)
    assert (out / "tokens.bin").readlink() == file
    assert (out / "tokens.idx").readlink() == corpus / "text_document.idx"
    assert made == verify(str(out / "manifest.json"))
    assert (made["tokens"], made["documents"], made["largest_token"]) == (300, 2, 299)
    assert (made["type"], made["vocabulary_size"]) == ("uint16", 300)
    assert made["sources"] == [{"file": "text_document.bin"}]


def test_a_flat_file_does_not_meet_the_index_of_an_earlier_corpus(corpus, tmp_path):
    out = tmp_path / "tokens"
    tokens.make(out, megatron(corpus, [100, 200]), 300)
    (corpus / "tokens.idx").unlink()
    made = tokens.make(out, flat(corpus, range(50)), 300)
    assert not (out / "tokens.idx").exists() and not (out / "tokens.idx").is_symlink()
    assert made["tokens"] == 50 and "documents" not in made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "none.bin"}, "none.bin: no such file"),
        ({"name": "tokens.idx"}, "tokens.idx: is an index; name the .bin beside it"),
        ({"lengths": []}, "tokens.bin: has no tokens"),
        ({"vocabulary": 299}, "tokens.bin: token 299 is 299; ids of 0 to 298 are needed"),
        ({"offsets": [0, 202, 400]}, "sequence 1 has 100 tokens and begins at byte 202"),
    ],
)
def test_what_is_wrong_leaves_no_manifest(corpus, tmp_path, changes, message):
    wanted = {"name": "tokens.bin", "lengths": [100, 100, 100], "vocabulary": 300, **changes}
    index = {"offsets": wanted["offsets"]} if "offsets" in wanted else {}
    megatron(corpus, wanted["lengths"], **index)
    out = tmp_path / "tokens"
    with pytest.raises(DataError) as caught:
        tokens.make(out, corpus / wanted["name"], wanted["vocabulary"])
    assert message in str(caught.value)
    assert not (out / "manifest.json").exists()


def test_the_command_says_what_is_wrong_in_one_line(corpus, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "dlperf.prepare.tokens", *arguments, "--out", "tokens"],
            env={"PYTHONPATH": str(ROOT / "scripts")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    flat(corpus, range(300))
    wrong = run("--file", "mine/tokens.bin", "--vocabulary-size", "299")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: mine/tokens.bin: token 299 is 299")
    right = run("--file", "mine/tokens.bin")
    assert right.stdout.startswith("tokens: 300 tokens, the largest 299, sha256 ")
    assert (tmp_path / "tokens/tokens.bin").stat().st_size == 600, "its link is not relative"


# config/data.yaml


def loaded(path: Path, **entry):
    content = yaml.safe_load((ROOT / "config/data.yaml").read_text())
    content["prepared"]["tokens"] = {"tokens": entry}
    (path / "data.yaml").write_text(yaml.safe_dump(content))
    return sources.load_all(path / "data.yaml").prepared.tokens["tokens"]


def test_a_corpus_is_a_file_or_a_source(tmp_path):
    assert loaded(tmp_path, file="/data/train.bin").vocabulary_size == 51200
    assert loaded(tmp_path, source="openwebtext", vocabulary_size=50257).vocabulary_size == 50257


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "prepared.tokens.tokens: {} needs `source` or `file`, one of the two"),
        ({"file": "a.bin", "source": "openwebtext"}, "needs `source` or `file`, one of the two"),
        ({"source": "openwebtxt"}, "prepared.tokens.tokens.source: 'openwebtxt' is not a source"),
        ({"file": "a.bin", "vocabulary_size": 0}, "prepared.tokens.tokens.vocabulary_size"),
    ],
)
def test_another_entry_is_refused(tmp_path, entry, message):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, **entry)
    assert message in str(caught.value)
