"""Training in TensorFlow 2: what all workloads do alike.

The whole step is one traced function of static shapes, or, where micro-steps share an update, one
for a micro-step and one for the update. Under AMP, fp32 variables are cast to bfloat16 or float16
where they are used.
"""

import tensorflow as tf

from dlperf import workloads
from dlperf.contract import layouts
from dlperf.contract.run import Unsupported
from dlperf.contract.tensor import DENSE, ROWS, is_large
from dlperf.contract.work import Rows, Work, as_array, feed, parts, restartable, scheduled, table
from dlperf.frameworks import half
from dlperf.frameworks.tensorflow import parallel
from dlperf.frameworks.tensorflow.process import dtype, strategy
from dlperf.workloads.inputs import open_batches


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    specs,
    layout="",
    parity=None,
    schedule=None,
    outputs=None,
):
    """The Work of training `network`, a tf.Module.

    loss(run, network, *batch): the mean loss of a batch. optimizer.apply(gradients, norm=None,
    finite=None): updates the weights, or leaves all as it is where `finite`, a tensor, is false
    (see `choose`); norm is that of all gradients together, where it is known. put(*arrays): a
    loader's batch as tensors. specs: a TensorSpec for each of them. layout: of a loader's images.
    schedule: a rate for each step, of the quality scenario: the optimizer's `learning_rate` is a
    variable there; outputs: as of inference.infer.
    """
    parallel.refuse(run)
    tf.random.set_seed(run.dropout_seed)
    variables = network.trainable_variables
    scale = LossScale(run.loss_scale) if run.amp and half(run) == "float16" else None
    batches = open_batches(run, layout)
    next_batch = feed(batches, put)
    exchanged = (
        parallel.Gradients(run, weights.named, variables) if parallel.is_split(run) else None
    )

    def differentiate(*batch):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = loss(run, network, *batch)
            # so that the sum over replicas and micro-steps is the gradients' mean
            share = value / (run.data_parallel * run.accumulation)
            share = share * scale.scale if scale else share
        return value, tape.gradient(share, variables)

    def update(gradients):
        if exchanged:
            optimizer.apply(gradients, exchanged.norm(gradients))
        elif scale:
            scale.apply(optimizer, gradients)
        else:
            optimizer.apply(gradients)

    if run.distributed and run.compiler == "xla":
        # XLA compiles no collectives between processes: it gets what lies before and after them.
        differentiate = function(differentiate, jit_compile=True)
        update = function(update, jit_compile=True)

    def update_together(gradients):
        if exchanged:
            gradients = exchanged.sum_over_replicas(gradients)
        elif run.distributed:
            gradients = sum_over_ranks(variables, gradients)
        update(gradients)

    def whole(*batch):
        value, gradients = differentiate(*batch)
        update_together(gradients)
        return value

    if run.accumulation == 1:
        traced = trace(run, whole, specs)

        def step():
            return traced(*next_batch())
    else:
        sums = [tf.Variable(tf.zeros_like(each), trainable=False) for each in variables]

        def micro_step(*batch):
            value, gradients = differentiate(*batch)
            for total, gradient in zip(sums, gradients):
                total.assign_add(gradient)
            return value

        def update_once():
            # identities are on this replica's device, which an all-reduce asks for
            update_together([tf.identity(total) for total in sums])
            for total in sums:
                total.assign(tf.zeros_like(total))

        traced, last = trace(run, micro_step, specs), trace(run, update_once, [])

        def step():
            value = traced(*next_batch())
            for _ in range(run.accumulation - 1):
                value += traced(*next_batch())
            last()
            return value / run.accumulation

    work = Work(
        step=step,
        wait=lambda: wait(run),
        loss=float,
        parameters=sum(map(count, variables)),
        batches=batches,
        parity=dict(
            graph_facts(run, traced),
            loss_scaling="dynamic" if scale else "none",
            loss_scale=run.loss_scale if scale else None,
            **parity or {},
        ),
        weights=weights,
    )

    def forget():
        for each in optimizer.variables:
            # among them are those that it trains, and the rate may be one
            if not each.trainable and each is not optimizer.learning_rate:
                clear(each, by_rows=getattr(optimizer, "lazy", False))
        if scale:
            scale.restart()

    work = restartable(work, forget, workloads.running_at_start(run))
    if not schedule:
        return work
    test = trace_outputs(run, network, outputs, specs)
    return scheduled(
        work,
        schedule,
        set_rate=optimizer.learning_rate.assign,
        evaluate=lambda *batch: test(*put(*batch)).numpy(),
    )


def clear(variable, by_rows):
    """Write zeros into a variable.

    by_rows: part by part, as there may be no room for a second table. Only where steps write rows
    too, as TensorFlow copies such a variable wherever all of it is read.
    """
    if not by_rows or variable.shape.rank < 2:
        variable.assign(tf.zeros_like(variable))
        return
    for first in range(0, variable.shape[0], ROWS):
        ids = tf.range(first, min(first + ROWS, variable.shape[0]))
        zeros = tf.zeros([len(ids), *variable.shape[1:]], variable.dtype)
        variable.scatter_update(tf.IndexedSlices(zeros, ids))


def sum_over_ranks(variables, gradients):
    """Gradients as all ranks together have them; those of parts of tables are so already."""
    exchanged = [not hasattr(variable, "shard") for variable in variables]
    own = [gradient for gradient, each in zip(gradients, exchanged) if each]
    sums = iter(tf.distribute.get_replica_context().all_reduce("sum", own))
    return [next(sums) if each else gradient for gradient, each in zip(gradients, exchanged)]


def count(variable):
    """The numbers of a variable, without rows of a Shard that nobody has."""
    shard = getattr(variable, "shard", None)
    return shard.size if shard else variable.shape.num_elements()


def trace_outputs(run, network, outputs, specs):
    """Outputs of a batch as a graph of static shapes, outside of the strategy: of one rank."""
    xla = run.compiler == "xla"
    traced = function(lambda *batch: outputs(run, network, *batch), jit_compile=xla or None)
    return traced.get_concrete_function(*specs)


def trace(run, body, specs):
    """`body` on one rank, or on all, as a graph of static shapes."""
    if run.distributed:
        traced = function(lambda *batch: strategy().run(body, batch))
    else:
        traced = function(body, jit_compile=run.compiler == "xla" or None)
    return traced.get_concrete_function(*specs)


def put(*arrays):
    return [tf.constant(array) for array in arrays]


def compute_dtype(run):
    """What the forward pass computes in."""
    return tf.as_dtype(half(run)) if run.amp else dtype()


class LossScale(tf.Module):
    """Dynamic: halved where gradients overflow (that step is left out), doubled after 2000 good.

    Whether they do is known on the device alone: a branch would bring it to the host each step.
    """

    GROWTH_STEPS = 2000

    def __init__(self, first):
        super().__init__()
        self.first = first
        self.scale = tf.Variable(first, dtype=tf.float32, trainable=False)
        # not an int32, which TensorFlow keeps on the host
        self.good_steps = tf.Variable(0.0, trainable=False)

    def restart(self):
        self.scale.assign(self.first)
        self.good_steps.assign(0.0)

    def apply(self, optimizer, gradients):
        gradients = [divided(gradient, self.scale) for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        optimizer.apply(gradients, norm, finite)
        good = tf.where(finite, self.good_steps + 1, 0.0)
        grown = tf.where(good == self.GROWTH_STEPS, self.scale * 2, self.scale)
        self.scale.assign(tf.where(finite, grown, self.scale / 2))
        self.good_steps.assign(tf.where(good == self.GROWTH_STEPS, 0.0, good))


def choose(finite, value, otherwise):
    """`value` where gradients are finite, or may not be otherwise (`finite` is None)."""
    return value if finite is None else tf.where(finite, value, otherwise)


def divided(gradient, number):
    """A gradient over a number; slices stay slices, which would become as large as the variable."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient / number
    return tf.IndexedSlices(gradient.values / number, gradient.indices, gradient.dense_shape)


def wait(run):
    """Return when all that was queued on this rank's device is done."""
    # not tf.test.experimental.sync_devices, which asks the other workers' devices too and fails
    with tf.device("GPU:0" if run.cuda else "CPU:0"):
        tf.raw_ops.SyncDevice()


def function(body, **options):
    """tf.function of a `body` whose branches and loops are all Python's own, as Keras has it.

    AutoGraph would read and rewrite its source first, and that of all it calls: 0.9 s of BERT-Base.
    """
    return tf.function(body, autograph=False, **options)


def graph_facts(run, function):
    """What the traced graph of a step says of its precision and compiler.

    Raises Unsupported where the case asks for XLA and nothing in the graph must be compiled by it.
    (What must be compiled is, or the step fails.)
    """
    graph = function.graph.as_graph_def()
    nested = list(graph.library.function)
    compiled = [f for f in [function.function_def] + nested if f.attr["_XlaMustCompile"].b]
    if run.compiler == "xla" and not compiled:
        raise Unsupported("TensorFlow traced the step without a function for XLA")
    nodes = list(graph.node) + [node for f in nested for node in f.node_def]
    products = ("Conv2D", "MatMul", "BatchMatMulV2")
    dtypes = {tf.as_dtype(node.attr["T"].type).name for node in nodes if node.op in products}
    return {"compute_dtype": ", ".join(sorted(dtypes)), "xla_functions": len(compiled)}


class Weights:
    """Variables by canonical name; running: batch-norm's statistics, likewise.

    A rank reads and writes its part of what a tensor group divides.
    """

    def __init__(self, run, named, running=None):
        self.named, self.running = named, running or {}
        self._kinds, self._parts = workloads.kinds(run), parallel.parts(run)

    def kind(self, name):
        """The kind of a tensor; None where the facts do not have it."""
        return self._kinds.get(name)

    def statistics(self):
        return ((name, each.numpy()) for name, each in self.running.items())

    def read(self):
        for name, variable in self.named.items():
            shard = getattr(variable, "shard", None)
            held = shard.held if shard else variable.shape[0]
            part = shard.part if shard else self._parts.get(name, name)
            yield part, array(self.kind(name), variable, held)

    def write(self, arrays):
        self._assign(arrays, self.named)

    def write_statistics(self, arrays):
        self._assign(arrays, self.running)

    def _assign(self, arrays, variables):
        """Write canonical arrays into variables of the same names."""
        for name, variable in variables.items():
            dtype = variable.dtype.as_numpy_dtype
            shard, given = getattr(variable, "shard", None), arrays[name]
            if name in self._parts:
                given = self._parts[name].of(given)
                if self.kind(name) == DENSE:  # whose rows are columns here
                    given = as_array(given)
            for first, last, rows in parts(shard.own(given) if shard else given):
                rows = layouts.channels_last(self.kind(name), rows, dtype)
                if last is None:
                    variable.assign(rows)
                else:
                    variable.scatter_update(tf.IndexedSlices(rows, tf.range(first, last)))


def array(kind, variable, held):
    """A variable's first `held` rows as a canonical array, those of a large table as a Table."""
    shape = (held, *variable.shape[1:])
    if is_large(kind, shape):
        # by gather: a slice first copies all that rows were written to
        return table(shape, lambda *ends: tf.gather(variable, tf.range(*ends)).numpy())
    return layouts.canonical(kind, variable.numpy()[:held])


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)
    weights.write(start)
    names = {variable.ref(): name for name, variable in weights.named.items()}
    names = [names[variable.ref()] for variable in network.trainable_variables]
    for given in gradients:
        optimizer.apply(
            [gradient(weights.kind(name), given[name], weights.named[name]) for name in names]
        )
    return weights.read()


def gradient(kind, given, variable):
    """A canonical array, or Rows, as a gradient of this variable."""
    if isinstance(given, Rows):
        values = tf.constant(given.values, variable.dtype)
        return tf.IndexedSlices(values, tf.constant(given.ids), variable.shape)
    return tf.constant(layouts.channels_last(kind, given))
