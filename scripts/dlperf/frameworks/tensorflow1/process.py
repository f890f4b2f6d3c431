"""A rank's process under TensorFlow 1: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.timer import HostTimer
from dlperf.frameworks import gpus, horovod


def environment(run):
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if run.cuda:
        variables.update(
            TF_CUDNN_USE_AUTOTUNE="1",
            TF_ENABLE_WINOGRAD_NONFUSED="1",
            TF_AUTOTUNE_THRESHOLD="2",
            # A call returns when its work is queued, not when it is done: `wait` in training.py
            # waits. A user's own setting stays.
            TF_SYNC_ON_FINISH=os.environ.get("TF_SYNC_ON_FINISH", "0"),
        )
    if run.distributed:
        variables.update(horovod.variables(run))
    return variables


def services(run):
    return []


def start(run):
    import tensorflow as tf

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    if run.cuda:
        seen = tf.config.experimental.list_physical_devices("GPU")
        gpus.require("TensorFlow 1", tf.test.is_built_with_cuda(), seen)
    if run.distributed:
        import horovod.tensorflow as hvd

        horovod.join(run, hvd)


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


def step_timer(run):
    return HostTimer()  # on a GPU a call returns before its step is done (TF_SYNC_ON_FINISH)


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

    from dlperf.frameworks.tensorflow1 import FRAMEWORK

    facts = {
        "framework_version": tf.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
        "autotune": os.environ.get("TF_CUDNN_USE_AUTOTUNE") if run.cuda else None,
        "sync_on_finish": os.environ.get("TF_SYNC_ON_FINISH") if run.cuda else None,
        "collective": None,
        "mkl": tf.pywrap_tensorflow.IsMklEnabled(),
    }
    if run.distributed:
        import horovod.tensorflow as hvd

        facts["collective"] = horovod.described(run, hvd)
    return facts


def stop(run):
    if run.distributed:
        import horovod.tensorflow as hvd

        hvd.shutdown()
