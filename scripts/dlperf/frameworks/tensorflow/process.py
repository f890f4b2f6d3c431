"""A rank's process under TensorFlow 2: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer

# Gradients are summed in packs of this size, sent while the backward pass goes on. One pack of all,
# the default, took half as much CPU time again for a step of two ranks on one core each.
PACK_BYTES = 16 * 2**20

#: On a GPU, where the user has not set them.
GPU_VARIABLES = {
    "TF_GPU_THREAD_MODE": "gpu_private",
    "TF_GPU_THREAD_COUNT": "2",
    # cuDNN's faster batch-norm, whose sums may overflow for large values
    "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "1",
}

_state = {}


def environment(run):
    variables = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "1"}
    if run.cuda:
        variables.update(
            (name, os.environ.get(name, value)) for name, value in GPU_VARIABLES.items()
        )
    return variables


def services(run):
    return []


def start(run):
    import tensorflow as tf

    _state["dtype"] = tf.float64 if run.float64 else tf.float32
    if run.cuda:
        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:  # it would train on the CPU
            built = "for CUDA" if tf.test.is_built_with_cuda() else "without CUDA"
            raise Unsupported(
                "TensorFlow %s, built %s, finds no GPU that it can use: its log says which "
                "library or driver it lacks" % (tf.__version__, built)
            )
        tf.config.experimental.enable_tensor_float_32_execution(run.tf32)
        for gpu in gpus:
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

    from dlperf.frameworks.tensorflow import FRAMEWORK

    facts = {
        "framework_version": tf.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
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
            **{name.lower(): os.environ.get(name) for name in GPU_VARIABLES},
        )
    else:
        facts.update(
            threads=tf.config.threading.get_intra_op_parallelism_threads(),
            threads_inter_op=tf.config.threading.get_inter_op_parallelism_threads(),
            onednn=_pywrap_util_port.IsMklEnabled(),
        )
    return facts


def stop(run):
    pass
