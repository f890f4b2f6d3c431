"""A rank's process under MXNet: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.timer import HostTimer


def environment(run):
    variables = {"MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
    if run.cuda:
        variables["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "2"
        if not run.tf32:
            variables["NVIDIA_TF32_OVERRIDE"] = "0"  # else NVIDIA's libraries choose
        variables["MXNET_OPTIMIZER_AGGREGATION_SIZE"] = "45"  # weights that one kernel updates
    else:
        variables["MXNET_CPU_WORKER_NTHREADS"] = "1"  # operators one after another, as on a core
    if run.distributed:  # what MXNet's own launcher would set
        variables.update(
            DMLC_ROLE="worker",
            DMLC_PS_ROOT_URI=run.address,
            DMLC_PS_ROOT_PORT=str(run.port),
            DMLC_NODE_HOST=run.own_address,
            DMLC_NUM_WORKER=str(run.ranks),
            DMLC_NUM_SERVER=str(run.ranks),
        )
    return variables


def services(run):
    """The KVStore's servers, one a rank, and on the first node its scheduler.

    Importing MXNet in such a role runs it.
    """
    if not run.distributed:
        return []
    argv = [run.interpreter, "-I", "-c", "import mxnet"]  # -I: of no folder but its own
    variables = {"DMLC_ROLE": "server"}
    if run.float64:
        # A server never sets its `multi_precision_`: as memory falls, it is true, and float64 is
        # summed in float32. Memory that malloc fills with the complement of 255 makes it false.
        variables["GLIBC_TUNABLES"] = "glibc.malloc.perturb=255:glibc.malloc.tcache_count=0"
    servers = [("server %d" % index, argv, variables) for index in range(run.local_ranks)]
    scheduler = [("scheduler", argv, {"DMLC_ROLE": "scheduler"})] if run.rank == 0 else []
    return scheduler + servers


def start(run):
    import mxnet as mx

    mx.random.seed(run.seed)
    if run.amp:
        from mxnet.contrib import amp

        amp.init(target_dtype=half(run))


def half(run):
    return "float16" if run.cuda else "bfloat16"


def step_timer(run):
    return HostTimer()


def memory(run):
    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    import mxnet as mx

    free, total = mx.context.gpu_memory_info(0)
    return {"device_peak_bytes": None, "device_total_peak_bytes": total - free}


def parity(run):
    import mxnet as mx

    from dlperf.frameworks.mxnet import COMPILERS

    features = mx.runtime.Features()
    kind = "dist_device_sync" if run.cuda else "dist_sync"
    return {
        "framework_version": mx.__version__,
        "compiler_detail": COMPILERS[run.compiler],
        "autotune": "full" if run.cuda else None,
        "collective": "KVStore %s, %d servers" % (kind, run.ranks) if run.distributed else None,
        "onednn": features.is_enabled("MKLDNN"),
        "compute_dtype": half(run) if run.amp else "float32",
        "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE") != "0" if run.cuda else None,
        "loss_scaling": "dynamic" if run.amp and run.cuda else "none",
    }


def stop(run):
    pass  # the stopwatch ends scheduler and servers
