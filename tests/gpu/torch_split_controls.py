"""Wrong steps of a model that is split over ranks, or whose state replicas share.

Each is an edit as torch_controls.py has them; the checks of torch_exchanges.py must refuse it.
"""

import functools

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from dlperf.frameworks.pytorch import parallel


def gathered_once(run, page) -> None:
    """Weights stay gathered from the forward pass to the backward pass: no stage 3 of ZeRO."""
    original = parallel.fully_shard

    def once(module, *, mesh, reshard_after_forward):
        return original(module, mesh=mesh, reshard_after_forward=False)

    parallel.fully_shard = once


def gathered_at_once(run, page) -> None:
    """All weights are gathered together, and not layer by layer."""
    original = parallel.shard
    parallel.shard = lambda run, network, layers: original(run, network, ())


def narrow_gathers(run, page) -> None:
    """Weights are gathered in bfloat16, and so are gradients summed."""
    original = parallel.fully_shard
    narrow = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    parallel.fully_shard = functools.partial(original, mp_policy=narrow)


def unshared_updates(run, page) -> None:
    """Each replica has all of the optimiser's state, and updates all weights."""
    parallel.share_updates = lambda run, groups, kind, settings: kind(groups, **settings)


def tensors_apart(run, page) -> None:
    """Each replica sends what it has updated tensor by tensor."""
    parallel.share_updates = lambda run, groups, kind, settings: parallel.ZeroRedundancyOptimizer(
        groups, kind, process_group=parallel.group(run, parallel.DATA), **settings
    )


def kept_scores(run, page) -> None:
    """The last stage keeps the scores of all micro-steps until the next step."""
    original = parallel.Schedule1F1B.step

    def step(self, *given, return_outputs, **wanted):
        return original(self, *given, **wanted)

    parallel.Schedule1F1B.step = step


def assigned_keys(run, page) -> None:
    """The keys of classes that a sample must have are assigned, for which the host waits."""

    def sampled(count, rows, places):
        keys = torch.rand(count, device=places.device)
        keys[places.clamp(min=0)] = 2.0
        return keys.topk(rows, sorted=False).indices.sort().values

    page.split_head.sampled = sampled


def gathered_inner(run, page) -> None:
    """Ranks of a tensor group bring an inner layer together between its two products."""
    page.PLAN["ffn1"] = ColwiseParallel(output_layouts=Replicate())
    page.PLAN["ffn2"] = RowwiseParallel(input_layouts=Replicate())


def narrow_activations(run, page) -> None:
    """Stages give each other the sum of branches in bfloat16, which rounds it."""
    original = page.GPT.forward
    page.GPT.forward = lambda self, x: original(self, x).to(torch.bfloat16)


def larger_micro_steps(run, page) -> None:
    """A pipeline takes all micro-steps but in half as many batches."""
    original = parallel.Schedule1F1B
    parallel.Schedule1F1B = lambda stage, count, **more: original(stage, count // 2, **more)


def untied_table(run, page) -> None:
    """Both stages that have the table update it by their own gradient alone."""
    parallel.tied_groups = lambda run: {}


def synchronized_stages(run, page) -> None:
    """The host waits for the device at the end of a pipeline's micro-steps."""
    original = parallel.Pipeline.gradients

    def gradients(self, batches):
        value = original(self, batches)
        torch.cuda.synchronize()
        return value

    parallel.Pipeline.gradients = gradients


def read_norm(run, page) -> None:
    """The host reads the norm of all gradients before it clips them."""
    original = parallel.Gradients.norm

    def norm(self):
        value = original(self)
        value.item()
        return value

    parallel.Gradients.norm = norm


def replicas_apart(run, page) -> None:
    """Replicas of a split model do not average their gradients."""
    parallel.Averages._arrived = lambda self, index, parameter: None
    parallel.Averages.finish = lambda self: None


def averaged_behind(run, page) -> None:
    """Replicas of a split model average their gradients when the backward pass has ended."""
    parallel.Averages._arrived = lambda self, index, parameter: None
    original = parallel.Averages.finish

    def finish(self):
        self._sent = [self._send(bucket) for bucket in self._buckets]
        original(self)

    parallel.Averages.finish = finish


def tensor_by_tensor(run, page) -> None:
    """Replicas of a split model average one gradient after the other."""
    parallel.BUCKET_BYTES = 1


EDITS = {
    each.__name__.replace("_", " "): each
    for each in (
        gathered_once,
        gathered_at_once,
        narrow_gathers,
        unshared_updates,
        tensors_apart,
        kept_scores,
        assigned_keys,
        gathered_inner,
        narrow_activations,
        larger_micro_steps,
        untied_table,
        synchronized_stages,
        read_norm,
        replicas_apart,
        averaged_behind,
        tensor_by_tensor,
    )
}
