"""megatron-core's names of CUDA on a CPU.

It asks for its device by name ("cuda", torch.cuda.current_device()) and knows tensors by the names
of CUDA's types; what it computes is torch's, and has kernels on a CPU too. Here those names stand
for the CPU, in this process. Nothing that is computed is replaced.
"""

import logging

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")


class Redirected(TorchFunctionMode):
    """In which torch's functions take the CPU for CUDA's device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.type and len(args) == 1 and not kwargs:
            return function(*args).replace("torch.", "torch.cuda.")
        if kwargs.get("device") == "cuda":
            kwargs = dict(kwargs, device=CPU)
        return function(*args, **kwargs)


def redirect():
    """Let the names stand for the CPU until the process ends. Before megatron-core's models are
    imported, as their fused functions would be compiled then.
    """
    from megatron.core import jit
    from megatron.core.tensor_parallel import random

    Redirected().__enter__()
    torch.cuda.current_device = lambda: CPU
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.manual_seed = torch.manual_seed
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    # it says at each draw that the CPU's random numbers went on while CUDA's were drawn
    logging.getLogger(random.__name__).setLevel(logging.ERROR)
    jit.disable_jit_fuser()
