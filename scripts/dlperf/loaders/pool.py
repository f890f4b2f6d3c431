"""Synthetic batches: a pool that is drawn anew before each timed window.

In: a run's Input, and a function that draws a batch. Out: a source of batches (prefetch.Batches).
What is read costs no time, so such a pool shows how fast a framework is by itself. Nothing that was
computed of one window's batches is of use in another, and no step can tell which batch comes next.
"""

import itertools

import numpy as np

from dlperf.contract.run import POOL
from dlperf.loaders.prefetch import Batches

#: A pool has at least so many batches, also where these take more memory than they may.
LEAST = 2
#: Steps whose order is drawn: behind them it comes again.
ORDERED = 512
# The third number of a seed keeps what is drawn for the warm-up, for a window, and orders apart.
WARMUP, WINDOW, ORDER = 0, 1, 2


class Pool(Batches):
    """A rank's synthetic batches, which have numbers, each drawn by its own seed.

    Those of a training come in turn: `distinct` of them, the Input's `pool`, or as many as its
    `pool_bytes` have room for. Where that `pool` is 0, no batch comes twice in a window, as far as
    there is room: `distinct` are those that are kept on the device, and `next()` gives others.

    stream: the loader's own number, which keeps its random numbers apart from those of others.
    draw(random): a batch, by this RandomState. digest(batch): its sha256. of_all(random): what
    batches of this number have together, by a RandomState that is the same in all parts; `draw`
    then gets it, too.

    `contents()` gives the pool's batches one by one, and `places` the number of each step's, by
    `order`, over and over: so whoever keeps them on a device holds none here. `next()` gives
    batches from the host. `redraw(seed, steps)` draws others, for a window of so many steps, and
    then calls `refill`, a function.
    """

    pooled = True
    manifest_sha256 = ""

    def __init__(self, input, stream, draw, digest, of_all=None):
        self._input, self._stream, self._draw, self._of_all = input, stream, draw, of_all
        self._seed, self.refill = (input.seed, WARMUP), None
        first = self.batch(0)
        self.first_batch_sha256 = digest(first)
        self._bytes = sum(array.nbytes for array in first)
        self.parity = {"data_loader": "none (synthetic batches)"}
        self._begin(POOL)

    def redraw(self, seed, steps):
        self._seed = seed, WINDOW
        self._begin(steps)
        if self.refill:
            self.refill()

    def contents(self):
        return map(self.batch, range(self.distinct))

    def batch(self, number):
        """The batch of this number, drawn once more."""
        random = self._random(self._input.part, number)
        if not self._of_all:
            return self._draw(random)
        return self._draw(random, self._of_all(self._random(self._input.parts, number)))

    def _random(self, part, number):
        seed, purpose = self._seed
        return np.random.RandomState([seed, self._stream, purpose, part, number])

    def next(self):
        if not self._input.pool:
            return self.batch(next(self._others))
        place = next(self.places)
        if place not in self._held:
            self._held[place] = self.batch(place)
        return self._held[place]

    def fill(self):
        pass

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _begin(self, steps):
        wanted, room = self._input.pool or steps, self._input.pool_bytes // self._bytes
        self.distinct = max(LEAST, min(wanted, room) if self._input.pool_bytes else wanted)
        self.parity["synthetic_batches"] = self.distinct
        self._held, self._others = {}, itertools.count(self.distinct)
        self.order = self._ordered()
        self.places = itertools.cycle(self.order)

    def _ordered(self):
        """The numbers of steps' batches: each once, and again in another order, over and over.

        They are all new at first, so the first time is in the order of their numbers. No batch
        comes twice in a row. All ranks have the same order.
        """
        seed, purpose = self._seed
        random = np.random.RandomState([seed, self._stream, ORDER, purpose])
        order = list(range(self.distinct))
        while len(order) < ORDERED:
            again = random.permutation(self.distinct).tolist()
            if again[0] != order[-1]:
                order += again
        return order
