"""Training in PyTorch: what all workloads do alike.

Data parallel, autocast and gradient scaling, compiling, accumulation, and the step itself.
"""

import contextlib

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches


def train(run, network, loss, optimizer, weights, put, layout="", parity=None):
    """The Work of training `network`.

    loss(run, network, *batch): the mean loss of a batch; its network is the data-parallel one.
    put(run, *arrays): a loader's batch as tensors on the device. layout: of a loader's images.
    """
    parameters = sum(p.numel() for p in network.parameters())
    torch.manual_seed(run.seed + run.rank)  # of dropout: ranks drop other elements
    if run.distributed:
        network = DistributedDataParallel(
            network,
            device_ids=[0] if run.cuda else None,
            gradient_as_bucket_view=True,
            forward_sync_buffers=False,  # batch-norm statistics stay each rank's own
        )
    half = torch.float16 if run.cuda else torch.bfloat16
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp and run.cuda)

    def forward(*batch):
        with torch.autocast(run.device, dtype=half, enabled=run.amp):
            return loss(run, network, *batch)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def backward():
        """One micro-step: gradients are added to those that are there."""
        value = forward(*next_batch())
        if run.accumulation > 1:
            value = value / run.accumulation
        scaler.scale(value).backward()
        return value.detach()

    def gradients():
        """All micro-steps; ranks exchange gradients in the last one."""
        value = 0.0
        for _ in range(run.accumulation - 1):
            with network.no_sync() if run.distributed else contextlib.nullcontext():
                value += backward()
        return value + backward()

    def step():
        # Not after the update: on a CPU, what is freed there is faulted in again (7 % of a step).
        optimizer.zero_grad(set_to_none=True)
        value = gradients() if run.accumulation > 1 else backward()
        scaler.unscale_(optimizer)  # a clip is of true gradients
        scaler.step(optimizer)
        scaler.update()
        return value

    return Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            loss_scaling="dynamic" if scaler.is_enabled() else "none",
            compute_dtype=str(half).replace("torch.", "") if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )


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
    """Groups of parameters for an optimizer: weight decay on those of two dimensions and more."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    return [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


class Weights:
    """A network's parameters by canonical name; torch's layouts are the canonical ones.

    running: batch-norm's statistics, likewise.
    """

    def __init__(self, named, running=None):
        self.named, self.running = named, running

    def read(self):
        return ((name, p.detach().cpu().numpy()) for name, p in self.named.items())

    def statistics(self):
        return ((name, each.cpu().numpy()) for name, each in self.running.items())

    def write(self, arrays):
        copy(arrays, self.named)

    def write_statistics(self, arrays):
        copy(arrays, self.running)


def copy(arrays, tensors):
    """Write NumPy arrays into tensors of the same names."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            array = np.require(arrays[name], requirements="CW")  # torch takes no other
            tensor.copy_(torch.from_numpy(array))


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    for given in gradients:
        for name, parameter in weights.named.items():
            parameter.grad = torch.empty_like(parameter).copy_(torch.from_numpy(given[name]))
        optimizer.step()
    return weights.read()
