"""What ranks keep of a table that they divide: together it is the table."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlperf.contract import mesh, tensor
from dlperf.contract.shards import COLUMNS, ROWS, Shard
from dlperf.contract.tensor import Tensor
from dlperf.contract.work import table


def shards(ranks, rows, width, by):
    known = Tensor((rows, width), tensor.EMBEDDING, axis=by, over=mesh.DATA)
    return [Shard(SimpleNamespace(rank=r, ranks=ranks), "table", known) for r in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("rows", [8, 9, 11, 3])  # devices need not divide the rows
@pytest.mark.parametrize("by", [COLUMNS, ROWS])
def test_the_parts_of_all_ranks_are_the_table(ranks, rows, by):
    array = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
    found, again = shards(ranks, rows, 4, by), np.full((rows, 4), np.nan)
    arrays = [shard.own(array) for shard in found]
    assert {each.shape for each in arrays} == {found[0].shape}
    for shard, own in zip(found, arrays, strict=True):
        shard.part.put(again, own[: shard.held])
        assert not own[shard.held :].any(), "rows that nobody has"
    assert np.array_equal(again, array)
    assert sum(shard.size for shard in found) == array.size


@pytest.mark.parametrize("by", [COLUMNS, ROWS])
def test_a_table_by_rows_gives_the_same_parts(by):
    array = np.arange(44, dtype="float32").reshape(11, 4)
    by_rows = table(array.shape, lambda first, last: array[first:last], 3)
    for shard in shards(4, 11, 4, by):
        assert np.array_equal(shard.own(by_rows), shard.own(array))


def test_a_rank_holds_its_columns_of_every_row():
    table = np.arange(8.0).reshape(2, 4)
    assert [shard.own(table).tolist() for shard in shards(2, 2, 4, COLUMNS)] == [
        [[0, 1], [4, 5]],
        [[2, 3], [6, 7]],
    ]


def test_a_rank_holds_a_block_of_rows_and_one_of_zeros_behind_it():
    table = np.array([[1.0], [2.0], [3.0]])
    assert [shard.own(table).tolist() for shard in shards(2, 3, 1, ROWS)] == [
        [[1], [2], [0]],
        [[3], [0], [0]],
    ]
