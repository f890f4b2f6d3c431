"""TensorFlow 2: tf.function, XLA by jit_compile, MultiWorkerMirroredStrategy over gRPC or NCCL.

Fastest settings its best users choose. CPU: oneDNN kernels (asked for: TensorFlow's own choice
depends on the CPU; they more than halve a step), operators one after another, each on all cores of
the rank. GPU: threads of its own that launch kernels, memory that grows (so that its peak can be
read), TF32 left at TensorFlow's default (on) and reported, cuDNN's autotune (the default). The GPU
path has not run: there was no GPU where this was written.
"""

from dlperf.contract import layouts
from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer

TITLE = "TensorFlow"
COMPILERS = {"none": "tf.function", "xla": "XLA, jit_compile=True"}
DEFAULT_COMPILER = {"cpu": "none", "cuda": "none"}
FLOAT64_COMPILERS = ("none", "xla")
FLOAT64_EXCHANGE = True

# Gradients are summed in packs of this size, sent while the backward pass goes on. One pack of all,
# the default, took half as much CPU time again for a step of two ranks on one core each.
PACK_BYTES = 16 * 2**20

_state = {}


def unsupported(case):
    return ""


def environment(run):
    variables = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "1"}
    if run.cuda:
        variables["TF_GPU_THREAD_MODE"] = "gpu_private"
        variables["TF_GPU_THREAD_COUNT"] = "2"
    return variables


def services(run):
    return []


def start(run):
    import tensorflow as tf

    _state["dtype"] = tf.float64 if run.float64 else tf.float32
    if run.cuda:
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    else:
        tf.config.threading.set_intra_op_parallelism_threads(run.cores_per_device)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    if run.distributed:
        collective = tf.distribute.experimental.CommunicationImplementation
        _state["strategy"] = tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": run.peers}),
                task_type="worker",
                task_id=run.rank,
                rpc_layer="grpc",
            ),
            tf.distribute.experimental.CommunicationOptions(
                implementation=collective.NCCL if run.cuda else collective.RING,
                bytes_per_pack=PACK_BYTES,
            ),
        )
    # tf.random.set_seed does not make ranks draw the same once a strategy has joined workers
    tf.random.set_global_generator(tf.random.Generator.from_seed(run.seed))


def dtype():
    """What variables, and what computes with them outside AMP, are in: float32, or float64."""
    return _state["dtype"]


def strategy():
    """The strategy that joins the ranks, where there is more than one."""
    return _state["strategy"]


def wait(run):
    """Return when all that was queued on this rank's device is done."""
    import tensorflow as tf

    # not tf.test.experimental.sync_devices, which asks the other workers' devices too and fails
    with tf.device("GPU:0" if run.cuda else "CPU:0"):
        tf.raw_ops.SyncDevice()


def function(body, **options):
    """tf.function of a `body` whose branches and loops are all Python's own, as Keras has it.

    AutoGraph would read and rewrite its source first, and that of all it calls: 0.9 s of BERT-Base.
    """
    import tensorflow as tf

    return tf.function(body, autograph=False, **options)


def graph_facts(run, function):
    """What the traced graph of a step says of its precision and compiler.

    Raises Unsupported where the case asks for XLA and nothing in the graph must be compiled by it.
    (What must be compiled is, or the step fails.)
    """
    import tensorflow as tf

    graph = function.graph.as_graph_def()
    nested = list(graph.library.function)
    compiled = [f for f in [function.function_def] + nested if f.attr["_XlaMustCompile"].b]
    if run.compiler == "xla" and not compiled:
        raise Unsupported("TensorFlow traced the step without a function for XLA")
    nodes = list(graph.node) + [node for f in nested for node in f.node_def]
    products = ("Conv2D", "MatMul", "BatchMatMulV2")
    dtypes = {tf.as_dtype(node.attr["T"].type).name for node in nodes if node.op in products}
    return {"compute_dtype": ", ".join(sorted(dtypes)), "xla_functions": len(compiled)}


def step_timer(run):
    return HostTimer()  # TensorFlow shows its users no events of the device


def memory(run):
    import tensorflow as tf

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    return {
        "device_peak_bytes": tf.config.experimental.get_memory_info("GPU:0")["peak"],
        "device_total_peak_bytes": None,  # TensorFlow cannot say what context and libraries took
    }


def parity(run):
    import tensorflow as tf
    from tensorflow.python.util import _pywrap_util_port

    facts = {
        "framework_version": tf.__version__,
        "compiler_detail": COMPILERS[run.compiler],
        "collective": None,
        "autotune": None,
    }
    if run.distributed:
        means = "NCCL" if run.cuda else "ring over gRPC"
        facts["collective"] = "%s, %s" % (type(strategy()).__name__, means)
    if run.cuda:
        build = tf.sysconfig.get_build_info()
        facts.update(
            autotune=True,  # TF_CUDNN_USE_AUTOTUNE, TensorFlow's default
            tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
            cuda_version=build.get("cuda_version"),
            cudnn_version=build.get("cudnn_version"),
        )
    else:
        facts.update(
            threads=tf.config.threading.get_intra_op_parallelism_threads(),
            threads_inter_op=tf.config.threading.get_inter_op_parallelism_threads(),
            onednn=_pywrap_util_port.IsMklEnabled(),
        )
    return facts


class Weights:
    """Variables by canonical name."""

    def __init__(self, named):
        self.named = named

    def read(self):
        return ((name, layouts.canonical(name, v.numpy())) for name, v in self.named.items())

    def write(self, arrays):
        for name, variable in self.named.items():
            dtype = variable.dtype.as_numpy_dtype
            variable.assign(layouts.channels_last(name, arrays[name], dtype))


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    import tensorflow as tf

    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(network)
    weights.write(start)
    names = {variable.ref(): name for name, variable in weights.named.items()}
    names = [names[variable.ref()] for variable in network.trainable_variables]
    for given in gradients:
        optimizer.apply([tf.constant(layouts.channels_last(name, given[name])) for name in names])
    return weights.read()


def stop(run):
    pass
