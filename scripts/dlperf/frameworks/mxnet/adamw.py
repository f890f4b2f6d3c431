"""AdamW (Loshchilov and Hutter 2017) in MXNet, which has operators for it and no optimiser."""

import mxnet as mx
import numpy as np

from dlperf.frameworks.mxnet.norms import norm


class AdamW(mx.optimizer.Optimizer):
    """Clip and update of all tensors in one call; MXNet has the operator, but no optimiser to it.

    The operator corrects no bias and adds its epsilon to the root of the uncorrected moment: both
    corrections go into its rate and its epsilon. They are of the betas as it has them, in the type
    of the weights: in float32, 1 - 0.999 is off by 1e-5. facts: those of a workload, its betas and
    epsilon. tensors: how many there are.
    """

    def __init__(self, facts, clip_norm, tensors, many, **settings):
        super().__init__(**settings)
        self.betas, self.epsilon = (facts.BETA1, facts.BETA2), facts.EPSILON
        self.clip_norm = clip_norm
        self.many = many  # tensors an operator updates
        self.aggregate_num = tensors  # in one call: the norm is of all

    def create_state(self, index, weight):
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update_multi_precision(self, indices, weights, gradients, states):
        self._update_count(indices)
        steps = self._index_update_count[indices[0]]
        beta1, beta2 = (float(weights[0].dtype(beta)) for beta in self.betas)
        root = (1 - beta2**steps) ** 0.5
        rate = root / (1 - beta1**steps)
        scale = mx.nd.full(1, self.rescale_grad, weights[0].context, weights[0].dtype)
        if self.clip_norm:
            # stays on the device: nothing waits for it, and no gradient is written again
            scale = mx.nd.minimum(self.clip_norm / norm(gradients), scale)
        epsilon = self.epsilon * root
        etas, decays = self._get_lrs(indices), self._get_wds(indices)
        if weights[0].dtype == np.float64:  # the operator's own numbers are float32 all the same
            for w, g, (m, v), eta, decay in zip(weights, gradients, states, etas, decays):
                g = mx.nd.broadcast_mul(g, scale.reshape((1,) * g.ndim))
                m[:] = beta1 * m + (1 - beta1) * g
                v[:] = beta2 * v + (1 - beta2) * mx.nd.square(g)
                w -= eta * (rate * m / (mx.nd.sqrt(v) + epsilon) + decay * w)
            return
        shared = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        means, variances = zip(*states)
        for first in range(0, len(weights), self.many):
            part = slice(first, first + self.many)
            tensors = weights[part], gradients[part], means[part], variances[part]
            settings = dict(shared, lrs=[rate] * len(tensors[0]), etas=etas[part], wds=decays[part])
            mx.nd.contrib.multi_adamw_update(*tensors, scale, out=tensors[0], **settings)
