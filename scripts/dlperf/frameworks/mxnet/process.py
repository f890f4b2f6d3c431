"""A rank's process under MXNet: how it starts, what it says of itself, how it ends."""

import ctypes
import os

from dlperf import frameworks
from dlperf.contract.timer import HostTimer
from dlperf.frameworks import gpus, horovod


def environment(run):
    variables = {"MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
    if run.cuda:
        variables["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "2"
        if not run.tf32:
            variables["NVIDIA_TF32_OVERRIDE"] = "0"  # else NVIDIA's libraries choose
        variables["MXNET_OPTIMIZER_AGGREGATION_SIZE"] = "45"  # weights that one kernel updates
    else:
        variables["MXNET_CPU_WORKER_NTHREADS"] = "1"  # operators one after another, as on a core
    if by_horovod(run):
        variables.update(horovod.variables(run))
    elif run.distributed:  # what MXNet's own launcher would set
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
    if not run.distributed or by_horovod(run):
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


def by_horovod(run):
    """Whether ranks exchange gradients through Horovod: on GPUs, where the environment has it.

    Else they go through parameter servers: MXNet's NCCL store joins the GPUs of one process only.
    """
    return run.cuda and run.distributed and horovod.has(run.interpreter, "mxnet")


def start(run):
    import mxnet as mx

    if run.cuda:
        built = mx.runtime.Features().is_enabled("CUDA")
        gpus.require("MXNet", built, mx.context.num_gpus())
    mx.random.seed(run.dropout_seed)
    if run.amp:
        from mxnet.contrib import amp

        amp.init(target_dtype=frameworks.half(run))
    if by_horovod(run):
        horovod.join(run, import_horovod())


def import_horovod():
    """Horovod for MXNet, with the symbols of what it loads kept to itself.

    By default they are everybody's, and Pillow decodes with the libjpeg that is part of MXNet: it
    is another version, and every image is "broken".
    """
    everybodys, ctypes.RTLD_GLOBAL = ctypes.RTLD_GLOBAL, ctypes.RTLD_LOCAL
    try:
        import horovod.mxnet as hvd
    finally:
        ctypes.RTLD_GLOBAL = everybodys
    return hvd


def scaled(run):
    """Whether the loss is scaled: gradients in float16 need it, those in bfloat16 do not."""
    return run.amp and frameworks.half(run) == "float16"


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

    from dlperf.frameworks.mxnet import FRAMEWORK

    return {
        "framework_version": mx.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
        "autotune": "full" if run.cuda else None,
        "collective": collective(run) if run.distributed else None,
        "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
        "compute_dtype": frameworks.half(run) if run.amp else "float32",
        "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE") != "0" if run.cuda else None,
        # MXNet's scaler asks on the host whether gradients are finite, before it updates
        "loss_scaling": "dynamic, synchronises each step" if scaled(run) else "none",
    }


def collective(run):
    if by_horovod(run):
        import horovod.mxnet as hvd

        return horovod.described(run, hvd)
    kind = "dist_device_sync" if run.cuda else "dist_sync"
    return "KVStore %s, %d servers" % (kind, run.ranks)


def stop(run):
    """Leave the group; the stopwatch ends scheduler and servers."""
    if by_horovod(run):
        import horovod.mxnet as hvd

        hvd.shutdown()
