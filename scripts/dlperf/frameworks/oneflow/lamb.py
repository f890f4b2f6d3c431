"""LAMB (You et al. 2019) in OneFlow's eager mode.

OneFlow's own leaves the decay out of the norm, and a graph takes no optimisers but OneFlow's own.
"""

import numpy as np
import oneflow as flow

from dlperf.frameworks.oneflow.clip import clip, squares


class Lamb(flow.optim.Adam):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + eps) + decay w; w -= lr |w| / |u| u, the ratio never clipped, and 1 where a
    norm is 0 or not `adaptive`. Tensors of one dimension are plain Adam's. Its kernel finds u too:
    it starts from decay w, at the rate -1. clip_norm: of all gradients together, before the update.
    """

    def __init__(self, network, lr, betas, eps, decay, adaptive, clip_norm, fused):
        parameters = list(network.parameters())
        self.changes = [(w, flow.zeros_like(w)) for w in parameters if w.ndim > 1]
        groups = [
            {"params": [change for _, change in self.changes], "lr": -1.0},
            {"params": [w for w in parameters if w.ndim <= 1]},
        ]
        # rounded as the kernel has them, so that the bias corrections belong to them
        betas = tuple(float(np.float32(beta)) for beta in betas)
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=fused)
        self.parameters, self.lr, self.decay, self.adaptive = parameters, lr, decay, adaptive
        self.clip_norm = clip_norm

    def step(self, closure=None):
        clip([each.grad for each in self.parameters], self.clip_norm)
        with flow.no_grad():
            for weight, change in self.changes:
                change.copy_(weight * self.decay)
                change.grad = weight.grad
            super().step(closure)
            for weight, change in self.changes:
                rate = self.lr
                if self.adaptive:
                    rate = rate * ratio(squares(weight), squares(change))
                weight.sub_(change.mul_(rate))

    def zero_grad(self, set_to_none=False):
        super().zero_grad(set_to_none)  # a weight's gradient is its change's
        if set_to_none:
            for weight, _ in self.changes:
                weight.grad = None


def ratio(before, after):
    """Of two norms, from their squares."""
    known = flow.logical_and(before > 0, after > 0)
    return flow.where(known, (before / after).sqrt(), flow.ones_like(before))
