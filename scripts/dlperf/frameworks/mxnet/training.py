"""Training in MXNet's Gluon: what all workloads do alike.

The trainer and its store of gradients, loss scaling, one graph a step, accumulation, and the step
itself. Each rank updates its own copy of the weights.
"""

import functools
import json

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.contrib import amp

from dlperf import workloads
from dlperf.contract.run import Unsupported
from dlperf.contract.tensor import KERNEL, is_large
from dlperf.contract.work import Rows, Work, feed, parts, restartable, scheduled, table
from dlperf.frameworks.mxnet.process import by_horovod, scaled
from dlperf.workloads.inputs import open_batches


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    inputs,
    layout="",
    parity=None,
    losses=1,
    lookup=None,
    behind=None,
    schedule=None,
    outputs=None,
    tested=1,
):
    """The Work of training `network`.

    loss(run, network): a hybrid block of network and loss as one graph, from `inputs` arrays; it
    gives so many `losses`, one or one a sample. put(run, *arrays): a loader's batch on the device.
    lookup(*batch): what the graph takes in its place, with rows of tables for ids. behind(value,
    *others): the loss where it is not in the graph, from what that gives and the arrays that it
    does not take; it goes backward itself. layout: of a loader's images. schedule: a rate for each
    step, of the quality scenario; outputs: as of inference.infer, a block of the first `tested`
    arrays.
    """
    forward = loss(run, network)
    if run.compiler == "static":
        forward.hybridize(static_alloc=True, static_shape=True)
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    if run.accumulation > 1:
        for parameter in trained:
            parameter.grad_req = "add"
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    count = losses * run.accumulation  # whose gradients the step averages
    if not by_horovod(run):  # whose trainer takes the mean over ranks by itself
        count *= run.data_parallel

    def backward():
        """One micro-step: its gradients, or these added to those that are there."""
        batch = next_batch()
        if lookup:
            batch = lookup(*batch)
        with autograd.record():
            value = forward(*batch[:inputs])
            if behind:
                return behind(value, *batch[inputs:])
            if scaled(run):
                with amp.scale_loss(value, optimizer) as larger:
                    autograd.backward(larger)
        if not scaled(run):
            value.backward()
        return value

    def step():
        value = backward()
        for _ in range(run.accumulation - 1):
            value = value + backward()
        optimizer.step(count)
        if run.accumulation > 1:
            network.collect_params().zero_grad()
        return value

    work = Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.asnumpy().mean()) / run.accumulation,
        parameters=weights.count(trained),
        batches=batches,
        parity=dict(read_back(run, forward, inputs), **parity or {}),
        weights=weights,
    )
    own_forget = getattr(optimizer, "forget", functools.partial(forget, optimizer))
    work = restartable(work, own_forget, workloads.running_at_start(run))
    if not schedule:
        return work

    momentum = getattr(optimizer.optimizer, "momentum", None)
    shown = outputs(run, network)
    if run.compiler == "static":
        shown.hybridize(static_alloc=True, static_shape=True)

    def set_rate(rate):
        if momentum:
            # The buffer has the rates of their steps in it, so the last one is taken out, and this
            # one put in (Goyal et al. 2017, section 3).
            optimizer.optimizer.momentum = momentum * rate / optimizer.learning_rate
        optimizer.set_learning_rate(rate)

    def evaluate(*batch):
        return copied(run, shown(*put(run, *batch)[:tested])).asnumpy()

    return scheduled(work, schedule, set_rate, evaluate)


def forget(trainer):
    """The optimizer's state as before the first step; what that made stays where it is."""
    for updater in trainer._updaters:
        for state in updater.states.values():
            clear(state)
    own = trainer.optimizer
    own.num_update = own.begin_num_update
    for counts in own._all_index_update_counts.values():
        counts.clear()


def clear(state):
    """Write zeros into a moment, or moments one in the other; None is no moment."""
    if isinstance(state, (list, tuple)):
        for each in state:
            clear(each)
    elif state is not None:
        state[:] = 0


def copied(run, value):
    """Outputs in an array of their own: a static graph writes the next ones to the same place.

    They may be bfloat16, which NumPy has not.
    """
    return value.astype("float64" if run.float64 else "float32")


def read_back(run, forward, inputs):
    """What the step's graph is; raises Unsupported where it is not what the case says."""
    if run.compiler == "static" and not forward._active:
        raise Unsupported("hybridize() was accepted without effect")
    graph = forward(*(mx.sym.var("input%d" % index) for index in range(inputs)))
    nodes = [node["op"] for node in json.loads(graph.tojson(remove_amp_cast=False))["nodes"]]
    casts = sum(1 for op in nodes if op.startswith("amp_"))
    if run.amp and not casts:
        raise Unsupported("amp.init() was accepted, but the graph has no casts")
    fused = sum(1 for op in nodes if "interleaved_matmul" in op)
    found = {"operators": sum(1 for op in nodes if op != "null"), "amp_casts": casts}
    return dict(found, fused_attention=fused) if fused else found


def initialized(run, network):
    """The network with its weights on the device, in the model's type, to be written."""
    network.initialize(ctx=device(run))
    if run.float64:
        network.cast("float64")
    return network


def trainer(run, network, optimizer):
    """The trainer of a network's parameters, which joins the ranks where there are several."""
    parameters = network.collect_params()
    if by_horovod(run):
        import horovod.mxnet as hvd

        made = hvd.DistributedTrainer(parameters, optimizer)
    elif run.distributed:
        made = stored(run, parameters, optimizer)
    else:
        made = gluon.Trainer(parameters, optimizer, kvstore=None)
    if scaled(run):
        amp.init_trainer(made)
        scaler = made._amp_loss_scaler  # which offers no other way to say where it begins
        scaler._loss_scale = scaler._next_loss_scale = run.loss_scale
    return made


def stored(run, parameters, optimizer):
    """A trainer whose gradients are summed up in a store of parameter servers."""
    made = gluon.Trainer(
        parameters,
        optimizer,
        kvstore=mx.kv.create("dist_device_sync" if run.cuda else "dist_sync"),
        # Each rank updates its own copy: a server would have to keep all moments, sees no norm of
        # all gradients, and knows nothing of `wd_mult`, which is lost when the optimizer is sent.
        update_on_kvstore=False,
    )
    # Now, not in the first step as the trainer would: there, a rank's pull of the weights and its
    # push of gradients are not ordered: one run in eight trained on gradients for weights.
    made._init_kvstore()
    made._init_params()
    mx.nd.waitall()
    return made


def device(run):
    return mx.gpu(0) if run.cuda else mx.cpu()


def put(run, array, dtype):
    """A NumPy array on the device."""
    return mx.nd.array(array, device(run), dtype)


def named(network):
    """(name as files have it, with gamma and beta as weight and bias; parameter) of the trained."""
    for own, parameter in network._collect_params_with_prefix().items():
        if parameter.grad_req != "null":
            yield own.replace("gamma", "weight").replace("beta", "bias"), parameter


class Weights:
    """Parameters by canonical name. `layout` is the network's: NHWC puts a kernel's inputs last.

    running: batch-norm's statistics, likewise. shards: canonical name -> Shard of what a rank has a
    part of alone.
    """

    def __init__(self, run, named, layout="NCHW", running=None, shards=None):
        self.named, self.running, self._kinds = named, running or {}, workloads.kinds(run)
        self.shards = shards or {}
        self.last = layout == "NHWC"

    def statistics(self):
        return ((name, each.data().asnumpy()) for name, each in self.running.items())

    def read(self):
        for name, parameter in self.named.items():
            data, shard = parameter.data(), self.shards.get(name)
            if shard:  # behind its rows may be some of nobody
                data = data[: shard.held]
            yield shard.part if shard else name, self.array(name, data)

    def count(self, trained):
        """How many values are trained: those of these parameters, and of all that have a name."""
        sizes = {each: each.data().size for each in {*trained, *self.named.values()}}
        sizes.update((self.named[name], shard.size) for name, shard in self.shards.items())
        return sum(sizes.values())

    def write(self, arrays):
        for name, parameter in self.named.items():
            array = arrays[name]
            if name in self.shards:
                array = self.shards[name].own(array)
            for first, last, rows in parts(array):
                # Not NumPy's: a test leaves weights in oneDNN's layout, into which only MXNet
                # copies.
                rows = mx.nd.array(self.own(name, rows), dtype=parameter.dtype)
                if last is None:
                    parameter.set_data(rows)
                else:
                    parameter.data()[first:last] = rows

    def write_statistics(self, arrays):
        for name, parameter in self.running.items():
            parameter.set_data(arrays[name])

    def array(self, name, data):
        """An NDArray as a canonical array, a large table as a Table."""
        if is_large(self._kinds.get(name), data.shape):
            return table(data.shape, lambda first, last: data[first:last].asnumpy())
        return self.canonical(name, data.asnumpy())

    def own(self, name, array):
        return array.transpose(0, 2, 3, 1) if self._is_last(name) else array

    def canonical(self, name, array):
        return array.transpose(0, 3, 1, 2) if self._is_last(name) else array

    def _is_last(self, name):
        """Whether it is a kernel whose inputs are its last axis."""
        return self.last and self._kinds.get(name) == KERNEL


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's trainer took these gradients, one set a step."""
    network = implementation.model(run)
    trainer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    for given in gradients:
        for name, parameter in weights.named.items():
            if isinstance(given[name], Rows):
                ids, rows = given[name]
                place = parameter.data().context
                trainer.give(parameter, *(mx.nd.array(e, place, e.dtype) for e in (ids, rows)))
                continue
            number = mx.nd.array(weights.own(name, given[name]), ctx=parameter.data().context)
            with autograd.record():
                # of a product of weights and numbers, the gradient of the sum is the numbers
                product = parameter.data() * number
            product.backward()
        trainer.step(1)
    return weights.read()
