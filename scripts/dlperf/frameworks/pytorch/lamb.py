"""LAMB (You et al. 2019) in PyTorch, which has none: by the kernel of its fused Adam."""

import torch
from torch.optim.adam import adam


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
            for weight in group["params"]:
                self.state[weight] = {
                    "first": torch.zeros_like(weight),
                    "second": torch.zeros_like(weight),
                    "step": torch.zeros((), device=weight.device),
                }

    @torch.no_grad()
    def step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, self.clip_norm, foreach=True)
        for group in self.param_groups:
            if group["params"]:
                self._update(group)

    def _update(self, group):
        weights, rate, (beta1, beta2) = group["params"], group["lr"], group["betas"]
        first, second, steps = (
            [self.state[each][kind] for each in weights] for kind in ("first", "second", "step")
        )
        changes = decayed(weights, group["weight_decay"], group.get("changes"))
        if not weights[0].is_cuda:  # kept: on a CPU, what is freed is faulted in again
            group["changes"] = changes
        adam(
            changes,
            [each.grad for each in weights],
            first,
            second,
            [],
            steps,
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=-1.0,
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=0.0,
        )
        if not group["adaptive"]:
            return torch._foreach_add_(weights, changes, alpha=-rate)
        # all ratios in one tensor: those of each alone would be five kernels for a number
        w, u = torch.stack(norms(weights)), torch.stack(norms(changes))
        ratios = torch.where((w > 0) & (u > 0), w / u, 1.0)
        for weight, change, ratio in zip(weights, changes, ratios.unbind()):
            weight.addcmul_(change, ratio, value=-rate)

    def count_anew(self):
        """The next step is the first one, with moments as they are."""
        torch._foreach_zero_([each["step"] for each in self.state.values()])

    def forget(self):
        """As before the first step."""
        for state in self.state.values():
            torch._foreach_zero_(list(state.values()))


def decayed(weights, share, kept):
    """Each weight times a share: in new memory, or in what was kept of it."""
    if kept is None:
        return torch._foreach_mul(weights, share)
    for weight, there in zip(weights, kept):
        torch.mul(weight, share, out=there)
    return kept


def norms(tensors):
    """Each tensor's norm.

    On a CPU a norm adds up one behind the other: a table's 23 million squares in float32 were up to
    1 % off. That of its rows' norms is right, and takes no longer.
    """
    if tensors[0].is_cuda:
        return torch._foreach_norm(tensors)
    return [torch.linalg.vector_norm(torch.linalg.vector_norm(each, dim=-1)) for each in tensors]
