"""Synthetic batches: a pool, drawn anew before each window, the same for all frameworks."""

import itertools

import numpy as np
import pytest

from dlperf.contract.run import POOL, Input
from dlperf.contract.work import feed
from dlperf.loaders import pool
from dlperf.workloads import inputs

SIZES = {
    "resnet50": {"image_size": 16},
    "bert": {"sequence_length": 16},
    "gpt": {"sequence_length": 16},
    "wide_deep": {"vocabulary": 260},
    "insightface": {"image_size": 16, "num_classes": 101, "sample_rate": "1"},
    "electra": {"sequence_length": 16},
    "electra_squad": {"sequence_length": 64},
}


def opened(workload="wide_deep", **changes):
    own = {"batch_size": 8, "seed": 1, "dimensions": SIZES[workload], **changes}
    asked = Input(workload=workload, data="synthetic", data_dir="", **own)
    return inputs.loader(workload, "synthetic").open_batches(asked, "NCHW")


def same(one, other):
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def alike(one, other):
    """Whether any of two batches' arrays are the same, of those that differ by chance at all."""
    return any(
        np.array_equal(mine, theirs)
        for mine, theirs in zip(one, other, strict=True)
        if len(np.unique(mine)) > 2
    )


@pytest.mark.parametrize("workload", SIZES)
def test_no_two_batches_are_alike_and_each_window_has_others(workload):
    with opened(workload) as batches:
        drawn = list(batches.contents())
        batches.redraw(1, 100)  # of the very seed that warm-up had
        drawn += batches.contents()
        batches.redraw(2, 100)
        drawn += batches.contents()
    assert len(drawn) == 3 * POOL
    assert not any(alike(*pair) for pair in itertools.combinations(drawn, 2))


def test_a_training_gets_all_batches_and_then_again_in_other_orders():
    with opened() as batches:
        batches.redraw(5, 100)
        contents, taken = list(batches.contents()), [batches.next() for _ in range(5 * POOL)]
    order = batches.order[: 5 * POOL]
    assert order[:POOL] == list(range(POOL))
    turns = {tuple(order[first : first + POOL]) for first in range(0, 5 * POOL, POOL)}
    assert len(turns) == 5 and {tuple(sorted(each)) for each in turns} == {tuple(range(POOL))}
    assert all(one != other for one, other in itertools.pairwise(batches.order))
    assert all(same(batch, contents[place]) for place, batch in zip(order, taken, strict=True))


def test_all_parts_have_the_same_order_and_other_batches():
    with opened(parts=2) as one, opened(part=1, parts=2) as other:
        for each in (one, other):
            each.redraw(5, 100)
        assert one.order == other.order and not alike(one.next(), other.next())


def test_no_batch_of_an_inference_comes_twice():
    with opened(pool=0) as batches:
        batches.redraw(5, 20)
        drawn = [*batches.contents(), *(batches.next() for _ in range(20))]
        assert same(drawn[25], batches.batch(25))
    assert len(drawn) == 40 and batches.order[:20] == list(range(20))
    assert not any(alike(*pair) for pair in itertools.combinations(drawn, 2))


def test_a_pool_takes_no_more_memory_than_it_may_and_says_how_many_it_has():
    with opened() as batches:
        size = sum(array.nbytes for array in batches.next())
    for allowed, count in ((20 * size, POOL), (5 * size, 5), (size, pool.LEAST), (0, POOL)):
        with opened(pool_bytes=allowed) as batches:
            assert (batches.distinct, batches.parity["synthetic_batches"]) == (count, count)
    with opened(pool=0, pool_bytes=5 * size) as batches:
        batches.redraw(5, 20)
        assert batches.distinct == 5


def test_old_batches_are_gone_before_new_ones_are_put():
    alive, most = set(), 0

    class There:
        def __init__(self, *batch):
            nonlocal most
            alive.add(id(self))
            most = max(most, len(alive))
            self.batch = batch

        def __del__(self):
            alive.discard(id(self))

    with opened() as batches:
        arrived = []
        give = feed(batches, There, lambda there: arrived.append(len(there)))
        first = give().batch
        batches.redraw(5, 100)
        assert not alike(first, give().batch) and same(give().batch, batches.batch(1))
    assert most == POOL and arrived == [POOL, POOL]


def test_it_is_drawn_as_fast_as_it_is_copied(monkeypatch):
    """Each value of an image by itself would be drawn: 2 million of 2 million."""
    drawn = []

    class Counting(np.random.RandomState):
        def standard_normal(self, size=None):
            drawn.append(size)
            return super().standard_normal(size)

    monkeypatch.setattr(np.random, "RandomState", Counting)
    with opened("resnet50", batch_size=14, dimensions={"image_size": 224}):
        assert sum(drawn) < 0.14 * 14 * 3 * 224**2
