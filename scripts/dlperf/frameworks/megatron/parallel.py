"""What a rank has of each weight under Megatron-LM, by canonical name and in canonical layout.

Megatron's tensor groups divide as the facts say. Query, key and value stand by head in its tensor:
each head's three, where the canonical one has all queries, then all keys, then all values. In mixed
precision the optimiser's weights are float32: a copy, or with the distributed optimizer a share.
"""

import re

import numpy as np
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.optimizer import DistributedOptimizer, Float16OptimizerWithFloat16Params

from dlperf import workloads
from dlperf.contract.work import as_array
from dlperf.frameworks.pytorch.parallel import parts
from dlperf.workloads.encoders.layers import canonical

#: What Megatron calls a layer's modules, and what facts call them.
_MODULES = {
    "input_layernorm": "norm1",
    "self_attention.linear_qkv": "qkv",
    "self_attention.linear_proj": "projection",
    "pre_mlp_layernorm": "norm2",
    "mlp.linear_fc1": "ffn1",
    "mlp.linear_fc2": "ffn2",
}
#: The same outside of layers. The head is the word embedding; a last stage has a copy of its own.
_OTHERS = {
    "embedding.word_embeddings.weight": "word_embedding",
    "embedding.position_embeddings.weight": "position_embedding",
    "decoder.final_layernorm.weight": "norm.weight",
    "decoder.final_layernorm.bias": "norm.bias",
    "output_layer.weight": "word_embedding",
}


def canonical_name(own, first_layer):
    """The canonical name of a parameter of megatron-core's GPTModel.

    first_layer: the number of the stage's first layer, as Megatron counts each stage's from 0.
    """
    if own in _OTHERS:
        return _OTHERS[own]
    layer, module, kind = re.fullmatch(r"decoder\.layers\.(\d+)\.(.+)\.(\w+)", own).groups()
    return canonical("layers.%d.%s.%s" % (first_layer + int(layer), _MODULES[module], kind))


def exact_weights(optimizer):
    """Parameter in a narrow type -> the float32 weight that Megatron's optimizer has of it, or with
    the distributed optimizer this replica's share; where that is empty it may be missing.
    """
    if isinstance(optimizer, DistributedOptimizer):
        groups = (optimizer.model_float16_groups, optimizer.shard_fp32_from_float16_groups)
    elif isinstance(optimizer, Float16OptimizerWithFloat16Params):
        groups = (optimizer.float16_groups, optimizer.fp32_from_float16_groups)
    else:
        return {}
    return {
        parameter: exact
        for rounded, precise in zip(*groups)
        for parameter, exact in zip(rounded, precise)
    }


class Weights:
    """A network's parameters by canonical name, as the optimiser has them.

    named: canonical name -> parameter of the network. head_width: of attention. gather: called
    before reading, so that replicas have each other's updates. optimizer: Megatron's.
    """

    def __init__(self, run, named, head_width, gather, optimizer):
        self.named, self._parts = named, parts(run)
        tensors = workloads.of(run.workload).parameters(run.dimensions)
        self._by_head = {name for name in named if tensors[name].blocks > 1}
        self._head_width, self._gather, self._optimizer = head_width, gather, optimizer
        self._exact = exact_weights(optimizer)

    def read(self):
        """With the distributed optimizer all ranks read together."""
        self._gather()
        for name, parameter in self.named.items():
            own = self._canonical(name, self._updated(parameter).detach())
            yield self._parts.get(name, name), own.cpu().numpy()

    def write(self, arrays):
        for name, parameter in self.named.items():
            value = self._own(name, arrays[name])
            with torch.no_grad():
                parameter.copy_(value)
                if parameter in self._exact:
                    if self._is_shared():
                        value = value.flatten()[self._share(parameter)]
                    self._exact[parameter].copy_(value)

    def write_gradients(self, arrays):
        """In place of a backward pass, and of what replicas exchange."""
        for name, parameter in self.named.items():
            parameter.main_grad.copy_(self._own(name, arrays[name]))

    def statistics(self):
        return iter(())

    def _own(self, name, array):
        """The rank's part of a canonical array, as Megatron has it."""
        part = self._parts[name].of(array) if name in self._parts else array
        value = torch.from_numpy(np.array(as_array(part))).to(self.named[name].device)
        if name not in self._by_head:
            return value
        kinds = value.unflatten(0, (3, -1, self._head_width))
        return kinds.transpose(0, 1).flatten(0, 2)

    def _canonical(self, name, value):
        """A parameter's values, the other way round."""
        if name not in self._by_head:
            return value
        heads = value.unflatten(0, (-1, 3, self._head_width))
        return heads.transpose(0, 1).flatten(0, 2)

    def _is_shared(self):
        return isinstance(self._optimizer, DistributedOptimizer)

    def _share(self, parameter):
        """The values, of a parameter's in order, that this replica's optimizer has."""
        share = self._optimizer._get_model_param_range_map(parameter)["param"]
        return slice(share.start, share.end)

    def _updated(self, parameter):
        """The optimiser's weight of a parameter: all replicas' shares of it together."""
        if not self._is_shared():
            return self._exact.get(parameter, parameter)
        if parameter.dtype == torch.float32:  # of which all have been gathered
            return parameter
        found = torch.zeros(parameter.numel(), dtype=torch.float32, device=parameter.device)
        if parameter in self._exact:
            found[self._share(parameter)] = self._exact[parameter]
        dist.all_reduce(found, group=parallel_state.get_data_parallel_group())
        return found.view(parameter.shape)
