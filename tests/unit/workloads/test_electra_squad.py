"""SQuAD's score by its official definition, and the schedule and rates of a fine-tuning."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import scenarios
from dlperf.workloads.electra_squad import answers, facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),  # an article is a whole word
        ("U.S.A.", "usa"),  # punctuation leaves no space
        ("well-known", "wellknown"),
        ("“quoted”", "“quoted”"),  # ASCII alone
        ("the", ""),
    ],
)
def test_a_text_is_normalized_as_the_official_script_does(text, expected):
    assert answers.normalized(text) == expected


@pytest.mark.parametrize(
    ("found", "true", "exact", "f1"),
    [
        ("the Tower", "tower.", 1, 1),
        ("in Paris", "Paris", 0, 2 / 3),  # precision 1/2, recall 1
        ("Paris", "Rome", 0, 0),
        ("one one two", "one two two", 0, 2 / 3),  # a bag: one 'one' and one 'two' are common
        ("", "", 1, 1),
        ("", "Paris", 0, 0),
        ("Paris", "", 0, 0),
        ("the", "a", 1, 1),  # nothing is left of either
    ],
)
def test_exact_match_and_f1(found, true, exact, f1):
    assert answers.exact(found, true) == exact
    assert answers.f1(found, true) == pytest.approx(f1)


def test_the_best_of_several_answers_counts_and_none_is_an_empty_text():
    found = ["in Paris", "Rome", "", "Rome"]
    true = [["Paris", "in Paris, France"], [], [], ["the", "Rome"]]
    exact, f1, count = answers.judged(found, true)
    # 4/5 of the first, whose better one has two of three words; none right; right; right
    assert (exact, f1, count) == (2.0, pytest.approx(0.8 + 0 + 1 + 1), 4.0)


def known(rows, true=("x",)):
    """A Known of windows of one paragraph of 12 one-letter words."""
    contexts = ["a b c d e f g h i j k l"]
    characters = [(2 * place, 2 * place + 1) for place in range(12)]
    questions = 1 + max(row[0] for row in rows)
    return answers.Known(
        np.array(rows), [0, 12], characters, [0] * questions, contexts, [list(true)] * questions
    )


def test_a_token_counts_in_the_window_with_the_most_around_it():
    # pieces of 8 and of 8 tokens: token 5 has 2 tokens on its right in the first, 1 left in the
    # second; token 6 has 1 and 2
    widest = answers.widest_windows(known([(0, 0, 8, 4), (0, 4, 8, 4)]))
    assert [widest[0, token] for token in range(12)] == [0] * 6 + [1] * 6


def outputs(length, impossible, starts, ends):
    """starts: {place: score}; ends: {start: {place: score}}."""
    found = np.full((1, 1 + len(starts), 1 + length), -50.0)
    found[0, 0, 0] = impossible
    for row, place in enumerate(sorted(starts)):
        found[0, 0, 1 + place] = starts[place]
        found[0, 1 + row, 0] = place
        for end, score in ends.get(place, {}).items():
            found[0, 1 + row, 1 + end] = score
    return found


def predicted(given, known, threshold=0.0, longest=3, allowed=None):
    allowed = np.ones((1, given[0].shape[2] - 1)) if allowed is None else allowed
    kept = [answers.candidates(each, allowed, 2, longest) for each in given]
    scores, starts, ends, impossible = zip(*kept, strict=True)
    windows = [np.array([number]) for number in range(len(given))]
    return answers.predictions(scores, starts, ends, impossible, windows, known, threshold)


def test_the_end_is_that_which_goes_best_with_a_start():
    one = known([(0, 0, 12, 2)])
    given = outputs(14, 0, {3: -1, 6: -2}, {3: {5: -3}, 6: {7: -0.5}})
    assert predicted([given], one) == ["e f"], "-2.5 is above -4"


def test_a_piece_that_is_too_long_or_ends_before_it_begins_is_none():
    one = known([(0, 0, 12, 2)])
    long = outputs(14, 0, {3: -1, 6: -2}, {3: {6: -0.1, 4: -9}, 6: {4: -0.1, 6: -8}})
    assert predicted([long], one) == ["b c"], "one is 4 long, and one ends before it begins"
    none = outputs(14, 0, {6: -2}, {6: {4: -0.1, 5: -0.2}})
    assert predicted([none], one) == [""]


def test_no_answer_where_every_window_says_so_and_some_question_has_none():
    rows = [(0, 0, 8, 4), (0, 4, 8, 4)]
    first = outputs(12, 3.0, {6: -1}, {6: {6: -1}})  # the third token
    second = outputs(12, 1.0, {8: -1}, {8: {9: -9}})
    assert predicted([first, second], known(rows)) == ["c"], "version 1.1 always answers"
    assert predicted([first, second], known(rows, ())) == [""]
    assert predicted([first, second], known(rows, ()), threshold=2.0) == ["c"]


def test_the_rate_warms_up_and_falls_to_nothing():
    run = SimpleNamespace(scenario="quality", measured_steps=200, global_batch_size=32)
    rates = facts.schedule(run)
    assert len(rates) == 200
    assert rates[:10] == pytest.approx([2e-4 * step / 10 for step in range(1, 11)])
    assert rates[10] == pytest.approx(2e-4) and rates[-1] == pytest.approx(2e-4 / 190)
    assert facts.schedule(SimpleNamespace(scenario="train")) is None


def test_the_rate_grows_with_the_batch_as_published():
    found = [facts.peak_rate(size) for size in (1, 8, 32, 63, 64, 256, 512, 4096)]
    assert found == [1e-4, 1e-4, 2e-4, 2e-4, 3e-4, 8e-4, 1e-3, 1e-3]


def test_lower_layers_are_trained_more_slowly():
    assert facts.rate_share("start.weight") == facts.rate_share("end_norm.bias") == 1
    assert facts.rate_share("layer11.ffn2.weight") == pytest.approx(0.8**2)
    assert facts.rate_share("layer0.qkv.bias") == pytest.approx(0.8**13)
    for name in ("word_embedding", "embedding_norm.weight", "segment_embedding"):
        assert facts.rate_share(name) == pytest.approx(0.8**14)


def test_a_round_shows_f1_and_exact_match():
    record = {
        "identity": {"workload": "electra_squad"},
        "curve": [{"sums": [1.0, 2.0, 8.0]}, {"sums": [3.0, 4.0, 8.0]}],
    }
    own = scenarios.metrics("quality", "electra_squad")
    assert own["score"].value(record, None) == 50
    exact = own["exact_match"]
    assert exact.value(record, None) == 37.5
    assert (exact.title, exact.unit, exact.better) == ("Final exact match", "%", "higher")
    assert set(scenarios.metrics("quality", "bert")) == set(own) - {"exact_match"}
