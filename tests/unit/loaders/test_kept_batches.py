"""Batches of a framework's own reader: kept in a window, told in a document, read again."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf.certify import answered, replay
from dlperf.loaders import readers
from dlperf.measure import given


def reader(room: int, **options) -> readers.Reader:
    """One of batches that are their number, which `arrays` make NumPy's."""
    found = readers.Reader(
        iter(itertools.count()),
        SimpleNamespace(manifest_sha256=""),
        {},
        lambda batch: [np.array([batch])],
        **options,
    )
    found.room = room
    return found


def numbers(kept: list) -> list[int]:
    return [int(array[0]) for (array,) in kept]


def test_a_reader_keeps_the_batches_of_the_last_window():
    made = reader(room=3)
    made.next()
    assert made.given() is None  # of no window
    for steps in (2, 3):
        made.fill()  # what was ready before the window is the window's
        made.redraw(seed=1, steps=steps)
        given_here = [made.next() for _ in range(steps)]
        assert numbers(made.given()) == given_here


@pytest.mark.parametrize("steps", [0, 4], ids=["not known", "no room"])
def test_a_window_that_is_too_long_is_not_kept(steps):
    made = reader(room=3)
    made.redraw(seed=1, steps=2)
    made.next()
    made.redraw(seed=1, steps=steps)
    made.next()
    assert made.given() is None


def test_what_a_reader_writes_over_is_copied_when_it_is_given():
    buffer = np.zeros(1)

    def batches():
        for number in itertools.count():
            buffer[0] = number
            yield buffer

    made = reader(room=3, keep=np.copy)
    made._batches, made.arrays = batches(), lambda batch: [batch]
    made.redraw(seed=1, steps=2)
    made.next()
    made.next()
    assert numbers(made.given()) == [0, 1]


def test_a_reader_whose_batches_stay_in_a_graph_keeps_none():
    made = reader(room=3, keep=None)
    made.redraw(seed=1, steps=1)
    made.next()
    assert made.given() is None


@pytest.mark.parametrize("layout", [(0, 1, 2, 3), (0, 2, 3, 1)], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("types", [("float32", "int64"), ("float16", "float32")], ids=str)
def test_a_document_has_the_very_batches_whatever_a_framework_makes_of_them(layout, types):
    dice = np.random.RandomState(1)
    images = dice.standard_normal((2, 3, 4, 5)).astype(types[0])
    labels = np.array([[3], [999]], types[1])
    document = given.told([[images.transpose(layout), labels]] * 2)
    batches = given.read(document)
    assert len(batches) == 2
    for found, answers in batches:
        assert (found == images.astype("float32")).all() and found.dtype == np.float32
        assert answers.tolist() == [3, 999] and answers.dtype == np.int64


def test_batches_that_were_not_kept_are_told_as_none():
    assert given.told(None) is None


def test_a_window_that_takes_no_batch_is_an_error():
    made = reader(room=3)
    made.redraw(seed=1, steps=2)
    with pytest.raises(ValueError, match="no batch of the reader"):
        given.told(made.given())


def test_a_replay_goes_on_behind_the_last_batch_that_a_run_took():
    batch = [np.ones((1, 3, 4, 4), "float32"), np.array([7])]
    source = replay.Given(given.told([batch]))
    assert source.next() is source.next()


def test_a_replay_reads_on_to_the_batches_that_are_asked_for():
    """Those of a pool have numbers; those that are read come in turn."""
    coming = itertools.count()
    read = SimpleNamespace(pooled=False, next=lambda: f"batch {next(coming)}")
    assert list(answered.batches_of(read, {4, 1})) == [(1, "batch 1"), (4, "batch 4")]
    assert next(coming) == 5
    pool = SimpleNamespace(pooled=True, batch=lambda number: f"batch {number}")
    assert list(answered.batches_of(pool, {40, 1})) == [(1, "batch 1"), (40, "batch 40")]
