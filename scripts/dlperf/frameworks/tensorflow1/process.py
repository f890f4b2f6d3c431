"""A rank's process under TensorFlow 1: how it starts, what it says of itself, how it ends."""

import os
import threading

from dlperf.contract.timer import HostTimer


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

    from dlperf.frameworks.tensorflow1 import COMPILERS

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


def stop(run):
    if run.distributed:
        import horovod.tensorflow as hvd

        hvd.shutdown()
