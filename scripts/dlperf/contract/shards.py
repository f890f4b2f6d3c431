"""A rank's part of a table that ranks share out: by columns, or by rows.

By columns, a rank has its columns of every row; all ranks together must divide the width. By rows,
it has a block of them, and one more that stays 0: what is asked of a rank that does not have it
lies there, so that shapes do not depend on ids. What ranks exchange is alike in both: each gathers
the ids of all, looks them up in its part, and gives every rank what that one asked for.
"""

from dlperf.contract.work import parts

COLUMNS, ROWS = "columns", "rows"


class Shard:
    """The part of rank `rank` of `ranks` of a table (rows, width), shared out `by` one of the two.

    shape: of the rank's own array; together: of all, side by side. entries: the table's numbers,
    on all ranks together.
    """

    def __init__(self, run, rows, width, by):
        self.rank, self.ranks, self.rows, self.width, self.by = run.rank, run.ranks, rows, width, by
        self.block = -(-rows // run.ranks)  # the last rank's may have rows of nobody
        self.first = run.rank * self.block
        self.entries = rows * width
        if by == COLUMNS:
            self.shape, self.together = (rows, width // run.ranks), (rows, width)
        else:
            self.shape = (self.block + 1, width)
            self.together = (run.ranks * self.shape[0], width)

    def own(self, array):
        """A canonical array, or a Table -> this rank's part, an array."""
        import numpy as np  # not for the plan

        found, columns = None, self.shape[1]
        for first, _, rows in parts(array):
            if found is None:
                found = np.zeros(self.shape, rows.dtype)
            if self.by == COLUMNS:
                own = slice(self.rank * columns, (self.rank + 1) * columns)
                found[first : first + len(rows)] = rows[:, own]
                continue
            begin = max(first, self.first)
            end = min(first + len(rows), self.first + self.block)
            if begin < end:
                there = rows[begin - first : end - first]
                found[begin - self.first : end - self.first] = there
        return found

    def whole(self, arrays):
        """The arrays of all ranks, in order -> the canonical one."""
        import numpy as np

        if self.by == COLUMNS:
            return np.concatenate(arrays, 1)
        return np.concatenate([part[:-1] for part in arrays])[: self.rows]
