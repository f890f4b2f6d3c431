"""A softmax over many classes, in MXNet: the pieces of a head, and its optimiser."""

import mxnet as mx
import numpy as np


def cosines(F, features, centres):
    """Those of features (batch, width) and centres (classes, width)."""
    return F.dot(normalized(F, features), normalized(F, centres), transpose_b=True)


def normalized(F, rows):
    """Rows of length 1; `L2Normalization` adds 1e-10 beneath the root."""
    return F.broadcast_div(rows, F.sqrt(F.sum(F.square(rows), axis=1, keepdims=True)))


class SGD(mx.optimizer.SGD):
    """MXNet's own for a CPU, tensor by tensor: its `multi_sgd_mom_update` takes twice as long.

    In float64 MXNet's operator has momentum as float32, which five steps show: there it is written
    out. The rate is in the momentum's buffer.
    """

    def __init__(self, **settings):
        super().__init__(**settings)
        self.aggregate_num = 0

    def update_multi_precision(self, index, weight, grad, state):
        self._update_count(index)
        rate, decay = self._get_lr(index), self._get_wd(index)
        if weight.dtype == np.float64:
            state[:] = self.momentum * state - rate * (self.rescale_grad * grad + decay * weight)
            weight[:] += state
            return
        mx.nd.sgd_mom_update(
            weight,
            grad,
            state,
            out=weight,
            lr=rate,
            wd=decay,
            momentum=self.momentum,
            rescale_grad=self.rescale_grad,
        )
