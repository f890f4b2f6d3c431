"""A dump of Wikipedia becomes text for BERT and ELECTRA: the same everywhere, nothing silently."""

import bz2
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.analysis.report import provenance
from dlperf.contract.run import Input
from dlperf.loaders import text
from dlperf.loaders.manifest import verify
from dlperf.prepare import prose
from dlperf.prepare.check import check
from dlperf.prepare.wikipedia import __main__ as command
from dlperf.prepare.wikipedia import clean, corpus, documents, dump, examples, sample
from dlperf.workloads.electra import input as electra

REASONS = {"other namespace", "redirect", "no text", "no prose"}  # in the sample


@pytest.fixture(scope="module")
def pages() -> list[str]:
    return list(itertools.islice(sample.pages(), 60))


@pytest.fixture(scope="module")
def made(tmp_path_factory, pages) -> Path:
    """The first 60 pages of the sample in ten streams, a vocabulary, documents and examples."""
    folder = tmp_path_factory.mktemp("wikipedia")
    write_dump(folder / "dump.xml.bz2", pages, together=6)
    words = prose.vocabulary([verse for each in prose.documents()[:50] for verse in each])
    numbered = words.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(numbered, key=numbered.__getitem__)) + "\n")
    run(folder)
    return folder


def write_dump(path: Path, pages, together: int = 100) -> Path:
    path.write_bytes(b"".join(sample.streams(pages, together)))
    return path


def arguments(made: Path, folder: Path, **changes) -> list[str]:
    asked = {
        "dump": made / "dump.xml.bz2",
        "vocabulary": made / "vocab.txt",
        "documents": folder / "documents",
        "shards": 4,
        "sequence-length": 128,
        "duplicates": 2,
        "format": "npz",
        "out": folder / "examples",
        "jobs": 1,
        **changes,
    }
    return [
        word
        for name, value in asked.items()
        for word in (f"--{name}", str(value))
        if value is not None
    ]


def run(made: Path, folder: Path | None = None, **changes) -> None:
    command.main(arguments(made, folder or made, **changes))


def refused(capsys, *asked, **changes) -> str:
    """The message that a call ends with."""
    with pytest.raises(SystemExit) as ended:
        run(*asked, **changes)
    message = str(ended.value)
    assert message.startswith("error: ") and "Traceback" not in message
    return message


def manifest(folder: Path) -> dict:
    return verify(str(folder / "manifest.json"))


def digest_of(folder: Path) -> str:
    return manifest(folder)["samples_sha256"]


def contents(folder: Path) -> dict[str, bytes]:
    """All files below, with their bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read(path: Path, count: int = 1, largest: int = dump.LARGEST) -> tuple[list, Counter]:
    skipped: Counter = Counter()
    shares = dump.divide([dump.scan(path)], count)
    parts = itertools.chain(*shares)
    return [each for part in parts for each in dump.articles(part, largest, skipped)], skipped


def page(number: int, text: str | None, namespace: int = 0) -> str:
    return sample.xml(number, f"Page {number}", namespace, text)


# The dump


def test_the_sample_has_everything_that_a_dump_has(made):
    facts = manifest(made / "documents")
    assert facts["skipped"].keys() == REASONS
    assert facts["documents"] + sum(facts["skipped"].values()) == facts["pages"] == 60
    assert facts["samples"] == facts["documents"] > 40
    lengths = [len(each.tokens) for each in loaded(made)]
    assert max(lengths) > 20 * np.median(lengths), "one very long line"


def test_shards_are_stretches_of_the_same_articles(made):
    whole, skipped = read(made / "dump.xml.bz2")
    for count in (2, 5, 12):
        assert read(made / "dump.xml.bz2", count) == (whole, skipped)


@given(st.lists(st.integers(20, 1000), min_size=1, max_size=30), st.data())
def test_every_stream_is_in_one_share(sizes, data):
    cut = data.draw(st.integers(0, len(sizes) - 1))
    dumps = []
    for name, part in (("one", sizes[:cut]), ("two", sizes[cut:])):
        if part:
            starts = [0, *itertools.accumulate(part)]
            dumps.append(dump.Dump(Path(name), starts[-1], "", starts[:-1]))
    count = data.draw(st.integers(1, len(sizes)))
    shares = dump.divide(dumps, count)
    assert len(shares) == count and all(shares)
    parts = [part for share in shares for part in share]
    for one in dumps:
        mine = [part for part in parts if part.path == one.path]
        assert [part.start for part in mine] == [0, *(part.end for part in mine[:-1])]
        assert mine[-1].end == one.bytes and [part.last for part in mine][-1]
        assert {part.start for part in mine} <= set(one.streams)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["C"], exclude_characters="\ufffd"))))
def test_text_comes_out_as_it_went_in(tmp_path_factory, texts):
    path = write_dump(tmp_path_factory.mktemp("dump") / "x.bz2", map(page, range(99), texts), 3)
    articles, skipped = read(path)
    assert [each.text for each in articles] == [text for text in texts if text]
    assert skipped["no text"] == texts.count("")


def test_an_ordinary_dump_of_one_stream_is_one_shard(tmp_path, made, capsys):
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(bz2.compress(bz2.decompress((made / "dump.xml.bz2").read_bytes())))
    assert read(path) == read(made / "dump.xml.bz2")
    message = refused(capsys, made, tmp_path, dump=path)
    assert "1 bz2 streams, too few for 4 shards: use the dump that is called multi" in message


def test_memory_does_not_grow_with_the_dump(tmp_path):
    line = "a" * 10_000_000
    path = write_dump(tmp_path / "x.bz2", [page(1, line), page(2, "short"), page(3, line, 1)])
    tracemalloc.start()
    articles, skipped = read(path, largest=500_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [each.text for each in articles] == ["short"] and skipped["too large"] == 1
    assert peak < 4e6, "of 20 MB of text"


# Cleaning


def test_prose_comes_back_from_its_wikitext():
    for number, verses in enumerate(prose.documents()[:20], 1):
        text = sample.article(f"Chapter {number}", number, verses)
        assert "{{" in text and "[[" in text and "<ref" in text
        first, *paragraphs = clean.paragraphs(text)
        assert first.startswith(f'Chapter {number} is a chapter of the "King James Bible". It has')
        # the source has spaces before some commas, which cleaning takes away
        assert "".join(paragraphs).replace(" ", "") == "".join(verses).replace(" ", "")


@pytest.mark.parametrize(
    "wikitext, expected",
    [
        ("A < B & C &gt; D, &amp;c.", ["A < B & C > D, &c."]),
        ("[[Bible|The book]] is [http://example.org/a here].", ["The book is here."]),
        ("Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("== Only a heading ==\n* and\n# a list\n{|\n|a table\n|}", []),
        ("", []),
        (" \n\n", []),
        ("{{unclosed\n\n[[also", None),
    ],
)
def test_markup_goes_and_sentences_stay(wikitext, expected):
    found = clean.sentences(wikitext, "en")
    assert expected is None or found == expected


def test_text_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(clean, "LIMIT_SECONDS", 0.3)
    with pytest.raises(clean.TooHard):
        clean.sentences("<br " * 20_000, "en")
    assert clean.sentences("All is well.", "en") == ["All is well."]


# Examples


def loaded(made: Path) -> list[examples.Document]:
    folder = made / "documents"
    return [
        each for file in manifest(folder)["files"] for each in examples.load(folder / file["path"])
    ]


def samples(folder: Path) -> list[dict]:
    facts = manifest(folder)
    module = examples.formats.of(facts["format"])
    return [each for file in facts["files"] for each in module.read(folder / file["path"])]


@pytest.fixture(scope="module")
def many(made) -> dict[str, np.ndarray]:
    found = samples(made / "examples")
    return {name: np.array([each[name] for each in found]) for name in examples.FIELDS}


@pytest.fixture(scope="module")
def marks(made) -> examples.Marks:
    special = manifest(made / "documents")["vocabulary"]["special"]
    return examples.Marks(*(special[entry] for entry in ("[CLS]", "[SEP]", "[MASK]")))


def test_an_example_is_two_passages_between_marks(many, marks):
    for ids, mask, segments in zip(
        many["input_ids"], many["input_mask"], many["segment_ids"], strict=True
    ):
        count = mask.sum()
        assert mask[:count].all() and not ids[count:].any() and not segments[count:].any()
        assert ids[0] == marks.start and ids[count - 1] == marks.separator
        middle = np.flatnonzero(ids == marks.separator)[0]
        assert 1 < middle < count - 2
        assert not segments[: middle + 1].any() and segments[middle + 1 : count].all()


def test_15_percent_are_predicted_and_most_of_them_masked(many, marks):
    counts, lengths = many["masked_lm_weights"].sum(1), many["input_mask"].sum(1)
    assert many["masked_lm_positions"].shape[1] == 20
    assert np.array_equal(counts, np.clip(np.round(0.15 * lengths), 1, 20))
    taken = np.take_along_axis(many["input_ids"], many["masked_lm_positions"], 1)
    used = many["masked_lm_weights"] == 1
    assert 0.77 < ((taken == marks.mask) & used).sum() / used.sum() < 0.83
    assert 0.08 < ((taken == many["masked_lm_ids"]) & used).sum() / used.sum() < 0.12
    hidden = many["masked_lm_ids"][used]
    assert not np.isin(hidden, marks).any(), "no mark is predicted"
    assert not many["masked_lm_positions"][~used].any() and not many["masked_lm_ids"][~used].any()


def test_second_passages_follow_or_come_from_another_document(made, marks):
    folder = made / "documents"
    shard = examples.load(folder / manifest(folder)["files"][0]["path"])
    texts = [each.tokens.tobytes() for each in shard]
    labels = []
    for index in range(0, len(shard), 3):
        for each in examples.examples(shard, index, 0, 128, 1, marks):
            ids = each["input_ids"].copy()
            used = each["masked_lm_weights"] == 1
            ids[each["masked_lm_positions"][used]] = each["masked_lm_ids"][used]
            inside = ids[: each["input_mask"].sum()]
            middle = int(each["segment_ids"].argmax())
            first, second = inside[1 : middle - 1], inside[middle:-1]
            both = [passage.astype(np.uint16).tobytes() for passage in (first, second)]
            assert both[0] in texts[index]
            elsewhere = each["next_sentence_labels"]
            assert any(
                both[1] in text
                for number, text in enumerate(texts)
                if number != index or not elsewhere
            )
            if not elsewhere:
                assert both[1] in texts[index][texts[index].find(both[0]) :]
            labels.append(elsewhere)
    assert 0.4 < np.mean(labels) < 0.75, "half, and those of a document's last sentence"


def test_an_example_depends_on_its_seed_and_document_alone(made, marks):
    shard = loaded(made)

    def of(index, duplicate=0, seed=1):
        return [
            (each["input_ids"].tolist(), each["masked_lm_ids"].tolist())
            for each in examples.examples(shard, index, duplicate, 128, seed, marks)
        ]

    once = [of(index) for index in range(10)]
    assert [of(index) for index in reversed(range(10))] == once[::-1]
    assert of(3, duplicate=1) != once[3] != of(3, seed=2)


def test_sequences_of_512_tokens_have_80_predictions(made, tmp_path):
    run(made, tmp_path, documents=made / "documents", **{"sequence-length": 512, "dump": None})
    found = samples(tmp_path / "examples")
    assert {len(each["input_ids"]) for each in found} == {512}
    assert {len(each["masked_lm_ids"]) for each in found} == {80}


def test_every_document_is_gone_through_as_often_as_asked(made, tmp_path):
    for duplicates in (1, 3):
        out = tmp_path / str(duplicates)
        run(made, out, documents=made / "documents", dump=None, duplicates=duplicates)
    once, thrice = (manifest(tmp_path / each / "examples")["examples"] for each in "13")
    assert 2.7 < thrice / once < 3.3


# The same for everyone


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord", "hdf5"])
def test_every_format_has_the_same_samples(made, tmp_path, format):
    run(made, tmp_path, documents=made / "documents", dump=None, format=format)
    check(tmp_path / "examples")
    assert digest_of(tmp_path / "examples") == digest_of(made / "examples")


def test_mindrecord_has_the_same_samples(made, tmp_path, environments):
    described = environments / "mindspore.cpu" / "env.json"
    run(
        made,
        tmp_path,
        documents=made / "documents",
        dump=None,
        format="mindrecord",
        environment=described,
    )
    check(tmp_path / "examples")
    assert digest_of(tmp_path / "examples") == digest_of(made / "examples")


def test_two_processes_make_the_same_bytes(made, tmp_path):
    run(made, tmp_path, jobs=2)
    for folder in ("documents", "examples"):
        check(tmp_path / folder)
        assert contents(tmp_path / folder) == contents(made / folder)


def group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def killed_at_the_first_shard(made, tmp_path, stage) -> subprocess.Popen:
    """A run that is killed when the first shard of this stage is there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dlperf.prepare.wikipedia", *arguments(made, tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    notes = tmp_path / stage / ".shards"
    try:
        while not list(notes.glob("*.json")) and process.poll() is None:
            time.sleep(0.005)
    finally:
        process.kill()  # it alone: its processes end with it
        process.wait()
    return process


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stage", ["documents", "examples"])
def test_a_killed_run_goes_on_and_makes_the_same_bytes(made, tmp_path, stage):
    if stage == "examples":
        run(made, tmp_path, format=None, out=None)
    for _ in range(5):  # on a busy machine it may end before it is killed
        process = killed_at_the_first_shard(made, tmp_path, stage)
        if process.returncode == -signal.SIGKILL:
            break
        shutil.rmtree(tmp_path / stage)
    assert process.returncode == -signal.SIGKILL
    notes = tmp_path / stage / ".shards"
    while group_is_there(process.pid):
        time.sleep(0.01)
    assert not (tmp_path / stage / "manifest.json").exists()
    done = [tmp_path / stage / note.stem for note in notes.glob("*.json")]
    times = {path: path.stat().st_mtime_ns for path in done}
    done[-1].unlink()  # a shard that is missing is made again; the others are kept
    run(made, tmp_path)
    assert all(path.stat().st_mtime_ns == times[path] for path in done[:-1])
    assert contents(tmp_path / stage) == contents(made / stage)


def test_documents_that_are_there_are_not_made_again(made, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in (made / "documents").iterdir()}
    run(made, tmp_path, documents=made / "documents")
    assert {path: path.stat().st_mtime_ns for path in (made / "documents").iterdir()} == before


def test_a_manifest_says_where_samples_come_from(made):
    facts = manifest(made / "examples")
    of = manifest(made / "documents")
    assert facts["documents_sha256"] == of["sha256"] and facts["dumps"] == of["dumps"]
    assert facts["samples"] == facts["examples"] == sum(each["samples"] for each in facts["files"])
    assert facts["pages_skipped"] == of["skipped"]
    for key in ("pages", "documents", "sentences", "tokens"):
        assert facts[key] == of[key] > 0
    assert of["tokens"] == sum(len(each.tokens) for each in loaded(made))
    assert [len(each["sha256"]) for each in of["dumps"]] == [64]


# Bad input


def test_pages_that_are_no_articles_are_counted_by_reason(tmp_path):
    bad = page(7, "bytes: \x00").replace("\x00", "\ufffd")  # as wrong bytes are read
    pages = [
        page(1, ""),
        page(2, None),
        page(3, None).replace('<text bytes="0" deleted="deleted" />', ""),
        page(4, "#REDIRECT [[Page 1]]"),
        page(5, "talk", 1),
        page(6, "long " * 100),
        bad,
        page(8, "A sentence."),
    ]
    articles, skipped = read(write_dump(tmp_path / "x.bz2", pages), largest=400)
    assert [each.page for each in articles] == [8]
    assert skipped == {
        "no text": 3,
        "redirect": 1,
        "other namespace": 1,
        "too large": 1,
        "invalid UTF-8": 1,
    }


def test_bytes_that_are_not_utf8_cost_one_article(tmp_path):
    pages = "".join(page(number, f"text {number}") for number in range(3)).encode()
    header, *_, footer = sample.streams([])
    broken = bz2.compress(pages.replace(b"text 1", b"text \xff\xc3"))
    (tmp_path / "x.bz2").write_bytes(header + broken + footer)
    articles, skipped = read(tmp_path / "x.bz2")
    assert [each.page for each in articles] == [0, 2] and skipped == {"invalid UTF-8": 1}


def test_an_article_that_is_too_hard_is_counted(made, pages, tmp_path, monkeypatch):
    monkeypatch.setattr(clean, "LIMIT_SECONDS", 0.3)
    pages = [*pages[10:20], page(999, "<br " * 20_000)]
    run(made, tmp_path, dump=write_dump(tmp_path / "x.bz2", pages), shards=1, out=None, format=None)
    assert manifest(tmp_path / "documents")["skipped"]["too hard to clean"] == 1


DOCTYPE = '<!DOCTYPE mediawiki [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.fixture(scope="module")
def spoiled(pages) -> dict[str, bytes]:
    """Dumps that are wrong, by what is wrong with them."""
    header, *streams, footer = sample.streams(pages[10:25], 5)
    content = header + b"".join(streams) + footer
    middle = len(content) // 2
    bomb = bz2.compress((DOCTYPE + sample.HEADER).encode())
    inside = bz2.compress(page(1, "text").replace("text</text>", "&b;</text>").encode())
    return {
        "cut": content[:middle],
        "cut between streams": header + b"".join(streams),
        "wrong bytes": content[:middle] + b"wrong bytes" + content[middle + 11 :],
        "rubbish behind": content + b"rubbish",
        "a bomb": bomb + b"".join(streams) + footer,
        "an entity": header + b"".join(streams) + inside + footer,
        "no dump": b"".join(bz2.compress(f"<html>{n}</html>".encode()) for n in range(4)),
        "no XML": b"".join(bz2.compress(b"words") for _ in range(4)),
        "no bz2": b"PK\x03\x04 a zip",
        "empty": b"",
    }


@pytest.mark.parametrize(
    "wrong, message",
    [
        ("cut", r"x\.bz2: the bz2 stream at byte \d+ is cut short: the file ends at byte \d+"),
        ("cut between streams", r"x\.bz2: in the bz2 stream at byte \d+: .* cut short"),
        ("wrong bytes", r"x\.bz2: the bz2 stream at byte \d+ is damaged"),
        ("rubbish behind", r"x\.bz2: the bz2 stream at byte \d+ is damaged"),
        ("a bomb", r"x\.bz2: in the bz2 stream at byte 0: a DOCTYPE"),
        ("an entity", r"x\.bz2: in the bz2 stream at byte \d+: not MediaWiki's XML.*entity"),
        ("no dump", r"x\.bz2: in the bz2 stream at byte 0: the XML's root is <html>"),
        ("no XML", r"x\.bz2: in the bz2 stream at byte \d+: not MediaWiki's XML"),
        ("no bz2", r"x\.bz2: is not bz2"),
        ("empty", r"x\.bz2: is not bz2"),
    ],
)
def test_a_damaged_dump_is_named(made, spoiled, tmp_path, capsys, wrong, message):
    path = tmp_path / "x.bz2"
    path.write_bytes(spoiled[wrong])
    said = refused(capsys, made, tmp_path, dump=path, shards=2)
    assert re.search(message, said), said
    assert not (tmp_path / "documents" / "manifest.json").exists()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda words: words[:-1], "30521 entries; the model's embedding has 30522"),
        (lambda words: ["[mask]" if w == "[MASK]" else w for w in words], "no entry [MASK]"),
        (lambda words: [*words[:-1], words[-2]], "1 entries occur twice"),
        (lambda words: [*words[1:], words[0]], "[PAD] is entry 30521"),
    ],
)
def test_a_wrong_vocabulary_is_named(made, tmp_path, capsys, change, message):
    words = (made / "vocab.txt").read_text().split("\n")[:-1]
    (tmp_path / "vocab.txt").write_text("\n".join(change(words)))
    said = refused(capsys, made, tmp_path, vocabulary=tmp_path / "vocab.txt")
    assert f"{tmp_path}/vocab.txt: " in said and message in said


def test_a_document_shard_that_is_missing_or_changed_is_named(made, tmp_path, capsys):
    run(made, tmp_path, out=None, format=None)
    name = manifest(tmp_path / "documents")["files"][1]["path"]
    shard = tmp_path / "documents" / name
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    for what in ("sha256", "missing"):
        assert f"{shard}: {what}" in refused(capsys, made, tmp_path)
        assert f"{shard}: {what}" in refused(capsys, made, tmp_path, dump=None)
        shard.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"shards": 0}, "--shards is 0: at least 1 is needed"),
        ({"shards": 13}, "12 bz2 streams, too few for 13 shards"),
        ({"shards": 12}, "0 documents with prose"),
        ({"sequence-length": 513}, "--sequence-length is 513; it must be from 16 to 512"),
        ({"vocabulary": None}, "--dump needs a --vocabulary"),
        ({"dump": "nowhere.bz2"}, "nowhere.bz2"),
        ({"dump": None, "documents": "nowhere"}, "nowhere/manifest.json: no such file"),
        ({"format": None}, "--out needs a --format: tfrecord"),
        ({"dump": None, "out": None}, "neither --dump, --out nor --corpus"),
        ({"seed": -1}, "--seed is -1"),
    ],
)
def test_what_cannot_be_asked_for_is_said(made, tmp_path, capsys, changes, message):
    assert message in refused(capsys, made, tmp_path, **changes)


def test_mindrecord_needs_mindspores_environment(made, tmp_path, capsys):
    said = refused(capsys, made, tmp_path, format="mindrecord", environment="nowhere/env.json")
    assert "nowhere/env.json: not an environment's env.json" in said


def test_a_dump_given_twice_is_refused(made, tmp_path, capsys):
    path = str(made / "dump.xml.bz2")
    with pytest.raises(SystemExit, match="given twice"):
        command.main([*arguments(made, tmp_path), "--dump", path, path])


def test_two_files_are_one_dump(made, pages, tmp_path):
    files = [
        str(write_dump(tmp_path / f"{start}.xml.bz2", pages[start : start + 30], 6))
        for start in (0, 30)
    ]
    command.main([*arguments(made, tmp_path, out=None, format=None), "--dump", *files])
    assert [each.page for each in loaded(tmp_path)] == [each.page for each in loaded(made)]


def test_the_documents_of_another_set_are_refused(made, tmp_path, capsys):
    facts = json.loads((made / "examples" / "manifest.json").read_text())
    assert facts["dataset"] == "wikipedia-seq128"
    message = refused(capsys, made, tmp_path, dump=None, documents=made / "examples")
    assert "'wikipedia-seq128', expected 'wikipedia-documents'" in message


def test_documents_are_kept_as_16_bits(made):
    assert {each.tokens.dtype for each in loaded(made)} == {np.dtype(np.uint16)}
    assert documents.FORMAT == "npz"


# The corpus of ELECTRA


def sentences_of(folder: Path) -> list[list[list[int]]]:
    """The sentences of each document of a corpus."""
    tokens, starts, documents = (np.load(folder / name) for name in corpus.NAMES)
    assert (tokens.dtype, starts.dtype, documents.dtype) == (np.uint16, np.int64, np.int64)
    sentences = [tokens[a:b].tolist() for a, b in itertools.pairwise(starts)]
    return [sentences[a:b] for a, b in itertools.pairwise(documents)]


def test_a_corpus_has_all_documents_in_their_order(made, tmp_path):
    run(made, tmp_path, dump=None, documents=made / "documents", out=None, corpus=tmp_path / "own")
    wanted = [
        [each.tokens[a:b].tolist() for a, b in itertools.pairwise(each.starts)]
        for each in loaded(made)
    ]
    assert sentences_of(tmp_path / "own") == wanted
    facts, before = manifest(tmp_path / "own"), contents(tmp_path / "own")
    source = manifest(made / "documents")
    keys = ("documents", "sentences", "tokens", "dumps", "pages")
    assert {key: facts[key] for key in keys} == {key: source[key] for key in keys}
    assert facts["documents_sha256"] == source["sha256"]
    held = f"{facts['tokens']:,} tokens in {facts['documents']:,} documents"
    assert provenance.contents(facts) == held
    run(made, tmp_path, dump=None, documents=made / "documents", out=None, corpus=tmp_path / "own")
    assert contents(tmp_path / "own") == before


@pytest.mark.parametrize("special", [(0, 100, 101, 102, 103), (0, 2, 1, 4, 3), (0, 1, 2, 3, 4)])
def test_special_tokens_come_first_and_no_number_is_lost(special):
    numbers = corpus.renumbered(dict(zip(text.SPECIAL, special, strict=True)))
    assert [numbers[each] for each in special] == [0, 1, 2, 3, 4]
    assert sorted(numbers) == list(range(text.VOCABULARY))
    moved = np.flatnonzero(numbers != np.arange(text.VOCABULARY))
    assert set(moved) <= {*special, *range(len(special))}


def test_electra_draws_from_a_corpus_as_from_the_samples_prose(made, tmp_path):
    """Each passage is of sentences of the articles; of the held-out ones in tests alone."""
    corpus.make(tmp_path / "own", made / "documents")
    asked = Input(
        workload="electra",
        data="wikipedia_sample",
        data_dir=str(tmp_path / "own"),
        batch_size=4,
        dimensions={"sequence_length": 64, "second_length": 64, "first_steps": 1},
        seed=5,
        batches=3,
        held_out=True,
    )
    own = [" ".join(map(str, itertools.chain(*each))) for each in sentences_of(tmp_path / "own")]
    with electra.open_batches(asked) as batches:
        trained, tested = [batches.next() for _ in range(3)], batches.tests()
    for found, of in ((trained, 0), ([each for each, _ in tested], 1)):
        for batch in found:
            for row, chosen in enumerate(batch.chosen):
                whole = batch.tokens[row].copy()
                places = batch.positions[row][chosen == 1]
                whole[places] = batch.labels[row][chosen == 1]
                first = whole[1 : np.flatnonzero(whole == text.SEPARATOR)[0]]
                passage = " ".join(map(str, first))
                held_out = [place % text.EVERY == text.EVERY - 1 for place in range(len(own))]
                there = [out for each, out in zip(own, held_out, strict=True) if passage in each]
                assert bool(of) in there, passage


def test_a_corpus_of_other_data_is_refused(made, tmp_path, capsys):
    asked = {"dump": None, "documents": made / "examples", "out": None, "corpus": tmp_path / "own"}
    assert "expected 'wikipedia-documents'" in refused(capsys, made, tmp_path, **asked)
    assert not (tmp_path / "own").exists()
