"""ELECTRA's batches: passages of which a seventh is hidden, and the noise of the samples."""

import numpy as np
import pytest

from dlperf import workloads
from dlperf.contract.run import Input
from dlperf.loaders import text
from dlperf.prepare import prose
from dlperf.workloads.bert import input as berts_input
from dlperf.workloads.electra import input as replaced

FACTS = workloads.facts("electra")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "prose"
    prose.make(folder)
    return folder


def first(data_dir, batch_size=8, data="sample", part=0, parts=1, length=64):
    asked = Input(
        workload="electra",
        data=data,
        data_dir=str(data_dir),
        batch_size=batch_size,
        dimensions={"sequence_length": length},
        seed=1,
        part=part,
        parts=parts,
        batches=1,
    )
    with replaced.open_batches(asked) as batches:
        return batches.next()


@pytest.fixture(scope="module")
def many(data_dir):
    return first(data_dir, 512)


@pytest.fixture
def given_noise(monkeypatch):
    monkeypatch.setattr(FACTS, "GIVEN_NOISE", True)


def original(batch):
    """The tokens before any was hidden."""
    tokens = batch.tokens.copy()
    np.put_along_axis(tokens, batch.positions, batch.labels, 1)
    return tokens


def test_fifteen_percent_of_the_tokens_are_chosen_among_the_words(many):
    wanted = np.clip(np.round(0.15 * many.mask.sum(1)), 1, FACTS.masked_positions(64))
    # a sequence of few words has fewer to choose from
    assert (many.chosen.sum(1) <= wanted).all() and (many.chosen.sum(1) == wanted).mean() > 0.98
    assert (many.labels[many.chosen == 1] >= text.FIRST_WORD).all()


def test_no_place_is_chosen_twice(many):
    for positions, chosen in zip(many.positions, many.chosen, strict=True):
        used = positions[chosen == 1]
        assert len(set(used)) == len(used)


def test_85_percent_of_the_chosen_are_hidden_and_the_others_stay(many):
    at = np.take_along_axis(many.tokens, many.positions, 1)
    hidden = at[many.chosen == 1] == text.MASK
    assert 0.83 < hidden.mean() < 0.87
    stays = (at == many.labels) | (at == text.MASK)
    assert stays[many.chosen == 1].all(), "no random words"


def test_an_unused_place_stands_for_the_first_token(many):
    unused = many.chosen == 0
    assert unused.any()
    assert (many.positions[unused] == 0).all() and (many.labels[unused] == text.START).all()
    assert (original(many)[:, 0] == text.START).all()


def test_passages_are_those_of_bert(data_dir):
    """Nothing but what is hidden differs: the same example has the same words."""
    asked = Input(
        workload="bert",
        data="sample",
        data_dir=str(data_dir),
        batch_size=8,
        dimensions={"sequence_length": 64, "clip": 1},
        seed=1,
        part=0,
        parts=1,
        batches=1,
    )
    with berts_input.open_batches(asked) as batches:
        berts = batches.next()
    ours = first(data_dir)
    np.testing.assert_array_equal(berts.mask, ours.mask)
    np.testing.assert_array_equal(berts.segments, ours.segments)
    tokens = berts.tokens.copy()
    for row in range(8):
        used = berts.predicted[row] == 1
        tokens[row, berts.positions[row, used]] = berts.labels[row, used]
    np.testing.assert_array_equal(tokens, original(ours))


def test_two_ranks_share_the_batch_of_one(data_dir, given_noise):
    whole = first(data_dir, 8)
    parts = [first(data_dir, 4, part=part, parts=2) for part in range(2)]
    for one, (left, right) in zip(whole, zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(one, np.concatenate([left, right]))


@pytest.mark.parametrize("length,places", [(16, 2), (32, 4), (128, 19), (512, 79)])
def test_synthetic_batches_use_every_place(data_dir, length, places):
    batch = first("", 4, "synthetic", length=length)
    assert batch.positions.shape == (4, places)
    assert (batch.chosen == 1).all() and (batch.mask == 1).all()


def test_noise_comes_with_certificates_alone(data_dir, many, given_noise):
    assert not hasattr(many, "noise")
    noise = first(data_dir, 4, length=16).noise
    assert noise.shape == (4, 2, FACTS.VOCABULARY)
    usual = noise[noise < replaced.SURE / 2]
    # Gumbel's mean is Euler's constant, its variance pi^2 / 6
    assert abs(usual.mean() - 0.5772) < 0.02 and abs(usual.var() - np.pi**2 / 6) < 0.05


def test_in_half_of_the_sequences_the_noise_draws_the_true_token(data_dir, given_noise):
    batch = first(data_dir, 32, length=16)
    true = batch.noise.argmax(-1)[:, 0] == batch.labels[:, 0]
    assert 8 < true.sum() < 24
