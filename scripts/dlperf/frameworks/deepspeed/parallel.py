"""What a rank has of each weight under DeepSpeed, by ZeRO's stage and the precision.

The backward pass is of the weights that the network has. In mixed precision these are rounded, and
the optimiser's are float32: its own copy (stage 0), or a partition of one (stages 1 to 3). Under
stage 3 a rank has a partition of the network's too.
"""

import deepspeed
import numpy as np
import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_local_fp32_param,
    safe_set_full_fp32_param,
    safe_set_local_fp32_param,
)

from dlperf.contract.ownership import FLAT, Part
from dlperf.contract.work import as_array


class Weights:
    """Parameters by canonical name, as the optimiser has them; torch's layouts are canonical.

    pytorch: the Weights of the network before DeepSpeed took it. engine: DeepSpeed's.
    """

    def __init__(self, run, pytorch, engine):
        self._run, self.named = run, pytorch.named
        self._copies = {}
        if run.amp and not run.layout.zero_stage:
            optimizer = engine.optimizer
            for rounded, exact in zip(optimizer.fp16_groups, optimizer.fp32_groups):
                self._copies.update(zip(rounded, exact))

    def read(self):
        """Under stages 1 and 2 in mixed precision all ranks read together."""
        for name, parameter in self.named.items():
            if self._run.layout.zero_stage == 3:
                part = partition(name, parameter)
                own = parameter.ds_tensor
                if self._run.amp:
                    own = safe_get_local_fp32_param(parameter)
                ((first, last),) = part.ranges
                yield part, array(own[: last - first])
            elif not self._run.amp:
                yield name, array(parameter)
            elif self._copies:
                yield name, array(self._copies[parameter])
            else:
                yield name, array(safe_get_full_fp32_param(parameter))

    def write(self, arrays):
        """All ranks write together."""
        for name, parameter in self.named.items():
            value = torch.from_numpy(np.array(as_array(arrays[name]))).to(self._run.device)
            if self._run.layout.zero_stage == 3:
                self._write_partition(name, parameter, value)
                continue
            with torch.no_grad():
                parameter.copy_(value)
                if self._copies:
                    self._copies[parameter].copy_(value)
            if self._run.layout.zero_stage:
                safe_set_full_fp32_param(parameter, value)

    def _write_partition(self, name, parameter, value):
        """The network's whole weight, which DeepSpeed divides anew, and the optimiser's part."""
        with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
            if self._run.rank == 0:
                with torch.no_grad():
                    parameter.copy_(value)
        ((first, last),) = partition(name, parameter).ranges
        own = value.new_zeros(parameter.ds_tensor.numel())
        own[: last - first] = value.flatten()[first:last]
        safe_set_local_fp32_param(parameter, own)

    def statistics(self):
        return iter(())


def partition(name, parameter):
    """The Part that this rank has of a parameter under stage 3: the last ranks have padding."""
    length, count = parameter.ds_tensor.numel(), parameter.ds_numel
    first = min(count, torch.distributed.get_rank() * length)
    return Part(name, FLAT, ((first, min(count, first + length)),))


def array(tensor):
    return tensor.detach().float().cpu().numpy()
