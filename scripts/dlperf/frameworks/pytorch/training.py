"""Training in PyTorch: what all workloads do alike.

Data parallel, autocast and gradient scaling, compiling, accumulation, and the step itself.
"""

import concurrent.futures
import contextlib
import functools
import inspect
import time

import numpy as np
import torch
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from dlperf import workloads
from dlperf.contract.tensor import is_large
from dlperf.contract.work import Rows, Work, feed, parts, restartable, scheduled, table
from dlperf.frameworks import half
from dlperf.frameworks.pytorch import parallel, sparse
from dlperf.frameworks.pytorch.inference import to_host
from dlperf.frameworks.pytorch.process import cuda_graphs
from dlperf.workloads.inputs import open_batches


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    layout="",
    parity=None,
    schedule=None,
    outputs=None,
    criterion=None,
):
    """The Work of training `network`.

    loss(run, network, *batch): the mean loss of a batch; its network is the data-parallel one.
    criterion(run, outputs, labels): the same of what the network makes of all arrays of a batch but
    its last one, the labels; a pipeline's last stage needs it.
    put(run, *arrays): a loader's batch as tensors on the device. layout: of a loader's images.
    schedule: a rate for each step, of the quality scenario; outputs: as of inference.infer.
    """
    alone = network
    parallel.refuse(run)
    # of weights that ZeRO shards, a DTensor counts all
    own = (
        each if parallel.is_sharded(run) else parallel.local(each) for each in network.parameters()
    )
    parameters = sum(map(sparse.count, own))
    torch.manual_seed(run.dropout_seed)
    for layer in network.modules():  # batch-norm counts batches, which nothing reads
        if hasattr(layer, "num_batches_tracked"):
            layer.num_batches_tracked = None
    split = run.mesh.is_split or parallel.is_sharded(run)
    if run.distributed and not split:
        network = DistributedDataParallel(
            network,
            device_ids=[0] if run.cuda else None,
            gradient_as_bucket_view=True,
            **buffers_apart(DistributedDataParallel),
        )
    narrow = half(run) if run.amp else None
    dtype = narrow and getattr(torch, narrow)
    scaler = torch.amp.GradScaler(
        run.device, init_scale=run.loss_scale, enabled=narrow == "float16"
    )

    def forward(*batch):
        with torch.autocast(run.device, dtype, enabled=run.amp):
            return loss(run, network, *batch)

    graphs = cuda_graphs(run)
    if run.compiler == "inductor" and not split:  # of one that is split, layers are compiled
        forward = torch.compile(forward, mode="reduce-overhead" if graphs else None)
    batches = open_batches(run, layout)
    if run.cuda and not (batches.pooled or batches.on_device):
        batches = Ahead(batches, lambda *batch: put(run, *batch), torch.cuda.Stream())
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def backward():
        """One micro-step: gradients are added to those that are there."""
        value = forward(*next_batch())
        if run.accumulation > 1:
            value = value / run.accumulation
        mean = parallel.whole_loss(value.detach())
        if graphs:  # the next replay writes over it
            mean = mean.clone()
        scaler.scale(value).backward()
        return mean

    def without_exchange():
        """All micro-steps but the last one run in this."""
        if parallel.is_sharded(run):
            return parallel.unsynchronized(network)
        return network.no_sync() if run.distributed and not split else contextlib.nullcontext()

    def gradients():
        """All micro-steps; ranks exchange gradients in the last one."""
        value = 0.0
        for _ in range(run.accumulation - 1):
            with without_exchange():
                value += backward()
        return value + backward()

    if split:
        exchange = parallel.Exchange(run, weights.named)
    if run.mesh.pipeline > 1:
        pipeline = parallel.Pipeline(run, *staged(run, network, criterion, dtype))

    def split_gradients():
        """The same of a model that is split over ranks."""
        with parallel.context(run):
            if run.mesh.pipeline > 1:
                value = pipeline.gradients([next_batch() for _ in range(run.accumulation)])
            else:
                value = gradients()
        exchange.finish()
        return value

    def step():
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        # Not after the update: on a CPU, what is freed there is faulted in again (7 % of a step).
        optimizer.zero_grad(set_to_none=True)
        if split:
            value = split_gradients()
        else:
            value = gradients() if run.accumulation > 1 else backward()
        scaler.unscale_(optimizer)  # a clip is of true gradients
        scaler.step(optimizer)
        scaler.update()
        return value

    work = Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: None if value is None else value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            loss_scaling="dynamic" if scaler.is_enabled() else "none",
            loss_scale=run.loss_scale if scaler.is_enabled() else None,
            compute_dtype=narrow or str(torch.get_default_dtype()).replace("torch.", ""),
            copies="one batch ahead, on their own stream" if isinstance(batches, Ahead) else None,
            **parity or {},
        ),
        weights=weights,
    )
    scaling = scaler.state_dict()

    def forget_all():
        getattr(optimizer, "forget", functools.partial(forget, optimizer))()
        scaler.load_state_dict(scaling)

    work = restartable(work, forget_all, workloads.running_at_start(run))
    if not schedule:
        return work

    def set_rate(rate):
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)  # of layers that are trained more slowly

    def test(*batch):
        with torch.autocast(run.device, dtype, enabled=run.amp):
            return outputs(run, alone, *batch)

    if run.compiler == "inductor":
        test = torch.compile(test)

    def evaluate(*batch):
        alone.eval()
        with torch.no_grad():
            found = to_host(test(*put(run, *batch)))
        alone.train()
        return found

    return scheduled(work, schedule, set_rate, evaluate)


def staged(run, network, criterion, dtype):
    """(a stage's forward pass, the last one's loss), each in the precision that is asked for."""

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            with torch.autocast(run.device, dtype, enabled=run.amp):
                return self.network(x)

    def loss(outputs, labels):
        with torch.autocast(run.device, dtype, enabled=run.amp):
            return criterion(run, outputs, labels)

    return Stage(), loss


def forget(optimizer):
    """The optimizer's state as it begins: moments, and torch's own counts of steps."""
    for state in parallel.states(optimizer).values():
        for moment in state.values():
            moment.zero_()


def buffers_apart(parallel):
    """The argument of DistributedDataParallel by which ranks keep batch-norm's statistics apart."""
    known = inspect.signature(parallel).parameters
    newer = "forward_sync_buffers" in known  # torch 2.12; before it, the other one did this alone
    return {"forward_sync_buffers" if newer else "broadcast_buffers": False}


class Ahead:
    """A loader's batches on the GPU: a thread pins and copies them, one ahead of the step.

    put(*arrays): a loader's batch as tensors on the device; it is called with `stream` as the
    current one (None: on a CPU, in tests). `waited_seconds` are the step's own, copies included.
    """

    pooled = False
    on_device = True

    def __init__(self, batches, put, stream):
        self._batches, self._put, self._stream = batches, put, stream
        self.waited_seconds = 0.0
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._coming = self._thread.submit(self._copy)

    def __getattr__(self, name):  # what is known of the data: digests, parity
        return getattr(self._batches, name)

    def _copy(self):
        with torch.cuda.stream(self._stream):
            tensors = self._put(*self._batches.next())
            return tensors, self._stream and self._stream.record_event()

    def next(self):
        start = time.perf_counter()
        tensors, copied = self._coming.result()
        self.waited_seconds += time.perf_counter() - start
        self._coming = self._thread.submit(self._copy)
        if copied:
            computing = torch.cuda.current_stream()
            computing.wait_event(copied)
            for tensor in tensors:  # their memory may be used again only when the step is done
                tensor.record_stream(computing)
        return tensors

    def fill(self):
        self._batches.fill()
        self._coming.result()

    def close(self):
        self._batches.close()  # which ends a `next` that waits
        self._thread.shutdown()


def put(run, *arrays):
    """NumPy arrays -> tensors on the device: int64, or the model's type."""
    found = []
    for array in arrays:
        tensor = torch.from_numpy(array)
        tensor = tensor.to(torch.get_default_dtype() if tensor.is_floating_point() else torch.int64)
        if run.cuda:
            tensor = tensor.pin_memory()
        found.append(tensor.to(run.device, non_blocking=True))
    return found


def by_decay(network, decay):
    """Groups of parameters for an optimizer: matrices, with weight decay, and then vectors.

    A fused update takes no DTensors beside others, so those have groups of their own behind them.
    """
    whole = [p for p in network.parameters() if not isinstance(p, DTensor)]
    divided = [p for p in network.parameters() if isinstance(p, DTensor)]
    groups = []
    for parameters in filter(None, (whole, divided)):
        decayed = [p for p in parameters if p.ndim > 1]
        others = [p for p in parameters if p.ndim <= 1]
        groups += [
            {"params": decayed, "weight_decay": decay},
            {"params": others, "weight_decay": 0.0},
        ]
    return groups


def adamw(run, network, weights, facts, clip_norm=None):
    """A fused AdamW with the constants of a workload's facts, after a clip by global norm.

    weights: the Weights of the network. Under ZeRO's stage 1 each replica updates a share.
    """
    groups = by_decay(network, facts.WEIGHT_DECAY)
    settings = dict(
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        fused=True,
    )
    if run.layout.zero_stage == 1:
        adam = parallel.share_updates(run, groups, torch.optim.AdamW, settings)
    else:
        adam = torch.optim.AdamW(groups, **settings)
    if clip_norm is None:
        return adam
    if run.mesh.is_split or parallel.is_sharded(run):
        clip = parallel.Gradients(run, weights.named).clip

        def clip_all(*_):
            clip(clip_norm)
    else:

        def clip_all(*_):
            torch.nn.utils.clip_grad_norm_(network.parameters(), clip_norm, foreach=True)

    adam.register_step_pre_hook(clip_all)
    return adam


class Weights:
    """A network's parameters by canonical name; torch's layouts are the canonical ones.

    running: batch-norm's statistics, likewise. parts, zero_stage: of a model that is split over
    ranks, what of each tensor this one has (parallel.parts), and what replicas shard.
    """

    def __init__(self, run, named, running=None, parts=None, zero_stage=0):
        self.named, self.running, self._kinds = named, running or {}, workloads.kinds(run)
        self._parts, self._zero_stage = parts or {}, zero_stage

    def read(self):
        for name, parameter in self.named.items():
            own = parameter.detach()
            if hasattr(parameter, "shard"):
                shard = parameter.shard
                yield shard.part, self._array(name, own[: shard.held])
            elif self._zero_stage == 3:
                part, rows = parallel.sharded_part(name, own)
                yield part, self._array(name, rows)
            elif self._zero_stage == 2:  # sharded between steps alone: all ranks read together
                yield name, self._array(name, own.full_tensor())
            else:
                yield self._parts.get(name, name), self._array(name, parallel.local(own))

    def statistics(self):
        return ((name, each.cpu().numpy()) for name, each in self.running.items())

    def write(self, arrays):
        for name, parameter in self.named.items():
            own = {name: parallel.local(parameter.detach())}
            if hasattr(parameter, "shard"):
                copy(arrays, {name: parameter})
            elif self._zero_stage >= 2:
                part, _ = parallel.sharded_part(name, parameter)
                copy({name: part.of(arrays[name])}, own)
            elif name in self._parts:
                copy({name: self._parts[name].of(arrays[name])}, own)
            else:
                copy(arrays, own)

    def write_statistics(self, arrays):
        copy(arrays, self.running)

    def _array(self, name, tensor):
        """A tensor as an array, a large table as a Table."""
        if is_large(self._kinds.get(name), tensor.shape):
            return table(tensor.shape, lambda first, last: tensor[first:last].cpu().numpy())
        return tensor.cpu().numpy()


def copy(arrays, tensors):
    """Write NumPy arrays into tensors of the same names."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            for first, last, rows in parts(sparse.own_part(tensor, arrays[name])):
                rows = np.require(rows, requirements="CW")  # torch takes no other
                tensor[first:last].copy_(torch.from_numpy(rows))


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    for given in gradients:
        for name, parameter in weights.named.items():
            if isinstance(given[name], Rows):
                ids, rows = map(torch.from_numpy, given[name])
                parameter.grad = sparse.gradient(parameter, ids.to(run.device), rows.to(parameter))
            else:
                parameter.grad = torch.empty_like(parameter).copy_(torch.from_numpy(given[name]))
        optimizer.step()
    return weights.read()
