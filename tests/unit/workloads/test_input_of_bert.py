"""BERT's batches: the same for every framework, and made by the rules of its paper."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from dlperf import workloads
from dlperf.contract.run import Input
from dlperf.loaders import DataError, text
from dlperf.loaders.manifest import verify
from dlperf.prepare import prose
from dlperf.workloads.bert.input import Batch, open_batches


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "prose"
    prose.make(folder)
    return folder


def opened(data_dir, batch_size=8, rank=0, ranks=1, **changes):
    asked = {"batch_size": batch_size, "data": "sample", "seed": 1, "data_dir": str(data_dir)}
    asked["dimensions"] = {"sequence_length": changes.pop("sequence_length", 64), "clip": 1}
    asked.update({"batches": 3, **changes}, part=rank, parts=ranks)
    return open_batches(Input(workload="bert", **asked))


def first(data_dir, *arguments, **changes) -> Batch:
    with opened(data_dir, *arguments, **changes) as batches:
        return batches.next()


@pytest.fixture(scope="module")
def many(data_dir) -> Batch:
    return first(data_dir, 512)


# The corpus


def test_it_is_made_the_same_twice(data_dir, tmp_path):
    prose.make(tmp_path)
    for name in ("vocab.txt", "tokens.npy", "sentences.npy", "documents.npy", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (data_dir / name).read_bytes(), name


def test_the_vocabulary_has_as_many_entries_as_the_model(data_dir):
    entries = (data_dir / "vocab.txt").read_text().split("\n")[:-1]
    assert len(entries) == len(set(entries)) == workloads.facts("bert").VOCABULARY
    assert tuple(entries[:5]) == text.SPECIAL
    manifest = verify(str(data_dir / "manifest.json"))
    assert manifest["vocabulary_learned"] == sum("[unused" not in each for each in entries)


def test_it_is_clean_prose_in_documents(data_dir):
    chapters = prose.documents()
    assert len(chapters) == 1189 and sum(map(len, chapters)) == 31102
    assert chapters[0][0] == "In the beginning God created the heaven and the earth."
    assert not any(set("[]¶0123456789") & set(verse) for chapter in chapters for verse in chapter)
    tokens = np.load(data_dir / "tokens.npy")
    assert (tokens >= text.FIRST_WORD).all(), "every letter is in the vocabulary"
    assert np.load(data_dir / "sentences.npy")[-1] == len(tokens)


def test_a_changed_file_is_named(data_dir, tmp_path):
    prose.make(tmp_path)
    path = tmp_path / "tokens.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"tokens\.npy: sha256 .* differs"):
        opened(tmp_path)
    path.write_bytes(b"other")
    with pytest.raises(DataError, match=r"tokens\.npy: has 5 bytes, 1837698 in"):
        opened(tmp_path)


# The batches


def test_ranks_share_the_batch_that_one_rank_sees(data_dir):
    whole = first(data_dir, 8)
    halves = [first(data_dir, 4, rank, 2) for rank in (0, 1)]
    for mine, *parts in zip(whole, *halves, strict=True):
        assert np.array_equal(mine, np.concatenate(parts))


def test_another_seed_gives_another_batch(data_dir):
    assert not np.array_equal(first(data_dir).tokens, first(data_dir, seed=2).tokens)


@pytest.mark.parametrize("framework", ["tensorflow1", "jax"])
def test_every_framework_reads_the_same(framework, data_dir, environments):
    python = environments / f"{framework}.cpu" / "bin" / "python"
    asked = {"workload": "bert", "data": "sample", "data_dir": str(data_dir), "batch_size": 8}
    asked.update(dimensions={"sequence_length": 64, "clip": 1}, seed=1)
    program = (
        "import json, sys; from dlperf.contract.run import Input;"
        "from dlperf.workloads.bert.input import open_batches;"
        "b = open_batches(Input(**json.loads(sys.argv[1]))); b.next(); b.close();"
        "print(b.first_batch_sha256)"
    )
    done = subprocess.run(
        [python, "-c", program, json.dumps(asked)],
        env={"PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=True,
    )
    with opened(data_dir) as batches:
        batches.next()
        assert done.stdout.strip() == batches.first_batch_sha256


def test_a_sequence_is_two_passages_between_marks(many):
    for tokens, segments, mask in zip(many.tokens, many.segments, many.mask, strict=True):
        count = mask.sum()
        assert (mask[:count] == 1).all() and not tokens[count:].any() and not segments[count:].any()
        assert tokens[0] == text.START and tokens[count - 1] == text.SEPARATOR
        assert (tokens == text.SEPARATOR).sum() == 2
        middle = np.flatnonzero(tokens == text.SEPARATOR)[0]
        assert not segments[: middle + 1].any() and segments[middle + 1 : count].all()


def test_half_of_the_pairs_follow_each_other(many):
    assert 0.4 < many.follows.mean() < 0.6


def test_15_percent_are_predicted_and_most_of_them_masked(many):
    counts, lengths = many.predicted.sum(1), many.mask.sum(1)
    assert np.array_equal(counts, np.clip(np.round(0.15 * lengths), 1, 10))
    taken = np.take_along_axis(many.tokens, many.positions, 1)
    used = many.predicted == 1
    masked = (taken == text.MASK) & used
    kept = (taken == many.labels) & used
    assert 0.77 < masked.sum() / used.sum() < 0.83
    assert 0.08 < kept.sum() / used.sum() < 0.12
    assert (many.labels[used] >= text.FIRST_WORD).all(), "no mark is predicted"
    assert not many.positions[~used].any() and not many.labels[~used].any()


def test_synthetic_sequences_are_full(data_dir):
    batch = first(data_dir, data="synthetic")
    assert batch.mask.all() and batch.predicted.all()
    assert all(len(set(row)) == len(row) for row in batch.positions)
    assert (np.take_along_axis(batch.tokens, batch.positions, 1) == text.MASK).all()


@given(st.integers(0, 40), st.integers(1, 40), st.integers(2, 40), st.integers(0, 100))
def test_truncation_fits_and_keeps_order(first, second, room, seed):
    one, two = np.arange(first), np.arange(100, 100 + second)
    random = np.random.RandomState(seed)
    left, right = text.truncate(one, two, room, random)
    assert len(left) + len(right) == min(room, first + second)
    assert (np.diff(left) == 1).all() and (np.diff(right) == 1).all()


def test_predictions_are_those_of_the_published_settings():
    facts = workloads.facts("bert")
    assert [facts.masked_positions(length) for length in (128, 512)] == [20, 80]


# What is held out, for the quality scenario


def test_every_tenth_document_is_tested_with_and_not_trained_on(data_dir):
    documents = np.load(data_dir / "documents.npy")
    sentences, tokens = (np.load(data_dir / f"{each}.npy") for each in ("sentences", "tokens"))
    chapters = [
        " ".join(map(str, tokens[sentences[start] : sentences[end]]))
        for start, end in zip(documents[:-1], documents[1:], strict=True)
    ]

    def drawn_from(batch, own):
        """The documents that the longer passages are in, of sequences without hidden words."""
        found = set()
        for row in range(own):
            whole = batch.tokens[row].copy()
            whole[batch.positions[row][batch.predicted[row] > 0]] = batch.labels[row][
                batch.predicted[row] > 0
            ]
            for segment in (0, 1):
                inside = (batch.segments[row] == segment) & (batch.mask[row] == 1)
                words = whole[inside & (whole >= text.FIRST_WORD)]
                if len(words) > 12:
                    passage = " ".join(map(str, words))
                    found |= {n for n, each in enumerate(chapters) if passage in each}
        return found

    with opened(data_dir, 32, held_out=True) as batches:
        trained = drawn_from(batches.next(), 32)
        (tests, own), *others = batches.tests()
    assert own + sum(each for _, each in others) == 128
    tested = drawn_from(tests, own)
    assert len(trained) > 20 and all(number % 10 != 9 for number in trained)
    assert len(tested) > 20 and sum(number % 10 == 9 for number in tested) > 0.9 * len(tested)


def test_tests_are_the_same_for_every_seed_and_parts_share_them(data_dir):
    def tests(**changes):
        with opened(data_dir, held_out=True, **changes) as batches:
            return np.concatenate([batch.tokens[:own] for batch, own in batches.tests()])

    whole = tests(seed=1)
    assert np.array_equal(whole, tests(seed=2))
    parts = [tests(batch_size=24, rank=rank, ranks=2) for rank in (0, 1)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_the_masked_loss_is_the_mean_over_hidden_words_alone():
    facts = workloads.facts("bert")
    outputs = np.zeros((2, 3, facts.VOCABULARY), np.float32)
    outputs[0, 0, 7], outputs[1, 0, 9] = 1000.0, 20.0
    labels = np.array([[7, 5, 0], [8, 0, 0]], np.int32)
    predicted = np.array([[1, 1, 0], [1, 0, 0]], np.float32)
    sums = facts.tally(outputs, *[None] * 4, labels, predicted, None)
    none, even = 0.0, np.log(facts.VOCABULARY)
    wrong = np.log(np.exp(20.0) + facts.VOCABULARY - 1)
    assert sums == pytest.approx([none + even + wrong, 3])
    assert facts.score(sums) == pytest.approx((even + wrong) / 3)
    assert workloads.of("bert").quality.score.reached(6.9, 7.0)
    assert not workloads.of("bert").quality.score.reached(7.1, 7.0)


def test_the_rate_warms_up_over_a_tenth_and_falls_to_nothing():
    facts = workloads.facts("bert")
    run = SimpleNamespace(scenario="quality", measured_steps=100)
    rates = facts.schedule(run)
    assert rates[:2] == pytest.approx([1e-5, 2e-5]) and rates[9] == pytest.approx(rates[10])
    assert rates[-1] == pytest.approx(1e-4 / 90) and len(rates) == 100
    long = facts.schedule(SimpleNamespace(scenario="quality", measured_steps=1_000_000))
    assert long[9_999] == max(long) and long[9_998] < max(long)
    assert facts.schedule(SimpleNamespace(scenario="train", measured_steps=100)) is None
