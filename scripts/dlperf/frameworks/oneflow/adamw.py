"""AdamW (Loshchilov and Hutter 2017) in OneFlow: a clip and, in eager mode, rates by tensor."""

import numpy as np
import oneflow as flow

from dlperf.frameworks.oneflow.clip import clip


class AdamW(flow.optim.AdamW):
    """Takes the gradients of all groups together to a norm of at most `clip_norm` first, if any.

    facts: those of a workload, its betas and epsilon. A group's `share` is what its rate is
    multiplied by; 1 if it has none. clip(gradients, norm) is the clip of one stage.
    """

    def __init__(self, facts, groups, learning_rate, clip_norm, fused):
        betas = (facts.BETA1, facts.BETA2)
        # rounded as the kernel has them, so that the bias corrections belong to them
        rounded = tuple(float(np.float32(beta)) for beta in betas)
        super().__init__(groups, lr=learning_rate, betas=rounded, eps=facts.EPSILON, fused=fused)
        self.betas, self.clip_norm, self.clip = betas, clip_norm, clip
        for group in self.param_groups:
            group.setdefault("share", 1)
        self.set_rate(learning_rate)

    def set_rate(self, rate):
        for group in self.param_groups:
            group["lr"] = rate * group["share"]

    def step(self, closure=None):
        parameters = [each for group in self.param_groups for each in group.parameters]
        if self.clip_norm:
            self.clip([each.grad for each in parameters], self.clip_norm)
        if parameters[0].dtype == flow.float64:  # the kernel's own numbers are float32 all the same
            return self._float64_step()
        return super().step(closure)

    def _float64_step(self):
        self._state["step"] += 1
        beta1, beta2 = self.betas
        correction1, correction2 = (1 - beta ** self._state["step"] for beta in self.betas)
        with flow.no_grad():
            for group in self.param_groups:
                for weight in group.parameters:
                    moments = self._state[weight]
                    if not moments:
                        moments["exp_avg"] = flow.zeros_like(weight)
                        moments["exp_avg_sq"] = flow.zeros_like(weight)
                    first, second = moments["exp_avg"], moments["exp_avg_sq"]
                    first.mul_(beta1).add_(weight.grad * (1 - beta1))
                    second.mul_(beta2).add_(weight.grad.square() * (1 - beta2))
                    change = first / correction1 / ((second / correction2).sqrt() + group["eps"])
                    weight.sub_((change + weight * group["weight_decay"]) * group["lr"])

    def _generate_conf_for_graph(self, train_conf, variables):
        """For a graph, which clips each group for itself: one group, told what not to decay."""
        (conf,) = super()._generate_conf_for_graph(train_conf, variables)
        for parameter in self.param_groups[0].parameters:
            if parameter.ndim <= 1:
                conf.weight_decay_conf.excludes.pattern.append("^%s$" % variables[parameter].name)
        return [conf]
