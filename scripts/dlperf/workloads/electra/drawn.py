"""The words that the generator draws while it is tested: read from its answers (facts.tally), and
given to the plain formulas, which then answer as that model has to.

Of evaluations alone: no page imports it.
"""

import math

import numpy as np

from dlperf.workloads.electra import facts

#: Noise by which the formulas draw a word whatever its score is: no score is so large.
DECIDES = 1e6


def words(outputs, batch):
    """(batch, places) integers: the words that answers name, -1 where they name none."""
    places = batch[3].shape[1]
    first = places * facts.VOCABULARY
    found = np.rint(outputs[:, first : first + places].astype(np.float64) * facts.DRAWN_UNIT)
    known = (found >= 0) & (found < facts.VOCABULARY)  # of what is no number, neither
    return np.where(known, found, -1).astype(np.int64)


def given(batch, drawn):
    """The same batch, with the noise by which the formulas draw these words."""
    noise = np.zeros(drawn.shape + (facts.VOCABULARY,), np.float32)
    np.put_along_axis(noise, drawn[:, :, None], DECIDES, 2)
    return tuple(batch) + (noise,)


def deviations(outputs, batch, drawn):
    """How far these words are from what chance draws by the softmax of the formulas' scores.

    By the words' log-probabilities: their sum in all chosen places, less its mean, over its
    standard deviation; 0.0 without a place. outputs: the formulas', in float64.
    """
    places, off, variance = drawn.shape[1], 0.0, 0.0
    for own, chosen, words in zip(outputs, batch[5] > 0, drawn):
        scores = own[: places * facts.VOCABULARY].reshape(places, -1)[chosen]
        scores = scores - scores.max(1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        shares = np.exp(logs)
        mean = (shares * logs).sum(1)
        off += float((logs[np.arange(len(logs)), words[chosen]] - mean).sum())
        variance += float(((shares * logs**2).sum(1) - mean**2).sum())
    return off / math.sqrt(variance) if variance > 0 else 0.0
