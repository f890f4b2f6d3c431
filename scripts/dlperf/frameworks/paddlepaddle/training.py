"""Training in PaddlePaddle: what all workloads do alike.

Data parallel, mixed precision at level O2 (narrow weights, fp32 master weights), static programs,
accumulation, and the step itself.
"""

import contextlib

import paddle

from dlperf import frameworks, workloads
from dlperf.contract import layouts
from dlperf.contract.run import Unsupported
from dlperf.contract.tensor import is_large
from dlperf.contract.work import Rows, Work, feed, parts, restartable, scheduled, table
from dlperf.frameworks.paddlepaddle import sparse
from dlperf.frameworks.paddlepaddle.process import version
from dlperf.workloads.inputs import open_batches


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    spec,
    layout="",
    parity=None,
    lookup=None,
    schedule=None,
    outputs=None,
    tested=1,
    tested_spec=None,
):
    """The Work of training `network`.

    loss(run, network): a layer that gives the mean loss of a batch; it is made static and data
    parallel as a whole. spec: InputSpecs of a batch, for static programs. put(run, *arrays): a
    loader's batch as tensors on the device. layout: of a loader's images. lookup(*batch): what the
    layer takes in its place, with rows of tables for ids. schedule: a rate for each step, of a
    the quality scenario; outputs: as of inference.infer, a layer that takes the first `tested`
    arrays of a batch. tested_spec: InputSpecs of these, where `lookup` makes others.
    """
    parameters = sum(map(sparse.count, trained(network)))
    if run.amp:
        network, optimizer = paddle.amp.decorate(
            network, optimizer, level="O2", dtype=frameworks.half(run), master_grad=True
        )
    # gradients in bfloat16 need no scale
    scaled = run.amp and frameworks.half(run) == "float16"
    scaler = paddle.amp.GradScaler(enable=scaled, init_loss_scaling=run.loss_scale)
    forward, detail = loss(run, network), {}
    if run.compiler != "none":
        forward, detail = compiled(run, forward, spec)
    if run.distributed:
        forward = paddle.DataParallel(forward)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def backward():
        """One micro-step: gradients are added to those that are there."""
        batch = next_batch()
        if lookup:
            batch = lookup(*batch)
        with auto_cast(run):
            value = forward(*batch)
        if run.accumulation > 1:
            value = value / run.accumulation
        if scaled:
            scaler.scale(value).backward()
        else:
            value.backward()
        return value.detach()

    def gradients():
        """All micro-steps; ranks exchange gradients in the last one."""
        value = 0.0
        for _ in range(run.accumulation - 1):
            with forward.no_sync() if run.distributed else contextlib.nullcontext():
                value = value + backward()
        return value + backward()

    def step():
        value = gradients() if run.accumulation > 1 else backward()
        if scaled:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        return value

    work = Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            # whether all gradients are finite is asked on the host, before the update
            loss_scaling="dynamic, synchronises each step" if scaler.is_enable() else "none",
            compute_dtype=computed_in(network),
            **parity or {},
        ),
        weights=weights,
    )
    scaling = scaler.state_dict()

    def forget_all():
        forget(optimizer, trained(network))
        scaler.load_state_dict(scaling)

    work = restartable(work, forget_all, workloads.running_at_start(run))
    if not schedule:
        return work
    shown = Shown(outputs(run, network))
    if run.compiler != "none":
        backend = "CINN" if run.compiler == "cinn" else None
        given = tested_spec or spec[:tested]
        shown = paddle.jit.to_static(shown, [given], full_graph=True, backend=backend)

    def evaluate(*batch):
        shown.eval()
        with paddle.no_grad(), auto_cast(run):
            found = to_host(shown(put(run, *batch)[:tested]))
        shown.train()
        return found

    return scheduled(work, schedule, optimizer.set_lr, evaluate)


class Shown(paddle.nn.Layer):
    """A layer's outputs, as a static program of their own."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, batch):
        # a copy: a program whose last operator is one of oneDNN's crashes
        return paddle.assign(self.layer(*batch))


def forget(optimizer, parameters):
    """The optimizer's state as it begins; float32 copies of narrow weights as these now are."""
    begin = {"beta1_pow_acc": "_beta1", "beta2_pow_acc": "_beta2"}  # Adam's; others begin with 0
    for kind, tensors in optimizer._accumulators.items():
        value = getattr(optimizer, begin[kind]) if kind in begin else 0.0
        for each in tensors.values():
            each.set_value(paddle.full_like(each, value))
    for parameter in parameters:
        if parameter.name in optimizer._master_weights:
            master = optimizer._master_weights[parameter.name]
            master.set_value(parameter.astype(master.dtype))
    if hasattr(optimizer, "forget"):  # what it keeps beside Paddle's own
        optimizer.forget()


def to_host(value):
    """A NumPy array, which has no bfloat16."""
    if value.dtype in (paddle.bfloat16, paddle.float16):
        value = value.astype("float32")
    return value.numpy()


def auto_cast(run):
    """The mixed precision in which a forward pass runs or is compiled; of other runs, nothing."""
    if not run.amp:
        return contextlib.nullcontext()
    return paddle.amp.auto_cast(level="O2", dtype=frameworks.half(run))


def trained(network):
    # paddle counts batch-norm's moving statistics among the parameters
    return [p for p in network.parameters() if not p.stop_gradient]


def computed_in(network):
    """The type of the last dense layer's weight, which is what products are computed in."""
    dense = [each for each in network.sublayers() if isinstance(each, paddle.nn.Linear)]
    return str(dense[-1].weight.dtype).replace("paddle.", "")


def compiled(run, forward, spec):
    """`forward` as one static program each way, and what the programs say of themselves.

    Raises Unsupported where CINN was asked for and left no kernel in them.
    """
    cinn = run.compiler == "cinn"
    fused = fusions(run)
    strategy = paddle.static.BuildStrategy()
    for name in fused:
        setattr(strategy, name, True)
    forward = paddle.jit.to_static(
        forward,
        input_spec=spec,
        full_graph=True,
        build_strategy=strategy,
        backend="CINN" if cinn else None,
    )
    with auto_cast(run):
        static, partial = forward.forward.get_concrete_program(*spec, is_train=True)
    detail = {"program_operations": len(static.main_program.global_block().ops)}
    if run.cuda:
        detail["build_strategy"] = ", ".join(fused) or "as it is"
    if cinn:
        detail["cinn_kernels"] = str(partial.program.forward_program).count("cinn_runtime.jit")
        if not detail["cinn_kernels"]:
            raise Unsupported("to_static with the CINN backend left no CINN kernel in the program")
    return forward, detail


def fusions(run):
    """What PaddleClas asks of a static program on a GPU. The programs of version 3 know none of it.

    Batch-norm is fused with ReLU and addition in float16 and NHWC only.
    """
    if not run.cuda or version() >= 3:
        return ()
    return ("fuse_bn_act_ops", "fuse_bn_add_act_ops", "enable_addto")


def put(run, *arrays):
    """NumPy arrays -> tensors on the device: int64, or the model's type."""
    place = paddle.CUDAPinnedPlace() if run.cuda else paddle.CPUPlace()
    found = []
    for array in arrays:
        dtype = paddle.get_default_dtype() if array.dtype.kind == "f" else "int64"
        tensor = paddle.to_tensor(array, dtype, place)
        found.append(tensor.cuda(blocking=False) if run.cuda else tensor)
    return found


class Weights:
    """A network's parameters by canonical name; Paddle's dense weights are (inputs, outputs).

    running: batch-norm's statistics, likewise.
    """

    def __init__(self, run, named, running=None):
        self.named, self.running, self._kinds = named, running or {}, workloads.kinds(run)

    def statistics(self):
        return ((name, each.numpy()) for name, each in self.running.items())

    def read(self):
        for name, parameter in self.named.items():
            shard = getattr(parameter, "shard", None)
            held = shard.held if shard else parameter.shape[0]
            yield shard.part if shard else name, self.array(name, parameter, held)

    def write(self, arrays):
        for name, parameter in self.named.items():
            for first, last, rows in parts(sparse.own_part(parameter, arrays[name])):
                rows = self.tensor(name, rows)
                if last is None:
                    parameter.set_value(rows)
                else:
                    with paddle.no_grad():
                        parameter[first:last] = rows

    def write_statistics(self, arrays):
        for name, each in self.running.items():
            each.set_value(paddle.to_tensor(arrays[name], dtype=each.dtype))

    def array(self, name, parameter, held):
        """Its first `held` rows as a canonical array, those of a large table as a Table."""
        kind, shape = self._kinds.get(name), (held, *parameter.shape[1:])
        if is_large(kind, shape):
            alone = parameter.detach()  # by gather: a slice is a view, of which numpy() copies all
            return table(shape, lambda *ends: paddle.gather(alone, paddle.arange(*ends)).numpy())
        return layouts.dense_transposed(kind, parameter.numpy()[:held])

    def tensor(self, name, array):
        """A canonical array as the parameter has it."""
        array = layouts.dense_transposed(self._kinds.get(name), array)
        return paddle.to_tensor(array, dtype=self.named[name].dtype)


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    for given in gradients:
        for name, parameter in weights.named.items():
            if isinstance(given[name], Rows):
                ids, rows = map(paddle.to_tensor, given[name])
                optimizer.give(parameter, ids, rows.astype(parameter.dtype))
                continue
            parameter.grad = weights.tensor(name, given[name])
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
    return weights.read()
