"""LAMB (You et al. 2019) in PyTorch, which has none: by operators on all tensors at once."""

import torch


class Lamb(torch.optim.Optimizer):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + eps) + weight_decay w; w -= lr |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0. groups: dicts with `params`, `weight_decay` and `adaptive`, which says
    whether there is a ratio. clip_norm: of all gradients together, before the update.
    """

    def __init__(self, groups, lr, betas, eps, clip_norm):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps))
        self.clip_norm = clip_norm
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        parameters = [p for group in self.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, self.clip_norm, foreach=True)
        for group in self.param_groups:
            if group["params"]:
                self._update(group)

    def _update(self, group):
        weights = group["params"]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["first"] = torch.zeros_like(weight)
                self.state[weight]["second"] = torch.zeros_like(weight)
        (beta1, beta2), gradients = group["betas"], [each.grad for each in weights]
        first = [self.state[each]["first"] for each in weights]
        second = [self.state[each]["second"] for each in weights]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        change = torch._foreach_sqrt(second)
        # with both corrections in one factor: of the root, of epsilon, and of the quotient
        root = (1 - beta2**self.steps) ** 0.5
        torch._foreach_add_(change, group["eps"] * root)
        torch._foreach_div_(change, root / (1 - beta1**self.steps))
        torch._foreach_reciprocal_(change)
        torch._foreach_mul_(change, first)
        if group["weight_decay"]:
            torch._foreach_add_(change, weights, alpha=group["weight_decay"])
        if group["adaptive"]:
            pairs = zip(norms(weights), norms(change))
            ratios = [torch.where((w > 0) & (u > 0), w / u, 1.0) for w, u in pairs]
            torch._foreach_mul_(change, ratios)
        torch._foreach_add_(weights, change, alpha=-group["lr"])

    def forget(self):
        """As before the first step."""
        self.steps = 0
        for moments in self.state.values():
            torch._foreach_zero_(list(moments.values()))


def norms(tensors):
    """Each tensor's norm.

    On a CPU a norm adds up one behind the other: a table's 23 million squares in float32 were up to
    1 % off. That of its rows' norms is right, and takes no longer.
    """
    if tensors[0].is_cuda:
        return torch._foreach_norm(tensors)
    return [torch.linalg.vector_norm(torch.linalg.vector_norm(each, dim=-1)) for each in tensors]
