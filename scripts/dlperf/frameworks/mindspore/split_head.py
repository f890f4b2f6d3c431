"""A softmax over many classes whose weights ranks share out, in MindSpore: the pieces of a head.

Each replica has a block of the classes' rows (`RowBlock`). `Gathered` brings the features of all
replicas to each, `MeanCrossEntropy` is that of scores of which each rank has its own classes'
columns, `Taken` takes some rows with a sparse gradient, and `SGD` has momentum and decay of such
rows alone. A row's gradient is that of the mean loss over the global batch, and is never averaged:
the gradient reducer leaves out what is `layerwise_parallel`.

On a CPU AllReduce knows sums alone and there is no ReduceScatter, and the backward pass of
MindSpore's own AllReduce and AllGather multiplies by the number of ranks: so cells here have
backward passes of their own.
"""

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.common.initializer import initializer

from dlperf.contract.run import Unsupported

NEVER = -1e30  # the score of a row that a step does not take


def weight(run, rows):
    """The parameter of a rank's RowBlock, without values yet."""
    if rows.by is not None and run.distributed and run.amp:
        raise Unsupported("ranks of a split head do not agree on which steps overflow float16")
    is_apart = rows.by is not None  # so no rank averages it
    return Parameter(initializer("zeros", rows.shape), layerwise_parallel=is_apart)


class Gathered(nn.Cell):
    """All replicas' features, those of rank 0 first. Their gradients are added up over ranks, and
    multiplied by how many there are, as the gradient reducer averages what comes of them."""

    def __init__(self, run):
        super().__init__()
        self.rank, self.ranks = run.rank, run.ranks
        self.gather, self.sum = ops.AllGather(), ops.AllReduce()

    def construct(self, features):
        return self.gather(features)

    def bprop(self, features, out, gradient):
        first = self.rank * features.shape[0]
        own = self.sum(gradient)[first : first + features.shape[0]]
        return (own * self.ranks,)


class MeanCrossEntropy(nn.Cell):
    """The mean over all rows of scores, of which each rank has some columns if `is_split`.

    scores: (batch, a rank's classes). places: (batch,), the column of a row's own class; below 0
    where another rank has it. Ranks exchange three numbers a row, once.
    """

    def __init__(self, run, is_split):
        super().__init__()
        self.losses = Losses(run.ranks if is_split else 1)

    def construct(self, scores, places):
        return self.losses(scores, places)[0]


class Losses(nn.Cell):
    """(the mean loss, and of each row shares of its own columns, by what they are divided)"""

    def __init__(self, ranks):
        super().__init__()
        self.ranks, self.gather = ranks, ops.AllGather() if ranks > 1 else None

    def construct(self, scores, places):
        column, is_own = own_column(places)
        target = ops.gather_elements(scores, 1, column).reshape(-1) * is_own
        largest = scores.max(axis=1)
        shares = ops.exp(scores - largest.expand_dims(1))
        total = shares.sum(1)
        top, total_at_own = largest, total
        if self.ranks > 1:
            found = ops.stack((largest, total, target))
            together = self.gather(found).reshape((self.ranks, 3, -1))
            tops, totals, targets = together[:, 0], together[:, 1], together[:, 2]
            top = tops.max(axis=0)
            total = (totals * ops.exp(tops - top)).sum(0)
            target = targets.sum(0)
            total_at_own = total * ops.exp(top - largest)
        return (top + ops.log(total) - target).mean(), shares, total_at_own

    def bprop(self, scores, places, out, gradients):
        _, shares, total = out
        column, is_own = own_column(places)
        each = gradients[0] / scores.shape[0]
        less = shares * (each / total).expand_dims(1)
        less = ops.tensor_scatter_elements(less, column, (-each * is_own).expand_dims(1), 1, "add")
        return less, ops.zeros_like(places)


def own_column(places):
    """(the column of a row's own class, (batch, 1), whether this rank has it, 1.0 or 0.0)"""
    return ops.maximum(places, 0).expand_dims(1), (places >= 0).astype(ms.float32)


class Taken(nn.Cell):
    """Some rows of a parameter, each once; its gradient is sparse, of these rows alone.

    0 for numbers beyond it. Only in a graph: else MindSpore has no sparse gradients.
    """

    def __init__(self, run):
        super().__init__()
        # the one that has a kernel there, of those whose gradient is sparse
        self.look_up = ops.SparseGatherV2() if run.cuda else ops.EmbeddingLookup().set_device("CPU")

    def construct(self, table, rows):
        return self.look_up(table, rows, 0)


class Sample(nn.Cell):
    """The numbers of `rows` of `count` rows: all that `places` name, and others at random.

    places: (batch,), below 0 for none. More than `rows` where places name more. As shapes are
    fixed, so many are given as could be needed: those that the step does not take have `count`
    added, and are none of the others.
    """

    def __init__(self, count, rows, seed):
        super().__init__()
        self.count, self.rows = count, rows
        # a seed of its own for each rank; 0 would be another one in each process
        self.random, self.largest = ops.UniformReal(1 + seed, 1), ops.TopK()

    def construct(self, places):
        # what names none goes to one more, which is cut off
        places = ops.select(places >= 0, places, ops.full_like(places, self.count))
        twos = ops.full_like(places, 2, dtype=ms.float32)
        keys = self.random((self.count + 1,))
        keys = ops.tensor_scatter_update(keys, places.expand_dims(1), twos)
        return self.first(keys[: self.count], places.shape[0])

    def first(self, keys, named):
        """The rows with the largest keys. named: at most so many have one of 2, whom all are to be
        taken."""
        most = min(self.count, max(self.rows, named))
        values, numbers = self.largest(keys, most)
        if most > self.rows:
            wanted = ops.maximum((values == 2).astype(ms.int32).sum(), self.rows)
            is_wanted = ops.arange(most) < wanted
            numbers = ops.select(is_wanted, numbers, numbers + self.count)
        return numbers


def positions(numbers, count):
    """Where each of `count` rows stands among these numbers: (count,); anything for the others."""
    places = ops.arange(numbers.shape[0]).astype(ms.int32)
    # those that a step does not take are beyond `count`
    nowhere = ops.zeros((2 * count,), ms.int32)
    return ops.tensor_scatter_update(nowhere, numbers.expand_dims(1), places)


def nn_momentum(parameters, lr, momentum, weight_decay):
    """nn.Momentum with decay of all parameters: without a group it leaves out those of norms."""
    group = {"params": list(parameters), "weight_decay": weight_decay}
    return nn.Momentum([group], learning_rate=lr, momentum=momentum)


class SGD(nn.Cell):
    """nn.Momentum of all parameters; of `table`, momentum and decay of the rows that a step takes.

    v = momentum v + g + decay w; w -= rate v. table: the parameter whose gradient is sparse: a
    RowTensor with each row once, as of `Sample`, or ids and rows, of which some may be the same.
    Other rows rest: momentum, decay and all.
    """

    def __init__(self, parameters, table, lr, momentum, weight_decay):
        super().__init__()
        dense = [each for each in parameters if each is not table]
        self.dense = nn_momentum(dense, lr, momentum, weight_decay)
        self.table = table
        (self.velocity,) = ParameterTuple([table]).clone("velocity", init="zeros")
        self.parameters = ParameterTuple([*self.dense.parameters, table])
        self.learning_rate = self.dense.learning_rate
        self.momentum, self.decay = Tensor(momentum, ms.float32), Tensor(weight_decay, ms.float32)
        self.write = ops.ScatterUpdate()

    def construct(self, gradients):
        self.dense(gradients[:-1])
        gradient, count = gradients[-1], self.table.shape[0]
        if isinstance(gradient, tuple):
            ids, rows = gradient
            # where a row stands several times, the sum of all its gradients, each time
            sums = ops.tensor_scatter_add(ops.zeros_like(self.table), ids.expand_dims(1), rows)
            rows = ops.gather(sums, ids, 0)
        else:
            ids, rows = gradient.indices, gradient.values
        numbers = ops.select(ids < count, ids, ids - count)
        before, values = ops.gather(self.velocity, numbers, 0), ops.gather(self.table, numbers, 0)
        moved = self.momentum * before + rows + self.decay * values
        new = values - self.learning_rate * moved
        is_taken = (ids < count).expand_dims(1)
        self.write(self.velocity, numbers, ops.where(is_taken, moved, before))
        self.write(self.table, numbers, ops.where(is_taken, new, values))
        return True
