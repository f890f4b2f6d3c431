"""LAMB (You et al. 2019) in MindSpore, whose own has no kernel for CPUs."""

import mindspore as ms
from mindspore import Tensor, ops

from dlperf.frameworks.mindspore.adam import Adam, sum_of_squares


class Lamb(Adam):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + epsilon) + decay w; w -= rate |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0 or not `adaptive`. Tensors of one dimension are plain Adam's. The fused
    operator finds u: it starts from decay w, at the rate -1, which takes a third of the time of
    single operators.
    """

    def __init__(self, parameters, learning_rate, betas, epsilon, decay, adaptive, clip_norm):
        super().__init__(parameters, learning_rate, betas, epsilon, clip_norm)
        self.decay, self.adaptive = Tensor(decay, ms.float32), adaptive
        # one each: of a buffer that several share, a graph takes minutes to compile
        self.changes = self.parameters.clone("change", init="zeros")
        self.matrices = tuple(each.ndim > 1 for each in parameters)
        self.no_ratio = Tensor(1, ms.float32)
        self.subtract = ops.ApplyGradientDescent()

    def construct(self, gradients):
        gradients = self.clipped(gradients)
        factor, epsilon = self.next_step()
        # no loop: a graph nests what follows a branch in one, a thousand deep at most
        one = ops.partial(self.one, factor, epsilon)
        return self.map(
            one, self.parameters, self.first, self.second, self.changes, self.matrices, gradients
        )

    def one(self, factor, epsilon, weight, first, second, wanted, matrix, gradient):
        rate = self.learning_rate
        if not matrix:
            self.change(weight, first, second, rate * factor, epsilon, gradient)
        else:
            ops.assign(wanted, self.decay * weight)
            self.change(wanted, first, second, -factor, epsilon, gradient)
            self.subtract(weight, rate * self.ratio(weight, wanted), wanted)
        return True

    def ratio(self, weight, wanted):
        if not self.adaptive:
            return self.no_ratio
        before, after = ops.sqrt(sum_of_squares(weight)), ops.sqrt(sum_of_squares(wanted))
        known = ops.logical_and(before > 0, after > 0)
        return ops.select(known, before / after, self.no_ratio)
