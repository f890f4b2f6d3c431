"""LAMB (You et al. 2019) of MXNet's own operators, with the ratio on some tensors only."""

import mxnet as mx
import numpy as np

from dlperf.frameworks.mxnet.norms import norm


class Lamb(mx.optimizer.Optimizer):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + epsilon) + wd w; w -= rate |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0. Tensors of one dimension have no ratio, and none has one without `adaptive`.
    MXNet's own optimizer scales biases too, and its norm of a table is 3 % off on a CPU.
    clip_norm: of all gradients together, before the update; `tensors` says how many there are.
    """

    def __init__(self, beta1, beta2, epsilon, adaptive, clip_norm, tensors, **settings):
        super().__init__(**settings)
        # as the operators compute with, for the correction of the bias
        self.beta1, self.beta2 = float(np.float32(beta1)), float(np.float32(beta2))
        self.epsilon, self.adaptive, self.clip_norm = epsilon, adaptive, clip_norm
        self.aggregate_num = tensors  # in one call: the norm is of all

    def create_state(self, index, weight):
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update_multi_precision(self, indices, weights, gradients, states):
        self._update_count(indices)
        steps = self._index_update_count[indices[0]]
        # stays on the device: nothing waits for it
        scale = mx.nd.full(1, self.rescale_grad, weights[0].context, weights[0].dtype)
        scale = mx.nd.minimum(self.clip_norm / norm(gradients), scale)
        no_ratio = mx.nd.zeros_like(scale)
        rates, decays = self._get_lrs(indices), self._get_wds(indices)
        for w, g, (m, v), rate, decay in zip(weights, gradients, states, rates, decays):
            # the operator's own scale is a number that the host would have to know
            change = mx.nd.lamb_update_phase1(
                w,
                mx.nd.broadcast_mul(g, scale.reshape((1,) * g.ndim)),
                m,
                v,
                beta1=self.beta1,
                beta2=self.beta2,
                epsilon=self.epsilon,
                t=steps,
                wd=decay,
            )
            adaptive = self.adaptive and w.ndim > 1
            before, after = (norm([w]), norm([change])) if adaptive else (no_ratio, no_ratio)
            mx.nd.lamb_update_phase2(w, change, before, after, lr=rate, out=w)
