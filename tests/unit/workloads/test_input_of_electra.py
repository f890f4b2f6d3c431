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


def phased(data_dir, first_steps=3, warmup=0, part=0, parts=1, seed=1, batch_size=4, **dimensions):
    """The batches of a training to a quality, 32 tokens and then 64."""
    own = {"sequence_length": 32, "first_steps": first_steps, "second_length": 64, **dimensions}
    asked = Input(
        workload="electra",
        data="sample",
        data_dir=str(data_dir),
        batch_size=batch_size,
        dimensions=own,
        seed=seed,
        part=part,
        parts=parts,
        warmup=warmup,
        held_out=True,
    )
    return replaced.open_batches(asked)


def shapes(batches, count):
    return [batches.next().tokens.shape[1] for _ in range(count)]


def test_sequences_become_longer_behind_the_first_phase(data_dir):
    with phased(data_dir) as batches:
        assert shapes(batches, 6) == [32] * 3 + [64] * 3
        places = FACTS.masked_positions(64)
        assert batches.next().positions.shape == (4, places)


@pytest.mark.parametrize(
    ("warmup", "expected"), [(2, [32, 64]), (3, [32, 32, 64]), (1, [32]), (4, [32, 32, 64, 64])]
)
def test_noise_has_both_lengths_before_the_data_begin(data_dir, warmup, expected):
    with phased(data_dir, first_steps=1, warmup=warmup) as batches:
        assert shapes(batches, warmup) == expected
        batches.begin()
        assert shapes(batches, 2) == [32, 64]


def test_two_replicas_read_together_what_one_reads_in_both_phases(data_dir):
    with phased(data_dir, 1, batch_size=4) as whole:
        alone = [whole.next().tokens for _ in range(2)]
    parts = []
    for part in range(2):
        with phased(data_dir, 1, batch_size=2, part=part, parts=2) as batches:
            parts.append([batches.next().tokens for _ in range(2)])
    for step in range(2):
        assert (np.concatenate([own[step] for own in parts]) == alone[step]).all()


def test_it_is_evaluated_on_the_same_longer_sequences_for_every_seed(data_dir):
    with phased(data_dir) as batches:
        tests = batches.tests()
    assert sum(own for _, own in tests) == FACTS.DATA["sample"].tests
    assert {batch.tokens.shape for batch, _ in tests} == {(4, 64)}
    with phased(data_dir, seed=9) as batches:
        assert (batches.tests()[0][0].tokens == tests[0][0].tokens).all()


def test_no_passage_to_evaluate_on_is_trained_on(data_dir):
    with phased(data_dir) as batches:
        assert not set(batches._own) & set(batches._held_out)
        first, second = batches._of(0), batches._of(1)
        assert all((each._own == batches._own).all() for each in (first, second))


def test_a_throughput_run_has_one_length(data_dir):
    given = dict.fromkeys(["first_steps", "second_length"], 1)
    asked = Input("electra", "sample", str(data_dir), 2, {"sequence_length": 32, **given}, 1)
    with replaced.open_batches(asked) as batches:
        assert shapes(batches, 4) == [32] * 4


def test_the_readers_of_two_phases_together_have_the_batches_of_one(data_dir):
    with phased(data_dir, first_steps=2) as batches:
        whole = [batches.next().tokens for _ in range(4)]
    with phased(data_dir, second_length=32) as first:
        assert all((first.next().tokens == each).all() for each in whole[:2])
    with phased(data_dir, sequence_length=64, skipped=2 * 4) as second:
        assert all((second.next().tokens == each).all() for each in whole[2:])


def sizes(batches, count):
    return [batches.next().tokens.shape for _ in range(count)]


@pytest.mark.parametrize("second", [1, 3, 9])
def test_batches_of_the_second_phase_have_their_own_size(data_dir, second):
    with phased(data_dir, first_steps=2, second_batch_size=second) as batches:
        assert sizes(batches, 4) == [(4, 32)] * 2 + [(second, 64)] * 2
        tests = batches.tests()
    assert {batch.tokens.shape for batch, _ in tests} == {(second, 64)}
    assert sum(own for _, own in tests) == FACTS.DATA["sample"].tests


def test_noise_has_both_sizes_of_a_batch(data_dir):
    with phased(data_dir, 1, warmup=2, second_batch_size=3) as batches:
        assert sizes(batches, 2) == [(4, 32), (3, 64)]


def test_a_phase_is_of_updates_whatever_batches_they_take(data_dir):
    with phased(data_dir, first_steps=2, micro_steps=3, second_batch_size=1) as batches:
        assert sizes(batches, 8) == [(4, 32)] * 6 + [(1, 64)] * 2


@pytest.mark.parametrize(("steps", "expected"), [(1, [32] * 2), (2, [32, 32, 64, 64])])
def test_all_micro_steps_of_a_step_on_noise_are_alike(data_dir, steps, expected):
    with phased(data_dir, 1, warmup=2 * steps, micro_steps=2) as batches:
        assert shapes(batches, 2 * steps) == expected


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_no_sample_comes_twice_or_is_left_out_where_batches_change_their_size(data_dir, parts):
    """The samples of both phases are those of one phase of batches of one, one after the other."""
    first = {"first_steps": 2 * parts * 4, "batch_size": 1}
    with phased(data_dir, **first) as batches:
        alone = [batches.next().tokens for _ in range(2 * parts * 4 + 2 * parts * 3)]
    shared = []
    for part in range(parts):
        with phased(data_dir, 2, part=part, parts=parts, second_batch_size=3) as batches:
            shared.append([batches.next().tokens for _ in range(4)])
    together = [row for step in range(4) for own in shared for row in own[step][:, None]]
    assert len(together) == len(alone)
    assert all((one == other).all() for one, other in zip(together, alone, strict=True))


def test_the_readers_of_two_phases_of_different_sizes_have_the_batches_of_one(data_dir):
    with phased(data_dir, 2, part=1, parts=2, second_batch_size=3) as batches:
        whole = [batches.next().tokens for _ in range(4)]
    apart = {"part": 1, "parts": 2, "sequence_length": 64, "skipped": 2 * 4 * 2}
    with phased(data_dir, batch_size=3, **apart) as second:
        assert all((second.next().tokens == each).all() for each in whole[2:])


def test_a_throughput_run_has_batches_of_one_size(data_dir):
    own = {"sequence_length": 32, "first_steps": 1, "second_length": 64, "second_batch_size": 3}
    asked = Input("electra", "sample", str(data_dir), 2, own, 1)
    with replaced.open_batches(asked) as batches:
        assert sizes(batches, 3) == [(2, 32)] * 3
