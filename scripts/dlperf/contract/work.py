"""What an implementation hands to the stopwatch."""

import dataclasses
import itertools
from typing import Any, Callable, Dict, NamedTuple, Optional

from dlperf.contract.tensor import ROWS


@dataclasses.dataclass
class Work:
    """A workload made ready in one framework.

    step: queues one training step, an update on as many batches as the run accumulates, and returns
        a handle of its mean loss; it must not wait for the device.
    wait: returns when all queued steps, their weight updates included, are done.
    loss: the float behind a handle; called outside the timed window. None where a rank has none.
        It gives None for a step whose loss is gone, as a framework may keep the last one alone.
    parameters: the number of trainable values, counted in the framework's own model: of one that
        is split over ranks, of this rank's part, whether or not replicas shard that.
    batches: a loader's source (workloads/inputs.py); filled before the window, asked for its waits
        after it.
    parity: settings that the workload chose, read back where the framework can say.
    weights: reads and writes the very weights that `step` trains; an object with `read()`, which
        gives (canonical name, array in canonical layout) one by one, good until the next step, and
        `write({name: such an array})`. In place of a name stands a Part (contract/ownership.py)
        where this rank has not the whole tensor; what is written are whole ones, of which a rank
        takes its own (`Part.of`). A large table is a Table in both, and what is written may be one
        where this rank has a part alone: so nothing is whole beside the framework's own. The names
        and shapes are those of the facts' `parameters(dimensions)`.
        Written before the first step, until which the model's weights may be anything, or between
        any two steps; float32 copies of narrow weights are written too. `statistics()` gives this
        rank's running ones of batch-norm in the same way, as the facts' `statistics` name them;
        nothing of other models. `write_statistics({name: array})` sets them, where there are some.
    restart: begins anew from these weights, as `weights.write` takes them, between any two steps:
        running statistics 0 and 1, no moments, no steps counted (of the bias correction, too), the
        loss scale and what it counts as at first, and the first rate where a schedule has one for
        each step. Batches and random numbers go on. What is compiled stays, and so does all memory
        that it knows: state is written where it is, and none is left for the next step to make.
        None where a framework cannot do that.
    weights_in_files: True where `weights` are read through files, which takes as long as a disk
        does; False: from memory.
    evaluate: of the quality scenario, by `scheduled`; None where a framework's page has no such
        training. From a batch's arrays on the host, as the loader gives them but with zeros in
        place of the facts' `answers`, to its outputs on the host, a NumPy array: the forward pass
        of an inference, with the weights as they are.
    """

    step: Callable[[], Any]
    wait: Callable[[], None]
    loss: Optional[Callable[[Any], float]]
    parameters: int
    batches: Any
    parity: Dict[str, Any]
    weights: Any = None
    restart: Optional[Callable[[Any], None]] = None
    weights_in_files: bool = False
    evaluate: Optional[Callable[..., Any]] = None


def restartable(work, forget, running):
    """The same Work with a `restart`.

    forget(): sets to its start what a step has beside weights and running statistics: moments,
    counts of steps, the loss scale. running: name -> array, batch-norm's running statistics as they
    start; {}: there are none.
    """

    def restart(arrays):
        work.weights.write(arrays)
        if running:
            work.weights.write_statistics(running)
        forget()

    return dataclasses.replace(work, restart=restart)


def scheduled(work, rates, set_rate, evaluate):
    """The same Work with a learning rate of its own in each step, for the quality scenario.

    rates: of the steps; the last one stays. set_rate(rate): called on the host before each step; it
    must not wait for the device. evaluate: as of Work.
    """
    step, restart, coming = work.step, work.restart, itertools.count()

    def step_at_rate():
        set_rate(rates[min(next(coming), len(rates) - 1)])
        return step()

    def restart_at_first_rate(arrays):
        nonlocal coming
        coming = itertools.count()
        restart(arrays)

    return dataclasses.replace(
        work, step=step_at_rate, evaluate=evaluate, restart=restart_at_first_rate
    )


@dataclasses.dataclass
class Inference:
    """A workload made ready in one framework to give a model's outputs.

    step: queues the forward pass of the next batch, and the copy of its outputs to the host where
        the framework copies while it computes; returns a handle of them. It must not wait for the
        device.
    wait: returns when all queued passes are done and all their outputs are on the host.
    outputs: the NumPy array behind a handle, (batch, …), which is there; called outside of the
        timed window.
    answer: from a batch's arrays on the host, as the loader gives them, to its outputs on the host,
        a NumPy array. Copies both ways are part of it.
    parameters, batches, parity: as of Work.
    weights: as of Work, but all is written before the first step or answer and only then: a model
        may be frozen there. Where `write_statistics` is not called, batch-norm's running ones are 0
        and 1. What is written is canonical also where the network has other tensors, the facts'
        `built`: `read` gives those.
    """

    step: Callable[[], Any]
    wait: Callable[[], None]
    outputs: Callable[[Any], Any]
    answer: Callable[..., Any]
    parameters: int
    batches: Any
    parity: Dict[str, Any]
    weights: Any = None


class Queued:
    """Outputs of queued steps: NumPy arrays when they were waited for.

    to_host(outputs): their array. synchronize: waits for all else that is queued.
    """

    def __init__(self, to_host, synchronize=lambda: None):
        self._to_host, self._synchronize, self._coming = to_host, synchronize, []

    def add(self, outputs):
        """The handle of a step's outputs."""
        handle = [outputs]
        self._coming.append(handle)
        return handle

    def wait(self):
        for handle in self._coming:  # in place, so that nothing stays on the device
            handle[0] = self._to_host(handle[0])
        self._coming.clear()
        self._synchronize()

    @staticmethod
    def outputs(handle):
        return handle[0]


class Table(NamedTuple):
    """A tensor by rows: a large table, or one of which this rank has a part.

    parts(): (first row, last row, those of them as an array), once.
    """

    shape: Any
    parts: Callable[[], Any]


def table(shape, rows, count=ROWS):
    """The Table of this shape; rows(first, last): those of them as an array, `count` at a time."""
    ends = [(first, min(first + count, shape[0])) for first in range(0, shape[0], count)]
    return Table(tuple(shape), lambda: ((*each, rows(*each)) for each in ends))


def parts(array):
    """The parts of a Table, or an array as the one part: (0, None, array)."""
    return array.parts() if isinstance(array, Table) else [(0, None, array)]


def as_array(given):
    """An array, or all rows of a Table, which no large one is asked for, as one."""
    import numpy as np  # not for the plan

    if not isinstance(given, Table):
        return given
    found = np.empty(given.shape, "float32")
    for first, last, rows in given.parts():
        found[first:last] = rows
    return found


def side_by_side(one, other):
    """Pairs of the same rows of two arrays or Tables of one shape, whose parts may differ."""
    mine, theirs = ((rows for _, _, rows in parts(given)) for given in (one, other))
    own = more = ()
    while True:
        own = own if len(own) else next(mine, None)
        more = more if len(more) else next(theirs, None)
        if own is None or more is None:
            return
        count = min(len(own), len(more))
        yield own[:count], more[:count]
        own, more = own[count:], more[count:]


class Rows(NamedTuple):
    """A sparse gradient, of a table's rows: what an optimiser alone is given for one.

    ids: int64, (n,); one may stand several times, and its gradient is the sum of its values.
    values: float32, (n, width).
    """

    ids: Any
    values: Any


def feed(batches, put, arrived=None):
    """Return a function that gives the next batch on the device.

    `put(images, labels)` moves a NumPy batch to the device. A pool of synthetic batches is moved
    when it is drawn, before a window; others each time, which belongs to the step. What a
    framework's own reader gives is there, but the noise before the quality scenario begins.
    arrived(batches on the device): returns when they are there, where the Work's `wait` does not
    wait for that.
    """
    if batches.on_device:
        noise = batches.noise
        if noise is None:
            return batches.next

        def given():
            early = noise()
            return batches.next() if early is None else put(*early)

        return given
    if batches.pooled:
        there = []

        def refill():
            there.clear()  # there need not be room for both
            there.extend(put(*each) for each in batches.contents())
            if arrived:
                arrived(there)

        batches.refill = refill
        refill()
        return lambda: there[next(batches.places)]
    return lambda: put(*batches.next())
