"""How a rank keeps its part of a table that replicas divide: by columns, or by rows.

By columns, a rank has its columns of every row; all ranks together must divide the width. By rows,
it has a block of them, and one more that stays 0: what is asked of a rank that does not have it
lies there, so that shapes do not depend on ids. What ranks exchange is alike in both: each gathers
the ids of all, looks them up in its part, and gives every rank what that one asked for.
"""

from dlperf.contract.ownership import divided
from dlperf.contract.work import parts

ROWS, COLUMNS = 0, 1  # the axis along which the facts' Tensor is divided


class Shard:
    """What this rank of a run keeps of the table `name`, a Tensor (rows, width).

    part: the Part that it owns, of `size` values. shape: of its array, in which rows that nobody
    has may stand behind the `held` ones; together: of all ranks' arrays, side by side.
    """

    def __init__(self, run, name, tensor):
        self.rank, self.ranks, self.by = run.rank, run.ranks, tensor.axis
        self.rows, self.width = tensor.shape
        self.part = divided(name, tensor, run.rank, run.ranks)
        self.held, columns = self.part.shape(tensor.shape)
        self.size = self.held * columns
        self.block = -(-self.rows // run.ranks)  # the last rank's may have rows of nobody
        self.first = run.rank * self.block
        if self.by == COLUMNS:
            self.shape, self.together = (self.rows, columns), tensor.shape
        else:
            self.shape = (self.block + 1, self.width)
            self.together = (run.ranks * self.shape[0], self.width)

    def own(self, array):
        """A canonical array, or a Table -> this rank's array."""
        import numpy as np  # not for the plan

        found = np.zeros(self.shape, "float32")
        for first, _, rows in parts(self.part.of(array)):
            found[first : first + len(rows)] = rows
        return found


class RowBlock(Shard):
    """A rank's block of the rows of a tensor, and no others: the last rank's may be shorter."""

    def __init__(self, run, name, tensor):
        super().__init__(run, name, tensor)
        self.shape = (self.held, self.width)
        self.first = self.part.ranges[0][0] if self.part.ranges else 0

    def own(self, array):
        """A canonical array, or a Table -> this rank's."""
        return self.part.of(array)
