"""A model split over ranks in PyTorch: by tensors, by layers, and its state over replicas (ZeRO).

Tensor parallel is DTensor's (torch.distributed.tensor.parallel), the pipeline is
torch.distributed.pipelining with 1F1B, ZeRO is FullyShardedDataParallel (2, 3) or
ZeroRedundancyOptimizer (1). What they leave to their users is here: gradients of replicas and of a
table that two stages have, and the norm over all ranks that a clip takes.
"""

import contextlib
import functools

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module

from dlperf import frameworks, workloads
from dlperf.contract.mesh import DATA, PIPELINE, TENSOR
from dlperf.contract.ownership import Part
from dlperf.contract.run import Unsupported

BUCKET_BYTES = 25 << 20  # of gradients that replicas exchange together, as DistributedDataParallel


def refuse(run):
    """Raise Unsupported for a split model on a GPU whose mixed precision is float16."""
    if is_split(run) and run.amp and frameworks.half(run) == "float16":
        raise Unsupported("ranks of a split model do not agree on which steps overflow float16")


def is_split(run):
    """Whether a rank has a part of the model or of the optimiser's state alone."""
    return run.mesh.is_split or run.layout.zero_stage > 0


def is_sharded(run):
    """Whether replicas share the weights out between steps."""
    return run.layout.zero_stage >= 2


def device_mesh(run):
    """All ranks as torch has them, with the axes of contract/mesh.py."""
    grid = run.mesh
    return _device_mesh(run.device, grid.pipeline, grid.data, grid.tensor)


@functools.lru_cache(maxsize=None)
def _device_mesh(device, pipeline, data, tensor):
    names = (PIPELINE, DATA, TENSOR)
    return init_device_mesh(device, (pipeline, data, tensor), mesh_dim_names=names)


def group(run, axis):
    """The process group of this rank along an axis."""
    return device_mesh(run)[axis].get_group()


def divide(run, network, plan):
    """Divide modules over the tensor group. plan: name of a module -> how, as parallelize_module
    takes it.
    """
    if run.mesh.tensor > 1:
        parallelize_module(network, device_mesh(run)[TENSOR], plan)
    return network


def compile_layers(run, layers):
    """Compile a split model: layer by layer, as what ranks exchange lies between them."""
    if run.compiler == "inductor" and (run.mesh.is_split or is_sharded(run)):
        for layer in layers:
            layer.compile()


def shard(run, network, layers):
    """Shard the weights over replicas: `layers`, modules that are gathered one by one, and the
    rest of the network. ZeRO's stage 2 keeps them gathered from the forward pass to the backward.
    """
    if not is_sharded(run):
        return network
    again = run.layout.zero_stage == 3
    mesh = device_mesh(run)[DATA]
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=again)
    fully_shard(network, mesh=mesh, reshard_after_forward=again)
    return network


@contextlib.contextmanager
def unsynchronized(network):
    """In which the gradients of sharded weights are added up on their own rank."""
    network.set_requires_gradient_sync(False)
    yield
    network.set_requires_gradient_sync(True)


def parts(run):
    """Canonical name -> Part of what this rank has of each tensor that tensor parallel divides."""
    return {each.name: each for each in workloads.parts_of(run) if not each.is_whole}


def local(tensor):
    """A rank's own values of a parameter or a gradient."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def sharded_part(name, parameter):
    """The Part of a parameter whose rows are sharded over replicas, and its values."""
    rows, own = parameter.shape[0], parameter.to_local()
    mesh = parameter.device_mesh
    block = -(-rows // mesh.size())  # as torch.chunk has it: the last ranks may have fewer, or none
    first = min(rows, mesh.get_local_rank() * block)
    return Part(name, 0, ((first, first + len(own)),)), own


def context(run):
    """In which a step runs: the cross-entropy of scores that are divided over a tensor group."""
    return loss_parallel() if run.mesh.tensor > 1 else contextlib.nullcontext()


def labels_of(scores, labels):
    """Labels as a cross-entropy takes them beside these scores, which may be divided."""
    if not isinstance(scores, DTensor):
        return labels
    return DTensor.from_local(labels, scores.device_mesh, [Replicate()], run_check=False)


def whole_loss(value):
    """A loss as each rank of a tensor group has it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def share_updates(run, groups, kind, settings):
    """The optimizer of ZeRO's stage 1: each replica has the moments of a share, and updates it.

    A share's parameters lie side by side, so that a replica sends them in one piece.
    """
    return ZeroRedundancyOptimizer(
        groups, kind, process_group=group(run, DATA), parameters_as_bucket_view=True, **settings
    )


def states(optimizer):
    """The state of each parameter that an optimizer updates on this rank."""
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer = optimizer.optim  # its own `state` is filled for checkpoints alone
    return optimizer.state


class Apart:
    """Random numbers of its own on each rank of a tensor group, for what it divides: its heads.

    All other dropout is of what each of these ranks has, and so drops the same on all of them.
    Calling it calls a function in these numbers; a compiled layer is cut around that call.
    """

    def __init__(self, run):
        self._divides = run.mesh.tensor > 1
        self._cuda, self._state = run.cuda, None
        self._seed = run.dropout_seed + 1000003 * (1 + run.coordinates.tensor)

    def __call__(self, function, *values, **settings):
        if not self._divides:
            return function(*values, **settings)
        return self._call(function, *values, **settings)

    @torch.compiler.disable
    def _call(self, function, *values, **settings):
        random = torch.cuda if self._cuda else torch.random
        others = random.get_rng_state()
        if self._state is None:
            torch.manual_seed(self._seed)
        else:
            random.set_rng_state(self._state)
        found = function(*values, **settings)
        self._state = random.get_rng_state()
        random.set_rng_state(others)
        return found


class Gradients:
    """All gradients of a model of which this rank has a part: their norm, and a clip by it.

    named: canonical name -> parameter of this rank.
    """

    def __init__(self, run, named):
        self._run, self._named = run, named
        self._divided = set(named) if is_sharded(run) else set(parts(run))
        # once, and not in every step
        self._stages = workloads.stages(run.workload, run.dimensions, run.mesh.pipeline)

    def norm(self):
        """The norm of all gradients of the model, each value counted once; a tensor of one."""
        run, place = self._run, self._run.coordinates
        counted = []
        for name, parameter in self._named.items():
            mine = name in self._divided or place.tensor == 0
            if mine and place.pipeline == self._stages[name][0]:
                counted.append(local(parameter.grad))
        first = local(next(iter(self._named.values())))
        squares = torch.zeros((), dtype=first.dtype, device=first.device)
        if counted:
            squares += torch.stack(torch._foreach_norm(counted)).square().sum()
        for axis in (TENSOR, PIPELINE) + ((DATA,) if is_sharded(run) else ()):
            if getattr(run.mesh, axis) > 1:
                dist.all_reduce(squares, group=group(run, axis))
        return squares.sqrt()

    def clip(self, limit):
        """Scale all gradients so that their norm is at most `limit`. The host waits for nothing."""
        scale = (limit / self.norm()).clamp(max=1.0)
        torch._foreach_mul_([local(each.grad) for each in self._named.values()], scale)


class Exchange:
    """Gradients of this rank become those of the whole batch and of all stages that have a tensor.

    named: canonical name -> parameter of this rank.
    """

    def __init__(self, run, named):
        self._named, self._tied = named, tied_groups(run)
        replicas = run.mesh.data > 1 and not is_sharded(run)
        self._averages = Averages(run, list(named.values())) if replicas else None

    def finish(self):
        """After the backward pass of the last micro-step. The host waits for no GPU."""
        for parameter in self._named.values():
            divide_gradient(parameter)
        if self._averages:
            self._averages.finish()
        for name, tied in self._tied.items():
            dist.all_reduce(local(self._named[name].grad), group=tied)


def tied_groups(run):
    """Name -> group of the stages that have a tensor, of those that several have."""
    grid, found = run.mesh, {}
    for name, there in workloads.stages(run.workload, run.dimensions, grid.pipeline).items():
        if len(there) < 2:
            continue
        # every rank makes every group, in one order, as torch wants it
        for first in grid.group(0, DATA, TENSOR):
            place = grid.coordinates(first)
            ranks = [grid.rank(place.data, place.tensor, stage) for stage in there]
            made = dist.new_group(ranks)
            if run.rank in ranks:
                found[name] = made
    return found


class Averages:
    """Averages of gradients over replicas, which they exchange while the backward pass goes on.

    A bucket is sent when its parameters have the gradients of all micro-steps and the buckets
    before it are sent, so that all replicas send the same ones in the same order: the last
    parameters first, as their gradients are the first to come.
    """

    def __init__(self, run, parameters):
        self._replicas, self._count = group(run, DATA), run.mesh.data
        self._micro_steps = run.accumulation
        self._buckets = buckets(parameters[::-1])
        self._begin()
        for index, bucket in enumerate(self._buckets):
            arrived = functools.partial(self._arrived, index)
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(arrived)

    def _begin(self):
        self._missing = [self._micro_steps * len(bucket) for bucket in self._buckets]
        self._sent = []  # (the gradients of a bucket side by side, what is waited for)

    def _arrived(self, index, parameter):
        self._missing[index] -= 1
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._sent.append(self._send(self._buckets[len(self._sent)]))

    @torch.no_grad()
    def _send(self, bucket):
        for parameter in bucket:
            divide_gradient(parameter)
        gradients = [local(parameter.grad) for parameter in bucket]
        flat = torch._utils._flatten_dense_tensors(gradients)
        for own, there in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients)):
            own.set_(there)  # no second copy is kept, and none is made of what is averaged
        return flat, dist.all_reduce(flat, group=self._replicas, async_op=True)

    def finish(self):
        """Wait until the gradients are averages; on a GPU its stream waits, not the host."""
        if len(self._sent) < len(self._buckets):
            raise RuntimeError("not all parameters have a gradient of each micro-step")
        for flat, pending in self._sent:
            pending.wait()
            flat /= self._count
        self._begin()


def buckets(parameters):
    """Parameters in lists whose gradients have BUCKET_BYTES or a little more. What is left at the
    end has a list of its own if it is half as much: a few values would only wait for the others.
    """
    found, bucket, size = [], [], 0
    for parameter in parameters:
        own = local(parameter)
        bucket.append(parameter)
        size += own.numel() * own.element_size()
        if size >= BUCKET_BYTES:
            found.append(bucket)
            bucket, size = [], 0
    if found and 2 * size < BUCKET_BYTES:
        found[-1].extend(bucket)
    elif bucket:
        found.append(bucket)
    return found


def divide_gradient(parameter):
    """Divide a gradient as its parameter is: that of a table which is looked up and multiplied
    comes replicated.
    """
    gradient = parameter.grad
    if isinstance(gradient, DTensor) and gradient.placements != parameter.placements:
        parameter.grad = gradient.redistribute(placements=parameter.placements)


class Pipeline:
    """The gradients of all micro-steps of an update, over stages, by 1F1B.

    network: this rank's stage, from the batch's inputs or the activations of the stage before it to
    activations or the model's outputs. criterion(outputs, labels): the mean loss of a micro-batch.
    """

    def __init__(self, run, network, criterion):
        place, self._run = run.coordinates, run
        stage = PipelineStage(
            network,
            place.pipeline,
            run.mesh.pipeline,
            torch.device(run.device),
            group=group(run, PIPELINE),
        )
        self._first, self._last = stage.is_first, stage.is_last

        def share(outputs, labels):
            return criterion(outputs, labels) / run.accumulation

        # the schedule would divide gradients when the backward pass has ended
        self._schedule = Schedule1F1B(stage, run.accumulation, loss_fn=share, scale_grads=False)

    def gradients(self, batches):
        """Add the gradients of these batches; their mean loss, or None on all but the last stage.

        batches: (inputs, labels) of each micro-step.
        """
        inputs, labels = (torch.cat(each) for each in zip(*batches))
        losses = []
        given = (inputs,) if self._first else ()
        wanted = {"target": labels, "losses": losses} if self._last else {}
        # the scores of all micro-batches would be kept until the last, and copied into one tensor
        self._schedule.step(*given, return_outputs=False, **wanted)
        if not self._last:
            return None
        return torch.stack([whole_loss(each).detach() for each in losses]).sum()
