"""Words that ELECTRA's generator drew: read from answers, given to the formulas, held to chance."""

import numpy as np
import pytest

from dlperf.workloads import drawn as models
from dlperf.workloads.electra import drawn, facts

PLACES, TOKENS, SAMPLES = 3, 8, 5


def batch() -> list[np.ndarray]:
    whole = np.zeros((SAMPLES, TOKENS), "int32")
    chosen = np.ones((SAMPLES, PLACES), "float32")
    chosen[0, 1:] = 0
    positions = np.zeros((SAMPLES, PLACES), "int32")
    return [whole, whole, whole + 1, positions, positions, chosen]


def answers(words: np.ndarray, scores: np.ndarray) -> np.ndarray:
    parts = [scores.reshape(SAMPLES, -1), words / facts.DRAWN_UNIT, np.zeros((SAMPLES, TOKENS))]
    return np.concatenate(parts, 1).astype("float32")


@pytest.fixture
def scores() -> np.ndarray:
    """Some words much likelier than others, as of a trained generator."""
    random = np.random.RandomState(1)
    return 3 * random.randn(SAMPLES, PLACES, facts.VOCABULARY)


def sample(scores: np.ndarray, seed: int, sharper: float = 1.0) -> np.ndarray:
    noise = np.random.RandomState(seed).gumbel(size=scores.shape)
    return (sharper * scores + noise).argmax(-1)


def test_only_a_workload_that_draws_while_it_is_tested_says_what():
    assert models.of("electra") is drawn
    assert models.of("resnet50") is models.of("electra_squad") is None


def test_words_are_read_as_the_tally_reads_them(scores):
    words = sample(scores, 2)
    words[0] = 0, 1, facts.VOCABULARY - 1
    assert (drawn.words(answers(words, scores), batch()) == words).all()


@pytest.mark.parametrize("value", [-1, facts.VOCABULARY, np.nan, np.inf])
def test_what_is_no_word_is_told(scores, value):
    words = sample(scores, 2).astype(float)
    words[2, 1] = value
    found = drawn.words(answers(words, scores), batch())
    assert found[2, 1] == -1 and (found == -1).sum() == 1


def test_the_formulas_draw_the_words_that_they_are_given(scores):
    words = sample(scores, 3)
    *_, noise = drawn.given(batch(), words)
    assert ((1000 * scores + noise).argmax(-1) == words).all()


def test_words_by_chance_are_a_few_deviations_off(scores):
    outputs = answers(sample(scores, 0), scores).astype("float64")
    found = [drawn.deviations(outputs, batch(), sample(scores, seed)) for seed in range(200)]
    assert abs(np.mean(found)) < 0.3 and 0.8 < np.std(found) < 1.2
    assert max(map(abs, found)) < 5


@pytest.mark.parametrize("sharper", [0.5, 2.0, 1000.0])
def test_words_of_other_probabilities_are_far_off(sharper):
    random = np.random.RandomState(1)
    scores = 3 * random.randn(SAMPLES, PLACES, facts.VOCABULARY)
    many = np.repeat(scores, 20, 0)  # a hundred samples of three words
    own = [np.repeat(each, 20, 0) for each in batch()]
    outputs = many.reshape(len(many), -1)
    assert abs(drawn.deviations(outputs, own, sample(many, 4, sharper))) > 8
    assert abs(drawn.deviations(outputs, own, sample(many, 4))) < 5


def test_places_that_are_not_used_say_nothing(scores):
    words, outputs = sample(scores, 5), answers(sample(scores, 0), scores).astype("float64")
    other = words.copy()
    other[0, 1:] = 7
    assert drawn.deviations(outputs, batch(), words) == drawn.deviations(outputs, batch(), other)
    nothing = [*batch()[:5], np.zeros((SAMPLES, PLACES), "float32")]
    assert drawn.deviations(outputs, nothing, words) == 0
