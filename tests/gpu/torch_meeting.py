"""Answers in place of other ranks, for a rank of PyTorch that is alone on the null device.

On the device NCCL answers for them. On the host they meet in a store, and a pipeline's neighbours
tell each other the shapes of what they exchange.
"""

import functools

import torch
from torch.distributed import distributed_c10d
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import (
    _derive_grad_metas,
    _StageBackwardMeta,
    _StageForwardMeta,
    extract_tensor_meta,
)

#: Bytes of NCCL's identifier of a communicator, which the first of its ranks writes into the store.
IDENTIFIER = bytes(128)


class Meeting(torch.distributed.Store):
    """The store where ranks meet: all of them are there, and have written what is read."""

    def __init__(self):
        super().__init__()
        self._written = {}

    def set(self, key, value):
        self._written[key] = value

    def get(self, key):
        return self._written.get(key, IDENTIFIER)

    def compare_set(self, key, expected, wanted):
        if self._written.get(key, expected) == expected:
            self._written[key] = wanted
        return self._written[key]

    def add(self, key, amount):
        self._written[key] = b"%d" % (int(self._written.get(key, 0)) + amount)
        return int(self._written[key])

    def check(self, keys):
        return all(key in self._written for key in keys)

    def wait(self, *_):
        """All keys are there."""

    def delete_key(self, key):
        return self._written.pop(key, None) is not None

    def num_keys(self):
        return len(self._written)


def answer_for_others(run) -> None:
    """Let the rank that starts next in this process find the others."""
    store = Meeting()  # named, as torch itself keeps no Python object
    distributed_c10d.rendezvous = lambda *_, **__: iter([(store, run.rank, run.ranks)])
    if run.mesh.pipeline > 1:
        given = run.batch_size, run.dimensions["sequence_length"], run.dimensions["width"]
        PipelineStage._recv_meta = functools.partialmethod(neighbour_says, given)


def neighbour_says(stage, given, neighbour):
    """The shapes and types that the neighbour of a decoder's stage would send.

    given: the shape of what a stage gives to the next one, in float32: the sum of branches. The
    neighbour's own drive shows whether it is so: what one sends, the other one receives
    (torch_exchanges.py).
    """
    if neighbour > stage.stage_index:  # gradients of what this stage gives
        return _StageBackwardMeta(_derive_grad_metas(stage._stage_meta.outputs))
    taken = torch.empty(given, device=stage.device, requires_grad=True)
    return _StageForwardMeta((extract_tensor_meta(taken),))
