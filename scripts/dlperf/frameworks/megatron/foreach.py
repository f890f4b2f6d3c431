"""Norms and scaling of many tensors at once, where Transformer Engine and Apex are not installed.

What megatron-core has for that case reads the norm of each tensor on the host, so a step waits for
the device as often as the model has tensors. These are torch's, called as Apex's are called.
"""

import torch
from megatron.core import utils
from megatron.core.optimizer import clip_grads
from megatron.core.optimizer import optimizer as optimizers


def norm_of_all(chunk, flag, tensor_lists, per_tensor):
    """(the norm of all tensors together, a tensor of one; None), as amp_C.multi_tensor_l2norm."""
    (tensors,) = tensor_lists
    return torch.stack(torch._foreach_norm(tensors)).norm().reshape(1), None


def scale_all(chunk, flag, tensor_lists, factor):
    """Write the tensors of one list, scaled, into those of another, as amp_C.multi_tensor_scale."""
    given, written = tensor_lists
    if given is written:
        torch._foreach_mul_(written, factor)
    else:
        torch._foreach_copy_(written, torch._foreach_mul(given, factor))


def take_the_place_of_loops():
    """Let megatron-core's optimizers call these in place of its own loops, and of nothing else."""
    if clip_grads.l2_norm_impl is utils.local_multi_tensor_l2_norm:
        clip_grads.l2_norm_impl = norm_of_all
    for module in (clip_grads, optimizers):
        if module.multi_tensor_scale_impl is utils.local_multi_tensor_scale:
            module.multi_tensor_scale_impl = scale_all
