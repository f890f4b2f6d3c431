"""AdamW (Loshchilov and Hutter 2017) in OneFlow's eager mode, with a clip and rates by tensor."""

import numpy as np
import oneflow as flow

from dlperf.frameworks.oneflow.clip import clip


class AdamW(flow.optim.AdamW):
    """Takes the gradients of all groups together to a norm of at most `clip_norm` first.

    Each group has the `share` of the rate that its parameters are trained at.
    """

    def __init__(self, groups, lr, betas, eps, clip_norm, fused):
        # rounded as the kernel has them, so that the bias corrections belong to them
        betas = tuple(float(np.float32(beta)) for beta in betas)
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=fused)
        self.clip_norm = clip_norm
        self.set_rate(lr)

    def set_rate(self, rate):
        for group in self.param_groups:
            group["lr"] = rate * group["share"]

    def step(self, closure=None):
        gradients = [each.grad for group in self.param_groups for each in group.parameters]
        clip(gradients, self.clip_norm)
        return super().step(closure)
