"""Training in TensorFlow 1.15: what all workloads do alike.

One session graph of static shapes a rank, run by `make_callable`; Horovod averages gradients over
ranks. Where micro-steps share an update, one callable adds gradients up and one updates.
"""

import contextlib
import itertools

import numpy as np
import tensorflow as tf

from dlperf import workloads
from dlperf.contract import layouts
from dlperf.contract.run import Unsupported
from dlperf.contract.tensor import is_large
from dlperf.contract.work import Rows, Table, Work, feed, restartable, scheduled, table
from dlperf.frameworks.tensorflow1 import sparse
from dlperf.frameworks.tensorflow1.process import session_config
from dlperf.workloads.inputs import open_batches

# where the time goes: their type is the one that is computed in
PRODUCTS = ("Conv2D", "_FusedConv2D", "MatMul", "_FusedMatMul", "BatchMatMulV2")


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    fields,
    layout="",
    parity=None,
    schedule=None,
    outputs=None,
):
    """The Work of training a network, which is built into a graph of its own.

    network: a function of a batch's tensors that builds what `loss` takes. loss(run, network,
    *batch): the mean loss of a batch. optimizer(run, network), weights(run, network): called in the
    graph. fields: (name, shape, type) of a batch's arrays. layout: of a loader's images.
    schedule: a rate for each step, of the quality scenario: then the optimizer gets a variable
    for it, as its `rate`; outputs: as of inference.infer.
    """
    with graph(run):
        batches = open_batches(run, layout)
        tf.set_random_seed(run.dropout_seed)
        pool = Pool(run, fields, batches) if batches.pooled else None
        if pool or batches.on_device:
            tensors = (pool or batches).tensors
        else:
            tensors = inputs(fields)
        value = loss(run, network, *tensors)
        given = {}
        if schedule:  # on the device: a step that is queued reads it before the next one is set
            given["rate"] = tf.Variable(tf.zeros([], dtype(run)), trainable=False)
        taken, update = updates(run, optimizer(run, network, **given), value)
        if schedule:
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                tested, answers = forward_pass(run, network, outputs, fields)
        session = tf.Session(config=session_config(run))
        initialize(session)
        named = weights(run, network)
        named.connect(session)
        # A GPU has one stream of kernels: what comes from a read of a weight is behind all updates.
        behind = tf.reduce_sum(min(tf.trainable_variables(), key=lambda v: v.shape.num_elements()))
        work = Work(
            step=stepper(run, session, batches, tensors, [value, taken], update),
            # On a CPU a call returns when its step is done; on a GPU (TF_SYNC_ON_FINISH=0) when the
            # loss is there and the rest of the step is queued.
            wait=session.make_callable(behind),
            loss=lambda fetched: float(fetched[0]),
            parameters=sum(map(sparse.count, tf.trainable_variables())),
            batches=batches,
            parity=dict(
                graph_facts(run, session, value, tensors),
                # `tf.cond` has its predicate, whether all gradients are finite, on the host
                loss_scaling="dynamic, synchronises each step" if run.amp else "none",
                **parity or {},
            ),
            weights=named,
        )
        if pool:
            pool.connect(session)
        others = {*tf.trainable_variables(), *(pool.variables if pool else ())}
        own_state = set(tf.global_variables()) - others
        forget = initializer(session, sorted(own_state, key=lambda v: v.name))
        work = restartable(work, forget, workloads.running_at_start(run))
        if not schedule:
            return work
        coming = tf.placeholder(dtype(run), [])
        set_rate = session.make_callable(given["rate"].assign(coming).op, feed_list=[coming])
        test = session.make_callable(answers, feed_list=tested)
    return scheduled(work, schedule, set_rate, test)


def forward_pass(run, network, outputs, fields):
    """(placeholders of a batch, its outputs in evaluation mode), in the default graph."""
    fed = [tf.placeholder(kind, shape, name) for name, shape, kind in fields]
    return fed, tf.cast(outputs(run, network, *fed), dtype(run))


def stepper(run, session, batches, tensors, fetched, update):
    """The step: one call, or one a micro-step and one for the update."""
    if batches.pooled:  # the graph itself takes the next one
        call = session.make_callable(fetched)
    elif batches.on_device:
        batches.connect(session)
        if run.cuda:
            batches.next()  # for graph_facts, which runs the forward pass
        into_graph = session.make_callable(fetched)

        def call():
            batches.next()  # into the graph, which takes it from there
            return into_graph()

    else:
        fed = session.make_callable(fetched, feed_list=list(tensors))
        next_batch = feed(batches, lambda *batch: batch)

        def call():
            return fed(*next_batch())

    if run.accumulation == 1:
        return call
    last = session.make_callable(update)

    def step():
        values = [call()[0] for _ in range(run.accumulation)]
        last()
        return [sum(values) / run.accumulation]

    return step


def updates(run, optimizer, value):
    """(what a micro-step runs, what the update runs behind the last one): with one, all and None.

    Gradients are averaged over ranks, then the optimizer has them; batch-norm's statistics go with
    a micro-step.
    """
    if run.amp:
        scale = LossScale(run.loss_scale)
        optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, scale)
    if run.distributed:
        import horovod.tensorflow as hvd
    shared = any(hasattr(each, "shard") for each in tf.trainable_variables())
    if run.distributed and run.accumulation == 1 and not shared:
        optimizer = hvd.DistributedOptimizer(optimizer)
    kernels = {} if run.cuda else {"Conv2DBackpropInput": "eigen_tensor"}
    with tf.get_default_graph()._kernel_label_map(kernels):
        gradients = optimizer.compute_gradients(value)
    if shared:
        gradients = sparse.mean_over_ranks(run, gradients)
    statistics = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    if run.accumulation == 1:
        with tf.control_dependencies(statistics):
            return optimizer.apply_gradients(gradients), None
    sums, variables = [], [variable for _, variable in gradients]
    for variable in variables:
        zero = tf.zeros(variable.shape, variable.dtype.base_dtype)
        sums.append(tf.Variable(zero, trainable=False))
    with tf.control_dependencies(statistics):
        added = [tf.assign_add(total, each) for total, (each, _) in zip(sums, gradients)]
    means = [total / run.accumulation for total in sums]
    if run.distributed:
        means = [hvd.allreduce(each) for each in means]
    applied = optimizer.apply_gradients(list(zip(means, variables)))
    with tf.control_dependencies([applied]):
        cleared = [tf.assign(total, tf.zeros_like(total)) for total in sums]
    return tf.group(*added), tf.group(*cleared)


class LossScale(tf.train.experimental.DynamicLossScale):
    """Asks of slices' own values whether they are finite, not of a gradient made dense."""

    def update(self, gradients):
        slices = tf.IndexedSlices
        return super().update([g.values if isinstance(g, slices) else g for g in gradients])


def inputs(fields):
    """Placeholders to feed."""
    return [tf.placeholder(dtype, shape, name) for name, shape, dtype in fields]


class Pool:
    """A pool of synthetic batches in the graph: variables, of which each step takes a slice.

    tensors: the next batch of a step. To feed a call takes longer than one that is fed nothing, so
    the graph counts steps; a slice along the first axis is no copy.
    """

    def __init__(self, run, fields, batches):
        self._batches, self._fields = batches, fields
        self._kept = [
            tf.Variable(tf.zeros([batches.distinct, *shape], dtype), trainable=False)
            for _, shape, dtype in fields
        ]
        # XLA would compile a program for each place
        apart = tf.xla.experimental.jit_scope(compile_ops=False) if run.compiler == "xla" else None
        with apart or contextlib.nullcontext():
            with tf.device("/cpu:0"):
                self._order = tf.Variable(
                    tf.zeros([len(batches.order)], tf.int32), trainable=False, use_resource=True
                )
                self._taken = tf.Variable(-1, trainable=False, use_resource=True)
                place = self._order[tf.assign_add(self._taken, 1) % len(batches.order)]
            self.tensors = [each[place] for each in self._kept]
        self.variables = [*self._kept, self._order, self._taken]

    def connect(self, session):
        """Fill the variables, now and whenever batches are drawn."""
        place, order = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, self._order.shape)
        coming = inputs(self._fields)
        writes = [tf.scatter_update(kept, place, each).op for kept, each in zip(self._kept, coming)]
        put = session.make_callable(tf.group(*writes), feed_list=[place, *coming])
        begin = session.make_callable(
            tf.group(self._order.assign(order), self._taken.assign(-1)), feed_list=[order]
        )

        def refill():
            for number, batch in enumerate(self._batches.contents()):
                put(number, *batch)
            begin(self._batches.order)

        self._batches.refill = refill
        refill()


@contextlib.contextmanager
def graph(run):
    """A new graph as the default one; `get_variable` makes float32 there, or float64."""
    with tf.Graph().as_default():
        tf.set_random_seed(run.seed)
        with tf.variable_scope(tf.get_variable_scope(), dtype=dtype(run)):
            yield


def dtype(run):
    return tf.float64 if run.float64 else tf.float32


def initialize(session, fed=()):
    """Run the initializers of all variables but the trained weights, which the stopwatch writes.

    `fed`: as a feed_dict. The number that an array is filled with is fed too: else the graph's
    optimizers compute the array first, and the session once more, which took half of the time of
    BERT's set-up.
    """
    trained = set(tf.trainable_variables())
    initializers = [v.initializer for v in tf.global_variables() if v not in trained]
    filled = [each.inputs[1].op for each in initializers if each.inputs[1].op.type == "Fill"]
    numbers = {op.inputs[1]: number_of(op) for op in filled}
    session.run(initializers, feed_dict=dict(numbers, **dict(fed)))


def number_of(fill):
    """What this operator fills an array with."""
    return tf.make_ndarray(fill.inputs[1].op.get_attr("value"))


def initializer(session, variables):
    """What initializes these variables of the default graph again, one behind the other.

    All at once, there would have to be room for all of them twice.
    """
    last, numbers = tf.no_op(), {}
    for variable in variables:
        value = variable.initializer.inputs[1]
        with tf.control_dependencies([last]):
            if value.op.type == "Fill":
                number = tf.placeholder(value.dtype, [])  # fed as in `initialize`
                numbers[number] = number_of(value.op)
                value = tf.fill(value.shape, number)
            last = variable.assign(value, read_value=False)
    return lambda: session.run(last, feed_dict=numbers)


def graph_facts(run, session, value, inputs):
    """What the graph says of the step's precision and, where XLA is asked for, of its clusters.

    On a GPU graph rewrites decide on both: there the forward pass runs once, to see what became.
    Raises Unsupported where XLA is asked for and took nothing.
    """
    if run.cuda:
        session.run([v.initializer for v in tf.trainable_variables()])
        fed = [each for each in inputs if each.op.type == "Placeholder"]
        some = {each: np.zeros(each.shape.as_list(), each.dtype.as_numpy_dtype) for each in fed}
        options, ran = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
        session.run(value, feed_dict=some, options=options, run_metadata=ran)
        graphs = ran.partition_graphs
    else:
        graphs = [session.graph.as_graph_def()]
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for graph in graphs for f in graph.library.function for node in f.node_def]
    clusters = sum(node.op in ("XlaLaunch", "_XlaRun") for node in nodes)
    if run.compiler == "xla" and not clusters:
        raise Unsupported("XLA took no part of the graph")
    products = [node for node in nodes if node.op in PRODUCTS]
    dtypes = {tf.as_dtype(node.attr["T"].type).name for node in products}
    return {"compute_dtype": ", ".join(sorted(dtypes)), "xla_clusters": clusters}


class Weights:
    """A graph's variables by canonical name, as they are in the session that `connect` names.

    running: batch-norm's statistics, likewise.
    """

    def __init__(self, run, named, running=None):
        self.named, self.running, self.session = named, running or {}, None
        self._kinds = workloads.kinds(run)

    def kind(self, name):
        """The kind of a tensor; None where the facts do not have it."""
        return self._kinds.get(name)

    def connect(self, session):
        self.session = session

    def read(self):
        tables = {
            name: v for name, v in self.named.items() if is_large(self.kind(name), self._shape(v))
        }
        arrays = {name: v for name, v in self.named.items() if name not in tables}
        arrays = self.session.run(arrays)  # at once: a call prepares the graph anew
        return (
            (
                v.shard.part if hasattr(v, "shard") else name,
                self._table(v) if name in tables else self._canonical(name, arrays.pop(name)),
            )
            for name, v in self.named.items()
        )

    def _table(self, variable):
        with self.session.graph.as_default():
            ids = tf.placeholder(tf.int32)
            rows = tf.gather(variable, ids)  # a slice would first copy all
        return table(
            self._shape(variable),
            lambda *ends: self.session.run(rows, {ids: np.arange(*ends)}),
        )

    def _canonical(self, name, array):
        held = self._shape(self.named[name])[0]
        return layouts.canonical(self.kind(name), array[:held])

    @staticmethod
    def _shape(variable):
        """That of a variable, without rows of a Shard that nobody has."""
        shape = variable.shape.as_list()
        return [variable.shard.held, *shape[1:]] if hasattr(variable, "shard") else shape

    def statistics(self):
        return self.session.run(self.running).items()

    def write(self, arrays):
        self._assign(arrays, self.named)

    def write_statistics(self, arrays):
        self._assign(arrays, self.running)

    def _assign(self, arrays, variables):
        initializers, values = [], {}
        for name, variable in variables.items():
            array = arrays[name]
            if hasattr(variable, "shard"):
                array = variable.shard.own(array)
            if isinstance(array, Table):
                self._assign_rows(variable, array)
                continue
            initializers.append(variable.initializer)
            value = variable.initializer.inputs[1]
            dtype = value.dtype.as_numpy_dtype
            values[value] = layouts.channels_last(self.kind(name), array, dtype)
        self.session.run(initializers, feed_dict=values)

    def _assign_rows(self, variable, array):
        with self.session.graph.as_default():
            dtype = variable.dtype.base_dtype
            ids, rows = tf.placeholder(tf.int32), tf.placeholder(dtype)
            shape = tf.placeholder(tf.int32)  # of a known one, the graph would keep the zeros
            begin = tf.assign(variable, tf.zeros(shape, dtype)).op
            write = tf.scatter_update(variable, ids, rows).op
        self.session.run(begin, {shape: array.shape})
        for first, last, part in array.parts():
            self.session.run(write, {ids: np.arange(first, last), rows: part})


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's update by these gradients, one set a step."""
    with graph(run), tf.Session(config=session_config(run)) as session:
        network = implementation.model(run)
        implementation.loss(run, network, *inputs(implementation.fields(run)))
        tf.get_default_graph().clear_collection(tf.GraphKeys.UPDATE_OPS)  # there is no batch
        weights = implementation.weights(run, network)
        weights.connect(session)
        gradients = iter(gradients)
        first_given = next(gradients)
        fed, products = {}, []
        for name, v in weights.named.items():
            if isinstance(first_given[name], Rows):
                fed[name] = Rows(
                    tf.placeholder(tf.int64, [None]), tf.placeholder(dtype(run), [None, v.shape[1]])
                )
                products.append(fed[name].values * tf.gather(v, fed[name].ids))
            else:
                fed[name] = tf.placeholder(dtype(run), v.shape)
                products.append(fed[name] * v)
        # a sum of weights times numbers: its gradients are the numbers
        value = tf.add_n(list(map(tf.reduce_sum, products)))
        update, _ = updates(run, implementation.optimizer(run, network), value)
        initialize(session)
        weights.write(start)
        for given in itertools.chain([first_given], gradients):
            values = {}
            for name, there in fed.items():
                if isinstance(there, Rows):
                    values.update(zip(there, given[name]))
                else:
                    values[there] = layouts.channels_last(weights.kind(name), given[name])
            session.run(update, feed_dict=values)
        return weights.read()
