"""Training in MindSpore: what all workloads do alike.

The whole step (forward, backward, all-reduce, update) as one graph, or operator by operator;
gradient scaling, accumulation.
"""

import mindspore as ms
import numpy as np
from mindspore import ops

from dlperf import frameworks, workloads
from dlperf.contract.work import Rows, Table, Work, feed, parts, restartable, scheduled
from dlperf.frameworks.mindspore import parallel
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
):
    """The Work of training `network`.

    loss(network, *batch): the mean loss of a batch, without a Run, which no graph takes. put(run,
    *arrays): a loader's batch as tensors. layout: of a loader's images. schedule: a rate for each
    step, of the quality scenario; outputs: as of inference.infer.
    """
    parallel.refuse(run)
    trained = optimizer.parameters
    reduce = parallel.gradient_reducer(run, trained)
    scaler = ms.amp.DynamicLossScaler(run.loss_scale, 2, 2000) if run.amp else None

    def forward(*batch):
        value = loss(network, *batch)
        return value if scaler is None else scaler.scale(value)

    gradients_of = ms.value_and_grad(forward, None, trained)

    def update(gradients):
        if reduce is not None:
            gradients = reduce(gradients)
        if scaler is None:
            optimizer(gradients)
        else:
            gradients = scaler.unscale(gradients)
            finite = ms.amp.all_finite(gradients)
            if finite:
                optimizer(gradients)
            scaler.adjust(finite)

    def whole(*batch):
        value, gradients = gradients_of(*batch)
        if scaler is not None:
            value = scaler.unscale(value)
        update(gradients)
        return value

    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    if run.accumulation > 1:
        step = accumulated(run, next_batch, gradients_of, scaler, trained, update)
    else:
        whole = compiled(run, whole)

        def step():
            return whole(*next_batch())

    work = Work(
        step=step,
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=weights.count(),
        batches=batches,
        parity=dict(
            # `if finite` is a branch of the graph, which the host takes
            loss_scaling="dynamic, synchronises each step" if run.amp else "none",
            compute_dtype=frameworks.half(run) if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )
    states = states_of(optimizer, scaler)

    def forget():
        for parameter, value in states:
            assign(parameter, ops.full_like(parameter, value))

    work = restartable(work, forget, workloads.running_at_start(run))
    if not schedule:
        return work

    def set_rate(rate):
        assign(optimizer.learning_rate, ms.Tensor(rate, optimizer.learning_rate.dtype))

    def shown(*batch):
        return outputs(network, *batch)

    shown = compiled(run, shown)

    def evaluate(*batch):
        network.set_train(False)
        found = shown(*put(run, *batch)).asnumpy()
        network.set_train()
        return found

    return scheduled(work, schedule, set_rate, evaluate)


def assign(parameter, value):
    """Write into the parameter's own memory, which graphs have; `set_data` gives it another."""
    ops.assign(parameter, value)


def states_of(optimizer, scaler):
    """(parameter, the value that all of it begins with) of what an optimizer and, if there is one,
    a DynamicLossScaler keep by themselves."""
    others = [optimizer.learning_rate, *optimizer.parameters]
    kept = [p for p in optimizer.get_parameters() if not any(p is other for other in others)]
    if scaler is not None:
        kept += [scaler.scale_value, scaler.counter]
    return [(parameter, parameter.asnumpy().flat[0].item()) for parameter in kept]


def accumulated(run, next_batch, gradients_of, scaler, trained, update):
    """The step of several micro-steps: they add up gradients, then the update takes the means."""
    sums = trained.clone("sums", init="zeros")
    add, apply = ops.HyperMap(), ops.HyperMap()
    share = 1.0 / run.accumulation

    def micro_step(*batch):
        value, gradients = gradients_of(*batch)
        if scaler is not None:
            value = scaler.unscale(value)
        add(ops.assign_add, sums, gradients)
        return value

    def last():
        update(apply(ops.partial(ops.mul, share), sums))
        return apply(clear, sums)

    micro_step, last = compiled(run, micro_step), compiled(run, last)

    def step():
        value = micro_step(*next_batch())
        for _ in range(run.accumulation - 1):
            value = value + micro_step(*next_batch())
        last()
        return value * share

    return step


def clear(total):
    return ops.assign(total, ops.zeros_like(total))


def compiled(run, function):
    return ms.jit(function, fullgraph=True) if run.compiler == "graph" else function


def put(run, *arrays):
    """NumPy arrays -> tensors."""
    return [ms.Tensor(each) for each in arrays]


def by_decay(network, decay):
    """Groups of parameters for an optimizer: weight decay on those of two dimensions and more."""
    decayed = [p for p in network.trainable_params() if p.ndim > 1]
    others = [p for p in network.trainable_params() if p.ndim <= 1]
    return [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def synchronize(run):
    """Wait for all queued work."""
    if run.cuda:
        ms.runtime.synchronize()
    else:  # the same, but runtime's refuses its first call on a CPU
        ms.hal.synchronize()


class Weights:
    """A network's parameters by canonical name; MindSpore's layouts are the canonical ones.

    running: batch-norm's statistics, likewise. parts: canonical name -> Part of what a rank has a
    part of alone. shards: canonical name -> Shard of tables that replicas divide.
    """

    def __init__(self, named, running=None, parts=None, shards=None):
        self.named, self.running, self.parts = named, running or {}, parts or {}
        self.shards = shards or {}

    def count(self):
        """How many values this rank has."""
        return sum(
            self.shards[name].size if name in self.shards else parameter.size
            for name, parameter in self.named.items()
        )

    def statistics(self):
        return ((name, each.asnumpy()) for name, each in self.running.items())

    def read(self):
        for name, parameter in self.named.items():
            if name in self.shards:
                shard = self.shards[name]
                yield shard.part, parameter.asnumpy()[: shard.held]
            else:
                yield self.parts.get(name, name), parameter.asnumpy()

    def write(self, arrays):
        for name, parameter in self.named.items():
            array = arrays[name]
            if name in self.shards:
                array = self.shards[name].own(array)
            if name in self.parts:
                array = self.parts[name].of(array)
            if isinstance(array, Table):
                cpu = ms.get_context("device_target") == "CPU"
                # On the CPU `asnumpy` gives the parameter's own memory, elsewhere a copy.
                memory = parameter.asnumpy() if cpu else np.empty(array.shape, "float32")
                for first, last, rows in parts(array):
                    memory[first:last] = rows
                if cpu:
                    continue
                array = memory
            assign(parameter, tensor(array, parameter))

    def write_statistics(self, arrays):
        for name, parameter in self.running.items():
            assign(parameter, tensor(arrays[name], parameter))


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    names = {id(parameter): name for name, parameter in weights.named.items()}

    def update(gradients):
        return optimizer(gradients)

    update = compiled(run, update)
    for given in gradients:
        update(tuple(tensor(given[names[id(p)]], p) for p in optimizer.parameters))
    return weights.read()


def tensor(array, parameter):
    """A copy of the array, in the parameter's type; of a table's rows, ids and such a copy."""
    if isinstance(array, Rows):
        return ms.Tensor(array.ids, ms.int32), tensor(array.values, parameter)
    return ms.Tensor(array.copy(), parameter.dtype)
