"""LAMB (You et al. 2019) in PyTorch, which has none: by the kernel of its fused Adam."""

import torch


class Lamb(torch.optim.Optimizer):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + eps) + weight_decay w; w -= lr |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0. groups: dicts with `params`, `weight_decay` and `adaptive`, which says
    whether there is a ratio. clip_norm: of all gradients together, before the update.

    Adam's kernel finds u: it starts from weight_decay w, at the rate -1.
    """

    def __init__(self, groups, lr, betas, eps, clip_norm):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps))
        self.clip_norm = clip_norm
        for group in self.param_groups:
            group["changes"] = [torch.zeros_like(each) for each in group["params"]]
        changes = [each for group in self.param_groups for each in group["changes"]]
        own = [{"params": changes, "lr": -1.0}]
        self.adam = torch.optim.Adam(own, betas=betas, eps=eps, fused=True)

    @torch.no_grad()
    def step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, self.clip_norm, foreach=True)
        for group in self.param_groups:
            for weight, change in zip(group["params"], group["changes"]):
                torch.mul(weight, group["weight_decay"], out=change)
                change.grad = weight.grad
        self.adam.step()
        for group in self.param_groups:
            if group["params"]:
                self._update(group["params"], group["changes"], group["lr"], group["adaptive"])
        self.adam.zero_grad(set_to_none=True)  # as those of weights will be, before the next ones

    def _update(self, weights, changes, rate, adaptive):
        if not adaptive:
            return torch._foreach_add_(weights, changes, alpha=-rate)
        # all ratios in one tensor: those of each alone would be five kernels for a number
        w, u = torch.stack(norms(weights)), torch.stack(norms(changes))
        ratios = torch.where((w > 0) & (u > 0), w / u, 1.0)
        for weight, change, ratio in zip(weights, changes, ratios.unbind()):
            weight.addcmul_(change, ratio, value=-rate)

    def forget(self):
        """As before the first step."""
        for moments in self.adam.state.values():
            torch._foreach_zero_(list(moments.values()))


def norms(tensors):
    """Each tensor's norm.

    On a CPU a norm adds up one behind the other: a table's 23 million squares in float32 were up to
    1 % off. That of its rows' norms is right, and takes no longer.
    """
    if tensors[0].is_cuda:
        return torch._foreach_norm(tensors)
    return [torch.linalg.vector_norm(torch.linalg.vector_norm(each, dim=-1)) for each in tensors]
