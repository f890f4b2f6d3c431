"""Tables of which a step touches some rows, in MindSpore: their lookups, and Adam of those rows.

In a graph on a CPU `ops.EmbeddingLookup` gives a table's gradient as a RowTensor: the ids of a
batch, duplicates and all, and a row of numbers for each. A step takes no time for other rows. Of a
table that ranks share out, a rank has a part (contract/shards.py): all is gathered, and each takes
its own.
"""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.common.initializer import initializer

from dlperf.contract.shards import COLUMNS
from dlperf.frameworks.mindspore.parallel import own_entries


class Table(nn.Cell):
    """An embedding, without weights yet."""

    def __init__(self, rows, width, lazy):
        super().__init__()
        self.weight = Parameter(initializer("zeros", (rows, width)))
        self.look_up = ops.EmbeddingLookup().set_device("CPU") if lazy else ops.Gather()

    def construct(self, ids):
        return self.look_up(self.weight, ids, 0)


class Sharded(nn.Cell):
    """A table that ranks share out by a Shard, without weights yet: the rows of a rank's ids.

    Each rank looks up the ids of all in its part. A row's gradient is that of the mean over all
    ranks' batches; the gradient reducer leaves out what is `layerwise_parallel`.
    """

    def __init__(self, shard):
        super().__init__()
        self.weight = Parameter(initializer("zeros", shard.shape), layerwise_parallel=True)
        self.look_up = ops.EmbeddingLookup().set_device("CPU")
        self.gather = ops.AllGather()
        self.by_columns = shard.by == COLUMNS
        self.rank, self.block = shard.rank, shard.block
        self.exchange = Columns(shard) if self.by_columns else Rows(shard)

    def construct(self, ids):
        everyone = self.gather(ids)
        if self.by_columns:
            return self.exchange(self.look_up(self.weight, everyone, 0))
        everyone, is_own = own_entries(everyone, self.rank, self.block)
        # others' lie in a row that stays 0
        everyone = ops.select(is_own, everyone, ops.full_like(everyone, self.block))
        is_own = is_own.astype(ms.float32).expand_dims(-1)
        return self.exchange(self.look_up(self.weight, everyone, 0), is_own)


class Columns(nn.Cell):
    """From a rank's columns of all ranks' rows (ranks x batch, places, columns) to its own whole
    rows (batch, places, width). MindSpore has no all-to-all on a CPU."""

    def __init__(self, shard):
        super().__init__()
        self.rank, self.ranks, self.columns = shard.rank, shard.ranks, shard.shape[1]
        self.gather = ops.AllGather()

    def construct(self, rows):
        count, places, columns = rows.shape
        batch = count // self.ranks
        together = self.gather(rows).reshape((self.ranks, count, places, columns))
        own = together[:, self.rank * batch : (self.rank + 1) * batch]
        return own.transpose((1, 2, 0, 3)).reshape((batch, places, self.ranks * columns))

    def bprop(self, rows, out, gradient):
        first = self.rank * self.columns
        own = self.gather(gradient)[:, :, first : first + self.columns]
        return (own / self.ranks,)


class Rows(nn.Cell):
    """The same of whole rows that are 0 where a rank has not got them; is_own: 1 where it has."""

    def __init__(self, shard):
        super().__init__()
        self.rank, self.ranks = shard.rank, shard.ranks
        self.gather, self.sum = ops.AllGather(), ops.AllReduce()

    def construct(self, rows, is_own):
        batch = rows.shape[0] // self.ranks
        return self.sum(rows)[self.rank * batch : (self.rank + 1) * batch]

    def bprop(self, rows, is_own, out, gradient):
        return self.gather(gradient) * is_own / self.ranks, ops.zeros_like(is_own)


class Adam(nn.Cell):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2. tables: those of the parameters that have sparse gradients
    (a RowTensor, or ids and rows). Their rows are updated where a batch looked them up, by the sum
    of what each place gave; the others rest, moments and all. Steps are counted for all together.
    """

    def __init__(self, parameters, tables, lr, betas, eps):
        super().__init__()
        self.parameters = ParameterTuple(parameters)
        self.sparse = tuple(any(each is table for table in tables) for each in parameters)
        self.first = self.parameters.clone("first", init="zeros")
        self.second = self.parameters.clone("second", init="zeros")
        self.steps = Parameter(Tensor(0, ms.float32), name="steps")
        # Of the betas as the operators have them: where a correction has the same error, both
        # cancel. Epsilon keeps its size beside a root of 1 - beta2, which that changes by 6e-6.
        exact, betas = betas[1], np.array(betas, np.float32)
        eps *= ((1 - float(betas[1])) / (1 - exact)) ** 0.5
        logarithms = [math.log(beta) for beta in betas]
        # a graph keeps Python's numbers in float32
        self.constants = tuple(Tensor(each, ms.float32) for each in [*betas, *logarithms, eps])
        self.learning_rate = Parameter(Tensor(lr, ms.float32), name="learning_rate")
        self.none = Tensor(0, ms.float32)  # for the operators' own bias correction
        self.adam, self.lazy_adam = ops.Adam(), ops.FusedSparseLazyAdam()

    def construct(self, gradients):
        beta1, beta2, log1, log2, epsilon = self.constants
        ops.assign_add(self.steps, ops.ones_like(self.steps))
        rate = (
            self.learning_rate
            * ops.sqrt(-ops.expm1(self.steps * log2))
            / -ops.expm1(self.steps * log1)
        )
        none = self.none
        for index, sparse in enumerate(self.sparse):
            state = self.parameters[index], self.first[index], self.second[index], none, none
            gradient = gradients[index]
            if sparse:
                if isinstance(gradient, tuple):
                    ids, rows = gradient
                else:
                    ids, rows = gradient.indices, gradient.values
                self.lazy_adam(*state, rate, beta1, beta2, epsilon, rows, ids)
            else:
                self.adam(*state, rate, beta1, beta2, epsilon, gradient)
        return True
