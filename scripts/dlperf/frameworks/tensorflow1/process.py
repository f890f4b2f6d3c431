"""TensorFlow 1.15: one session graph a rank; Horovod over gloo (CPU) or NCCL (GPU).

Fastest settings its best users choose: a static graph run by `make_callable`, one thread pool of
the size of the rank's cores, Winograd and cuDNN autotune as NVIDIA's containers set them on a GPU.
The GPU path has not run: there was no GPU where this was written.
"""

import contextlib
import os
import threading

from dlperf.contract import layouts
from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer

TITLE = "TensorFlow 1"
COMPILERS = {"none": "session graph", "xla": "XLA (auto-clustering, ON_1)"}
DEFAULT_COMPILER = {"cpu": "none", "cuda": "none"}
FLOAT64_COMPILERS = ("none",)
FLOAT64_EXCHANGE = True

# where the time goes: their type is the one that is computed in
PRODUCTS = ("Conv2D", "_FusedConv2D", "MatMul", "_FusedMatMul", "BatchMatMulV2")


def unsupported(case):
    if case["device"] == "cpu" and case["compiler"] == "xla":
        return "TensorFlow 1.15 compiles nothing by XLA on a CPU: ON_1 has no effect"
    if case["device"] == "cpu" and case["precision"] == "amp":
        return "TensorFlow 1.15's mixed-precision graph rewrite has no effect on a CPU"
    return ""


def environment(run):
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if run.cuda:
        variables.update(
            TF_CUDNN_USE_AUTOTUNE="1",
            TF_ENABLE_WINOGRAD_NONFUSED="1",
            TF_AUTOTUNE_THRESHOLD="2",
        )
    if run.distributed:  # what horovodrun would set; gloo meets at a server that rank 0 runs
        variables.update(
            HOROVOD_RANK=str(run.rank),
            HOROVOD_SIZE=str(run.ranks),
            HOROVOD_LOCAL_RANK=str(run.local_rank),
            HOROVOD_LOCAL_SIZE=str(run.local_ranks),
            HOROVOD_CROSS_RANK=str(run.node),
            HOROVOD_CROSS_SIZE=str(run.ranks // run.local_ranks),
            HOROVOD_HOSTNAME="node%d" % run.node,  # for horovod's own list of hosts
            HOROVOD_CONTROLLER="gloo",
            HOROVOD_CPU_OPERATIONS="gloo",
            HOROVOD_GLOO_IFACE=run.interface,
            HOROVOD_GLOO_RENDEZVOUS_ADDR=run.address,
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(run.port),
        )
    return variables


def services(run):
    return []


def start(run):
    import tensorflow as tf

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    if run.distributed:
        import horovod.tensorflow as hvd

        if run.rank == 0:
            serve_rendezvous(run)
        run.wait_for_port()
        hvd.init()


def serve_rendezvous(run):
    """The store where gloo's ranks find each other, as horovodrun serves it."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    nodes = ["node%d:%d" % (each, run.local_ranks) for each in range(run.ranks // run.local_ranks)]
    server = RendezvousHTTPServer((run.address, run.port), RendezvousHandler, False)
    server.init(get_host_assignments(parse_hosts(",".join(nodes)), run.ranks))
    threading.Thread(target=server.serve_forever, daemon=True).start()


@contextlib.contextmanager
def graph(run):
    """A new graph as the default one; `get_variable` makes float32 there, or float64."""
    import tensorflow as tf

    with tf.Graph().as_default():
        tf.set_random_seed(run.seed)
        with tf.variable_scope(tf.get_variable_scope(), dtype=dtype(run)):
            yield


def dtype(run):
    import tensorflow as tf

    return tf.float64 if run.float64 else tf.float32


def session_config(run):
    import tensorflow as tf

    config = tf.ConfigProto()
    if run.cuda:
        config.gpu_options.allow_growth = True
    else:
        config.intra_op_parallelism_threads = run.cores_per_device
        config.inter_op_parallelism_threads = 1
    if run.compiler == "xla":
        level = tf.OptimizerOptions.ON_1
        config.graph_options.optimizer_options.global_jit_level = level
    return config


def initialize(session, fed=()):
    """Run the initializers of all variables but the trained weights, which the stopwatch writes.

    `fed`: as a feed_dict. The number that an array is filled with is fed too: else the graph's
    optimizers compute the array first, and the session once more, which took half of the time of
    BERT's set-up.
    """
    import tensorflow as tf

    trained = set(tf.trainable_variables())
    initializers = [v.initializer for v in tf.global_variables() if v not in trained]
    filled = [each.inputs[1].op for each in initializers if each.inputs[1].op.type == "Fill"]
    numbers = {op.inputs[1]: tf.make_ndarray(op.inputs[1].op.get_attr("value")) for op in filled}
    session.run(initializers, feed_dict=dict(numbers, **dict(fed)))


def graph_facts(run, session, value, inputs):
    """What the graph says of the step's precision and, where XLA is asked for, of its clusters.

    On a GPU graph rewrites decide on both: there the forward pass runs once, to see what became.
    Raises Unsupported where XLA is asked for and took nothing.
    """
    import numpy as np
    import tensorflow as tf

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


def step_timer(run):
    return HostTimer()  # session.run returns when the step is done


def memory(run):
    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    import tensorflow as tf
    from tensorflow.contrib.memory_stats import MaxBytesInUse

    with tf.Session(config=session_config(run)) as session, tf.device("/gpu:0"):
        peak = int(session.run(MaxBytesInUse()))
    return {"device_peak_bytes": peak, "device_total_peak_bytes": None}


def parity(run):
    import tensorflow as tf

    facts = {
        "framework_version": tf.__version__,
        "compiler_detail": COMPILERS[run.compiler],
        "autotune": os.environ.get("TF_CUDNN_USE_AUTOTUNE") if run.cuda else None,
        "collective": None,
        "mkl": tf.pywrap_tensorflow.IsMklEnabled(),
    }
    if run.distributed:
        import horovod
        import horovod.tensorflow as hvd

        how = "NCCL" if run.cuda and hvd.nccl_built() else "gloo"
        facts["collective"] = "Horovod %s, %s" % (horovod.__version__, how)
    return facts


class Weights:
    """A graph's variables by canonical name, as they are in a session."""

    def __init__(self, named, session):
        self.named, self.session = named, session

    def read(self):
        arrays = self.session.run(self.named)  # at once: a call prepares the graph anew
        return ((name, layouts.canonical(name, arrays.pop(name))) for name in self.named)

    def write(self, arrays):
        initializers, values = [], {}
        for name, variable in self.named.items():
            initializers.append(variable.initializer)
            value = variable.initializer.inputs[1]
            values[value] = layouts.channels_last(name, arrays[name], value.dtype.as_numpy_dtype)
        self.session.run(initializers, feed_dict=values)


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's update by these gradients, one set a step."""
    import tensorflow as tf

    with graph(run), tf.Session(config=session_config(run)) as session:
        examples, _ = implementation.inputs(run, constant=False)
        implementation.model(run, examples)
        tf.get_default_graph().clear_collection(tf.GraphKeys.UPDATE_OPS)  # there is no batch
        weights = implementation.weights(session)
        fed = {name: tf.placeholder(dtype(run), v.shape) for name, v in weights.named.items()}
        # a sum of weights times numbers: its gradients are the numbers
        value = tf.add_n([tf.reduce_sum(fed[name] * v) for name, v in weights.named.items()])
        update = implementation.update(run, implementation.optimizer(run), value)
        initialize(session)
        weights.write(start)
        for given in gradients:
            values = {fed[name]: layouts.channels_last(name, given[name]) for name in fed}
            session.run(update, feed_dict=values)
        return weights.read()


def stop(run):
    if run.distributed:
        import horovod.tensorflow as hvd

        hvd.shutdown()
