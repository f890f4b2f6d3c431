"""Batches made ahead of the timed window by one background thread."""

import collections
import math
import threading
import time

import numpy as np

from dlperf.loaders import DataError

PREFETCH_BYTES = 2**30  # what the queue of one rank may hold
LOOK_AHEAD = 2  # batches that a framework's own input pipeline may take beyond the last step


def check(input):
    """Raise DataError where a contract.run.Input asks for something that no loader has."""
    for key in ("batch_size", "parts"):
        if getattr(input, key) < 1:
            raise DataError(f"{key} is {getattr(input, key)}: at least 1 is needed")
    if not 0 <= input.part < input.parts:
        raise DataError(f"part {input.part} is not one of the parts 0 to {input.parts - 1}")
    if not 0 <= input.seed < 2**32:
        raise DataError(f"settings key 'seed': {input.seed} is not within 0 and 2**32 - 1")


def share(input, count):
    """A part's share of `count` test samples: (the places of a batch's, how many of them count).

    The last batch is filled up with its first sample, so that all have one shape.
    """
    own = np.array_split(np.arange(count), input.parts)[input.part]
    for start in range(0, len(own), input.batch_size):
        taken = own[start : start + input.batch_size]
        yield np.append(taken, np.repeat(taken[:1], input.batch_size - len(taken))), len(taken)


class Batches:
    """What every source of batches has beside its own `next`, `fill` and `close`.

    expect(batches): so many are asked for, all together, where that is not known from the start.
    pooled: they are synthetic (pool.py); `redraw(seed, steps)`, called before each window of
    so many steps, draws others.
    on_device: they are there already, and `noise()`, where it is not None, gives those before the
    quality scenario begins, from the host.
    waited_seconds: how long `next` has waited. parity: what the table of settings says.
    """

    pooled = False
    on_device = False
    noise = None
    waited_seconds = 0.0

    def expect(self, batches):
        pass

    def redraw(self, seed, steps):
        pass

    def known(self):
        """What a test is judged by beside the batches' arrays, as more arguments of `tally`."""
        return ()


class Prefetched(Batches):
    """Reads ahead until `prefetch` batches are ready, and ends after `batches` of them.

    So it takes no more of a core from the timed window than it must; batches beyond these (and
    LOOK_AHEAD more) are made when `next` asks for them. `batches=None` reads ahead without end;
    `prefetch=None` holds all that the run needs, as far as they fit into PREFETCH_BYTES, or
    LOOK_AHEAD until `expect` says how many that are.

    A subclass has `_batches()`, an endless generator of batches, and `_digest(batch)`. For a
    the quality scenario it has `_noise()` too: `warmup` batches of that come first, and nothing
    of the others is read before `begin` is called.
    """

    parity = {"data_loader": "shared, one thread ahead"}

    def __init__(self, batch_bytes, batches, prefetch, warmup=0):
        self._most = PREFETCH_BYTES // batch_bytes if prefetch is None else prefetch
        self._steps, self._prefetch = math.inf, max(1, min(LOOK_AHEAD, self._most))
        if batches is not None:
            self._hold(batches)
        elif prefetch is not None:
            self._prefetch = max(1, prefetch)

        self.waited_seconds = 0.0
        self.first_batch_sha256 = None  # known after fill()
        self._changed = threading.Condition()
        self._queue = collections.deque()
        self._made = 0
        self._waiting = False
        self._closed = False
        self._error = None
        self._warmup = warmup
        self._begun = threading.Event()
        if not warmup:
            self._begun.set()
        self._thread = threading.Thread(target=self._produce, name="dlperf-data", daemon=True)
        self._thread.start()

    def expect(self, batches):
        with self._changed:
            self._hold(batches)
            self._changed.notify_all()

    def _hold(self, batches):
        self._steps = batches + LOOK_AHEAD
        self._prefetch = max(1, min(self._steps, self._most))

    def begin(self):
        """Let the batches to train on come."""
        self._begun.set()

    def next(self):
        """The next batch; the time spent waiting for it is added to `waited_seconds`.

        Raises DataError where the batch could not be read, or after close().
        """
        with self._changed:
            if not self._queue:
                start = time.perf_counter()
                self._waiting = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._ended())
                self._waiting = False
                self.waited_seconds += time.perf_counter() - start
            if not self._queue:
                raise self._error or DataError("no batch: the batches are closed")
            batch = self._queue.popleft()
            if self._wanted():
                self._changed.notify_all()
            return batch

    def fill(self):
        """Wait until the queue is full, or holds all that is left of the run."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    len(self._queue) >= self._prefetch or self._made >= self._steps or self._ended()
                )
            )
            if self._error:
                raise self._error

    def close(self):
        """End the thread; what lies in the queue is dropped."""
        self._begun.set()
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _wanted(self):
        room = len(self._queue) < self._prefetch
        return room and (self._made < self._steps or self._waiting)

    def _ended(self):
        return self._closed or self._error is not None

    def _all(self):
        for _ in range(self._warmup):
            yield self._noise()
        self._begun.wait()
        if not self._closed:
            yield from self._batches()

    def _produce(self):
        try:
            batches = self._all()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._wanted() or self._closed)
                    if self._closed:
                        return
                batch = next(batches, None)
                if batch is None:  # closed before it began
                    return
                if self._made == self._warmup:  # whose digest is told
                    self.first_batch_sha256 = self._digest(batch)
                with self._changed:
                    if self._closed:
                        return
                    self._queue.append(batch)
                    self._made += 1
                    self._changed.notify_all()
        except Exception as error:  # carried to the caller of next() or fill()
            with self._changed:
                self._error = error
                self._changed.notify_all()
