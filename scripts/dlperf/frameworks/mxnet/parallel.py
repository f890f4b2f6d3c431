"""What ranks exchange beside gradients, in MXNet: sums and gathered arrays.

By Horovod where it joins the ranks; else by the trainer's store of parameter servers, which can
only add up: to gather, each rank puts its part beside zeros.
"""

import mxnet as mx

from dlperf.frameworks.mxnet import training as framework
from dlperf.frameworks.mxnet.process import by_horovod


class Sum:
    """Adds up arrays of one shape over ranks. `key`: of 0, 1, …, each of a run's exchanges one."""

    def __init__(self, run, trainer, key, shape, dtype):
        self.store, self.key = None, "exchange %d" % key
        if by_horovod(run):
            return
        # the trainer's gradients have the numbers before these
        self.store, self.key = trainer._kvstore, len(trainer._params) + key
        # a pull of the store writes to what was pushed
        self.array = mx.nd.zeros(shape, framework.device(run), dtype)
        self.store.init(self.key, self.array)

    def __call__(self, own):
        """The sum; the next call writes to the same place."""
        if not self.store:
            import horovod.mxnet as hvd

            return hvd.allreduce(own, average=False, name=self.key)
        self.array[:] = own
        self.store.pushpull(self.key, self.array)
        return self.array


class Gather(Sum):
    """Gives each rank the arrays of all, those of rank 0 first; `shape`: of one."""

    def __init__(self, run, trainer, key, shape, dtype):
        super().__init__(run, trainer, key, (run.ranks, *shape), dtype)
        self.rank = run.rank

    def __call__(self, own):
        """(ranks, *shape); the next call writes to the same place."""
        if not self.store:
            import horovod.mxnet as hvd

            return hvd.allgather(own.expand_dims(0), name=self.key)
        self.array[:] = 0
        self.array[self.rank] = own
        self.store.pushpull(self.key, self.array)
        return self.array


def numbers(ids, dtype):
    """Ids (n,) as two columns of numbers, which float32 holds exactly."""
    ids = ids.astype("int32").reshape((-1, 1))
    # MXNet divides integers as float32
    high = mx.nd.floor(ids.astype("float64") / 2**16)
    return mx.nd.concat(high, ids.astype("float64") - high * 2**16, dim=1).astype(dtype)


def ids(numbers):
    """The ids (n,), int32, of two columns of `numbers`."""
    high, low = (mx.nd.slice_axis(numbers, 1, i, i + 1).reshape((-1,)) for i in (0, 1))
    return high.astype("int32") * 2**16 + low.astype("int32")
