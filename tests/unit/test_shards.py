"""Parts of tables that ranks share out: together they are the table."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlperf.contract.shards import COLUMNS, ROWS, Shard


def shards(ranks, rows, width, by):
    return [Shard(SimpleNamespace(rank=r, ranks=ranks), rows, width, by) for r in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("rows", [8, 9, 11, 3])  # devices need not divide the rows
@pytest.mark.parametrize("by", [COLUMNS, ROWS])
def test_the_parts_of_all_ranks_are_the_table(ranks, rows, by):
    table = np.arange(rows * 4.0).reshape(rows, 4)
    found = shards(ranks, rows, 4, by)
    parts = [shard.own(table) for shard in found]
    assert {part.shape for part in parts} == {found[0].shape}
    assert np.array_equal(found[0].whole(parts), table)
    assert found[0].entries == table.size


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
