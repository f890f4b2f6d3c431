"""Training in OneFlow: what all workloads do alike.

Eager with DistributedDataParallel, or nn.Graph over global tensors (batch split, weights
broadcast); AMP with dynamic loss scaling in a graph; accumulation, and the step itself.
"""

import functools

import oneflow as flow
from oneflow import nn

from dlperf import frameworks, workloads
from dlperf.contract.tensor import is_large
from dlperf.contract.work import Rows, Work, feed, parts, restartable, scheduled, table
from dlperf.frameworks.oneflow import parallel
from dlperf.workloads.inputs import open_batches


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    example,
    layout="",
    parity=None,
    schedule=None,
    outputs=None,
):
    """The Work of training `network`, which `place` gave.

    loss(run, network, *batch): the mean loss of a batch; its network is the data-parallel one.
    put(run, *arrays): a loader's batch as tensors on the device. example: arrays of such a batch,
    to compile a graph with. layout: of a loader's images. schedule: a rate for each step, of a
    the quality scenario; outputs: as of inference.infer.
    """
    flow.manual_seed(run.dropout_seed)
    batches = open_batches(run, layout)
    if run.compiler == "graph":
        step, detail, forget_all = in_graph(run, network, loss, optimizer, put, example, batches)
    else:
        step, detail = eager(run, network, loss, optimizer, put, batches), {}
        forget_all = getattr(optimizer, "forget", functools.partial(forget, optimizer))
    work = Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,  # all queued instructions, graphs included
        loss=lambda value: loss_of(run, value),
        parameters=weights.count(),
        batches=batches,
        parity=dict(
            detail,
            # the update's kernels read on the device whether to skip it: nothing waits
            loss_scaling="dynamic" if run.amp else "none",
            compute_dtype=frameworks.half(run) if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )
    work = restartable(work, forget_all, workloads.running_at_start(run))
    if not schedule or run.compiler == "graph":
        return work

    def set_rate(rate):
        for group in optimizer.param_groups:
            group["lr"] = rate

    def evaluate(*batch):
        network.eval()
        with flow.no_grad():
            found = to_host(outputs(run, network, *put(run, *batch)))
        network.train()
        return found

    return scheduled(work, schedule, getattr(optimizer, "set_rate", set_rate), evaluate)


def forget(optimizer):
    """The optimizer's state as it begins."""
    optimizer._state["step"] = 0
    for state in optimizer._state.values():
        for moment in state.values() if isinstance(state, dict) else ():
            moment.zero_()


def to_host(value):
    """A rank's own outputs as a NumPy array."""
    if value.is_global:
        value = value.to_global(sbp=flow.sbp.split(0)).to_local()
    value = value.detach()
    return (value.float() if value.dtype == flow.float16 else value).numpy()


def eager(run, network, loss, optimizer, put, batches):
    """The step, which returns its loss."""
    split = parallel.is_split(run)

    def there(*batch):
        found = put(run, *batch)
        return parallel.batch_over_ranks(run, found) if split else found

    next_batch = feed(batches, there)
    buckets = run.distributed and not split and not run.float64 and run.accumulation == 1
    if buckets:
        # batch-norm statistics stay each rank's own
        network = nn.parallel.DistributedDataParallel(network, broadcast_buffers=False)

    def forward():
        """A micro-step's share of the loss."""
        value = loss(run, network, *next_batch())
        return value / run.accumulation if run.accumulation > 1 else value

    def gradients():
        """All micro-steps: gradients are added to those that are there; those of a pipeline run
        forward all of them first, so that stages work at the same time."""
        ahead = run.accumulation if run.mesh.pipeline > 1 else 1
        total = 0.0
        for _ in range(0, run.accumulation, ahead):
            values = [forward() for _ in range(ahead)]
            for value in values:
                value.backward()
                total = total + value.detach()
        return total

    def step():
        value = gradients()
        # DistributedDataParallel takes no float64, and exchanges gradients in every micro-step
        if split:
            parallel.sum_gradients(network)
        elif run.distributed and not buckets:
            mean_over_ranks(run, network)
        optimizer.step()
        # DistributedDataParallel adds into its buckets, which it does not clear itself
        optimizer.zero_grad(set_to_none=not buckets)
        return value

    return step


def mean_over_ranks(run, network):
    for parameter in network.parameters():
        if not parameter.requires_grad:  # a lazy table, of which ranks exchange rows
            continue
        flow._C.local_all_reduce(parameter.grad, inplace=True).mul_(1 / run.ranks)


def gathered(run, tensor):
    """All ranks' tensors of this shape, one behind the other."""
    whole = flow.empty(
        run.ranks * tensor.shape[0], *tensor.shape[1:], dtype=tensor.dtype, device=tensor.device
    )
    flow.comm.all_gather_into_tensor(whole, tensor)
    return whole


def in_graph(run, network, loss, optimizer, put, example, batches):
    """(the step, which returns its loss; what the compiled graph says of itself; what makes its own
    state as it begins).

    A graph takes the batches of all micro-steps as one, and splits it.
    """
    graph = TrainingGraph(run, network, loss, optimizer)

    def join(taken):
        tensors = taken[0]
        if run.accumulation > 1:
            tensors = [flow.cat(each) for each in zip(*taken)]
        return [over_ranks(run, each) for each in tensors]

    # compiled before its first step
    graph._compile(*join([put(run, *example)] * run.accumulation))
    detail = {
        "graph_compiled": graph.is_compiled,
        "graph_operations": len(graph._compiled_graph_proto.net.op),
    }
    if run.accumulation == 1:
        next_batch = feed(batches, lambda *batch: join([put(run, *batch)]))
    else:
        one = feed(batches, lambda *batch: put(run, *batch))

        def next_batch():
            return join([one() for _ in range(run.accumulation)])

    return lambda: graph(*next_batch()).detach(), detail, forget_graph(graph)


def forget_graph(graph):
    """What writes a compiled graph's own state as it now is, where it is: zeros as moments, counts
    of steps, the loss scale."""
    own = [Weights.local(each) for each in graph._c_nn_graph.additional_var_tensors]
    numbers = [each.clone() if each.numel() == 1 else None for each in own]

    def forget():
        # nothing else orders these behind the steps, and the next step behind them
        flow._oneflow_internal.eager.Sync()
        for tensor, number in zip(own, numbers):
            if number is None:
                tensor.zero_()
            else:
                tensor.copy_(number)
        flow._oneflow_internal.eager.Sync()

    return forget


class TrainingGraph(nn.Graph):
    """Forward, backward and update as one static graph."""

    def __init__(self, run, network, loss, optimizer):
        super().__init__()
        self.run, self.network, self.loss = run, network, loss
        # of an optimiser of ours: what a graph has to be told beside its settings
        options = getattr(optimizer, "graph_options", dict)()
        self.add_optimizer(optimizer, **options)
        self.config.allow_fuse_model_update_ops(True)
        self.config.allow_fuse_add_to_output(True)
        if run.accumulation > 1:
            self.config.set_gradient_accumulation_steps(run.accumulation)
        if run.cuda:
            self.config.enable_cudnn_conv_heuristic_search_algo(False)  # measure, not guess
        if run.amp:
            self.config.enable_amp(True, dtype=flow.float16)
            self.config.allow_fuse_cast_scale(True)
            self.set_grad_scaler(flow.amp.GradScaler(init_scale=run.loss_scale))

    def build(self, *batch):
        value = self.loss(self.run, self.network, *batch)
        value.backward()
        return value


def place(run, network, canonical=None):
    """The network on its device, in the run's type, to train; in a graph it spans all ranks."""
    if run.float64:
        network = network.to(flow.float64)
    network = network.to(run.device).train()
    for layer in network.modules():  # batch-norm counts batches, which nothing reads
        if hasattr(layer, "num_batches_tracked"):
            layer.num_batches_tracked = None
    if parallel.is_split(run):
        network = parallel.divide(run, network, canonical)
    elif run.distributed and run.compiler == "graph":
        network = network.to_global(parallel.placement(run), sbp=flow.sbp.broadcast)
    return network


def put(run, *arrays):
    """NumPy arrays -> tensors on the device: int64, or the model's type."""
    found = []
    for array in arrays:
        tensor = flow.from_numpy(array)
        if array.dtype.kind == "f":
            tensor = tensor.to(flow.float64 if run.float64 else flow.float32)
        else:
            tensor = tensor.to(flow.int64)
        if run.cuda:
            tensor = tensor.pin_memory().to("cuda")
        found.append(tensor)
    return found


def over_ranks(run, tensor):
    """A rank's part of a batch as a graph takes it: split over all ranks."""
    if not run.distributed:
        return tensor
    # check_meta=False: the ranks need not agree on shapes in every step
    return tensor.to_global(parallel.placement(run), parallel.rows(run), check_meta=False)


def loss_of(run, value):
    """A step's loss as a number; None of a rank whose stage has none."""
    if parallel.is_split(run):
        return parallel.own_loss(run, value)
    return local(value).mean().item()


def local(value):
    if value.is_global:
        value = value.to_global(sbp=[flow.sbp.broadcast] * len(value.sbp)).to_local()
    return value


def by_decay(network, decay):
    """Groups of parameters for an optimizer: weight decay on those of two dimensions and more."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    return [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


class Undrawn:
    """Of a layer that draws no weights when it is made: the stopwatch writes them all."""

    def reset_parameters(self):
        pass


class Linear(Undrawn, nn.Linear):
    pass


class Weights:
    """A network's parameters by canonical name; OneFlow's layouts are the canonical ones.

    In a graph over several ranks they are global tensors, of which every rank has a whole copy.
    running: batch-norm's statistics, likewise. shards: of the tables that ranks share out, by name.
    split: a parallel.Split, of a model that is.
    """

    def __init__(self, run, named, running=None, shards=None, split=None):
        self.named, self.running, self.shards = named, running or {}, shards or {}
        self.split = split
        self._kinds = workloads.kinds(run)

    def statistics(self):
        return ((name, self.local(each).numpy()) for name, each in self.running.items())

    def read(self):
        for name, parameter in self.named.items():
            shard, own = self.shards.get(name), self.local(parameter)
            if shard:
                yield shard.part, self.array(name, own[: shard.held])
            elif self.split:
                yield self.split.read(name, self.array(name, own))
            else:
                yield name, self.array(name, own)

    def count(self):
        """The trained numbers that this rank has."""
        if self.split:
            return sum(each.to_local().numel() for each in self.named.values())
        shared = sum(each.size for each in self.shards.values())
        return shared + sum(p.numel() for name, p in self.named.items() if name not in self.shards)

    def write(self, arrays):
        for name, parameter in self.named.items():
            shard, given = self.shards.get(name), arrays[name]
            if self.split:
                self.split.write(name, parameter, given)
                continue
            for first, last, rows in parts(shard.own(given) if shard else given):
                rows = self.tensor(name, rows)
                if last is None:
                    parameter.data.copy_(rows)
                else:
                    parameter.data[first:last] = rows

    def write_statistics(self, arrays):
        for name, each in self.running.items():
            each.data.copy_(self.alike(each, arrays[name]))

    def array(self, name, tensor):
        """A tensor as an array, a large table as a Table."""
        if is_large(self._kinds.get(name), tensor.shape):
            return table(tensor.shape, lambda first, last: tensor[first:last].numpy())
        return tensor.numpy()

    def tensor(self, name, array):
        """A canonical array as the parameter has it."""
        return self.alike(self.named[name], array)

    @staticmethod
    def alike(parameter, array):
        tensor = flow.tensor(array.copy(), dtype=parameter.dtype)
        if parameter.is_global:
            return tensor.to_global(placement=parameter.placement, sbp=parameter.sbp)
        return tensor.to(parameter.device)

    @staticmethod
    def local(parameter):
        return (parameter.to_local() if parameter.is_global else parameter).detach()


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    update = graph_update if run.compiler == "graph" else eager_update
    update = update(run, weights.named, optimizer)
    for given in gradients:
        update({name: as_tensors(weights, name, given[name]) for name in weights.named})
    return weights.read()


def as_tensors(weights, name, given):
    """A gradient as its parameter has it; the ids of rows as they are."""
    if isinstance(given, Rows):
        device = weights.named[name].device
        return Rows(flow.from_numpy(given.ids).to(device), weights.tensor(name, given.values))
    return weights.tensor(name, given)


def eager_update(run, named, optimizer):
    def update(gradients):
        for name, parameter in named.items():
            if isinstance(gradients[name], Rows):
                optimizer.give(parameter, *gradients[name])
            else:
                parameter.grad = gradients[name]
        optimizer.step()

    return update


def graph_update(run, named, optimizer):
    """The training graph, on a loss that has the given gradients."""
    keys = ["parameter%d" % index for index in range(len(named))]  # no name may have a dot

    def product(parameter, given):
        if isinstance(given, list):  # ids and rows: a lookup, whose gradient is of rows alone
            ids, given = given
            parameter = flow._C.gather(parameter, ids, axis=0)
        return (parameter * given).sum()

    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            for key, parameter in zip(keys, named.values()):
                self.register_parameter(key, parameter)

        def forward(self, numbers):
            return [product(getattr(self, key), each) for key, each in zip(keys, numbers)]

    def loss(run, network, *numbers):
        return sum(network(numbers))

    graph = TrainingGraph(run, Products(), loss, optimizer)

    def update(gradients):
        graph(*(list(each) if isinstance(each, Rows) else each for each in gradients.values()))

    return update
