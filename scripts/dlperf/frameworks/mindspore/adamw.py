"""AdamW (Loshchilov and Hutter 2017) in MindSpore: ops.Adam, and a decay beside it."""

import mindspore as ms
from mindspore import Tensor, ops

from dlperf.frameworks.mindspore.adam import Adam


class AdamW(Adam):
    """Adam, and a decay of its own of weights and embeddings.

    facts: those of a workload, its betas, epsilon and decay. shares: of each parameter, what its
    rate is multiplied by; all 1 if not given. norm: as of Adam.
    """

    def __init__(self, facts, parameters, learning_rate, clip_norm, shares=None, norm=None):
        betas = (facts.BETA1, facts.BETA2)
        super().__init__(parameters, learning_rate, betas, facts.EPSILON, clip_norm, norm)
        self.shares = tuple(shares or [1] * len(parameters))
        self.decayed = tuple(each.ndim > 1 for each in parameters)
        self.decay = Tensor(facts.WEIGHT_DECAY, ms.float32)
        self.shrink = ops.ApplyGradientDescent()

    def construct(self, gradients):
        gradients = self.clipped(gradients)
        factor, epsilon = self.next_step()
        rate = self.learning_rate
        # no loop: a graph nests what follows a branch in one, a thousand deep at most
        one = ops.partial(self.one, rate * factor, rate * self.decay, epsilon)
        tensors = self.parameters, self.first, self.second, gradients
        return self.map(one, self.shares, self.decayed, *tensors)

    def one(self, rate, decay, epsilon, share, decayed, weight, first, second, gradient):
        if decayed:
            self.shrink(weight, decay * share, weight)
        self.change(weight, first, second, rate * share, epsilon, gradient)
        return True
