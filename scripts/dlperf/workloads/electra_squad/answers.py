"""Answers of SQuAD: from a model's outputs to pieces of paragraphs, and their official score.

A candidate is a start and an end in a window. A question's answer is the best candidate of all its
windows, where a start counts only in the window that has the most of the paragraph around it. The
score is that of the official evaluation script of version 2.0, which on version 1.1's questions
gives what its own gives. Lower case, no punctuation, no articles, no more than one space; then
exact match, and F1 of the words; of several true answers the best counts.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import collections
import re
import string

ARTICLES = re.compile(r"\b(a|an|the)\b")


class Known(
    collections.namedtuple("Known", "table spans characters paragraph_of contexts answers")
):
    """What a test's batches are of.

    table: a row a window: its question, the first token of its piece of the paragraph, how many
    tokens the piece has, and where in the window it begins. spans: where the tokens of each
    paragraph begin, and where the last ones end. characters: the first and behind the last
    character of each token in its paragraph. paragraph_of: that of each question. contexts: the
    paragraphs' text. answers: a list of true answers of each question, empty where there is none.
    """


def candidates(outputs, allowed, ends, longest):
    """(scores, starts, ends, impossible): (batch, starts, ends) each, but for impossible, (batch,).

    outputs: (batch, 1 + starts, 1 + tokens). The first row has the score that there is no answer,
    and the logarithm of each token's probability to be the start; the others a start's token, and
    the logarithms of the probabilities of ends that go with it. allowed: (batch, tokens), 1 where
    an answer may stand. Of each start the best `ends` are candidates; one that is no piece of the
    paragraph, or longer than `longest` tokens, has a score of minus infinity.
    """
    import numpy as np  # not for the plan

    impossible = outputs[:, 0, 0]
    starts = np.rint(outputs[:, 1:, 0]).astype(np.int64)
    of_starts = np.take_along_axis(outputs[:, 0, 1:], starts, 1)
    of_ends = np.where(allowed[:, None, :] > 0, outputs[:, 1:, 1:], -np.inf)
    best = np.argsort(-of_ends, 2, kind="stable")[:, :, :ends]
    scores = of_starts[:, :, None] + np.take_along_axis(of_ends, best, 2)
    first = starts[:, :, None] + 0 * best
    there = (np.take_along_axis(allowed, starts, 1) > 0)[:, :, None]
    right = there & (first > 0) & (best >= first) & (best < first + longest)
    return np.where(right, scores, -np.inf), first, best, impossible


def predictions(scores, starts, ends, impossible, windows, known, threshold):
    """The answer to each question, a piece of its paragraph, or "" for none.

    scores … windows: lists of arrays, a batch each, with every window once. There may be no answer
    where some question has none: then a question has one where in some window the score that there
    is none is not above the threshold. Raises ValueError where a window is missing: it would be
    left out of the mean unseen.
    """
    import numpy as np

    windows = np.concatenate(windows)
    if not np.array_equal(np.sort(windows), np.arange(len(known.table))):
        raise ValueError("%d windows tested, not each of %d" % (len(windows), len(known.table)))
    widest = widest_windows(known)
    scores, starts, ends = (np.concatenate(each) for each in (scores, starts, ends))
    impossible = np.concatenate(impossible)
    best = [(-np.inf, 0, 0)] * len(known.answers)
    least = [np.inf] * len(known.answers)
    for row, window in enumerate(windows):
        question, begin, _, place = known.table[window]
        least[question] = min(least[question], float(impossible[row]))
        tokens = begin + starts[row] - place
        here = scores[row] > -np.inf
        here[here] = [widest[question, token] == window for token in tokens[here]]
        if here.any():
            chosen = np.unravel_index(np.where(here, scores[row], -np.inf).argmax(), here.shape)
            score = float(scores[row][chosen])
            if score > best[question][0]:
                last = begin + ends[row][chosen] - place
                best[question] = (score, int(tokens[chosen]), int(last))
    some_have_none = not all(known.answers)
    found = []
    for question, (score, first, last) in enumerate(best):
        none = score == -np.inf or (some_have_none and least[question] > threshold)
        found.append("" if none else piece(known, question, first, last))
    return found


def piece(known, question, first, last):
    """The paragraph's text from its token `first` to `last`."""
    paragraph = known.paragraph_of[question]
    start = known.spans[paragraph]
    begin, end = known.characters[start + first][0], known.characters[start + last][1]
    return known.contexts[paragraph][begin:end]


def widest_windows(known):
    """{(question, token of its paragraph): the window with the most of the paragraph around it}.

    The most: of the fewer tokens on either side; where windows are alike, longer ones, then the
    first [google-research/electra finetune/qa/qa_tasks.py].
    """
    best = {}
    for window, (question, begin, count, _) in enumerate(known.table):
        for place in range(count):
            around = min(place, count - 1 - place) + 0.01 * count
            key = (question, begin + place)
            if key not in best or around > best[key][0]:
                best[key] = (around, window)
    return {key: window for key, (_, window) in best.items()}


def normalized(text):
    """A text as it is compared."""
    text = "".join(each for each in text.lower() if each not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", text).split())


def exact(answer, true):
    """1.0 where both are the same, else 0.0."""
    return float(normalized(answer) == normalized(true))


def f1(answer, true):
    """The harmonic mean of precision and recall of the words; where one has none, whether both."""
    answer, true = normalized(answer).split(), normalized(true).split()
    if not answer or not true:
        return float(answer == true)
    common = sum((collections.Counter(answer) & collections.Counter(true)).values())
    return 2.0 * common / (len(answer) + len(true))


def judged(found, answers):
    """[exact matches, the sum of F1, how many questions]: the best of each one's true answers."""
    sums = [0.0, 0.0, float(len(answers))]
    for answer, true in zip(found, answers):
        true = [each for each in true if normalized(each)] or [""]
        sums[0] += max(exact(answer, each) for each in true)
        sums[1] += max(f1(answer, each) for each in true)
    return sums
