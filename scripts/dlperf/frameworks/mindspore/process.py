"""A rank's process under MindSpore: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer

# The process that ranks find each other through; `init` returns in it when all ranks have left.
SCHEDULER = "import mindspore as ms; ms.set_device('CPU'); ms.communication.init()"


def environment(run):
    variables = {
        "GLOG_v": "3",  # errors only: the log stays readable
        # else a failed compilation leaves folders in the working directory
        "MS_DEV_SAVE_GRAPHS_PATH": os.path.dirname(run.result),
    }
    if not run.cuda:
        # Without it oneDNN gives most convolutions on AVX-512 processors to its reference kernel,
        # which is some 60 times as slow.
        variables["ONEDNN_MAX_CPU_ISA"] = "AVX2"
        variables["MS_DEV_HOST_BLOCKING_RUN"] = "1"  # no second thread to launch operators
    if run.distributed:
        variables.update(_cluster(run), MS_ROLE="MS_WORKER", MS_NODE_ID=str(run.rank))
    if run.cuda and not run.tf32:
        variables["NVIDIA_TF32_OVERRIDE"] = "0"  # else NVIDIA's libraries choose
    if run.cuda and run.distributed:
        # MindSpore binds a rank to the card of its number, so it must see them all.
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(run.gpus)
    return variables


def _cluster(run):
    """What msrun sets for its processes."""
    return {
        "MS_WORKER_NUM": str(run.ranks),
        "MS_LOCAL_WORKER_NUM": str(run.local_ranks),
        "MS_SCHED_HOST": run.address,
        "MS_SCHED_PORT": str(run.port),
        "MS_TOPO_TIMEOUT": "300",
        # Seconds between a rank's messages to the scheduler: from one it learns that all are there.
        # By default 3 to 5, which its `init` waits.
        "MS_RETRY_INTERVAL_LOWER": "1",
        "MS_RETRY_INTERVAL_UPPER": "1",
    }


def services(run):
    if not run.distributed or run.rank > 0:
        return []
    variables = dict(_cluster(run), MS_ROLE="MS_SCHED", MS_NODE_ID="sched")
    return [("scheduler", [run.interpreter, "-c", SCHEDULER], variables)]


def start(run):
    import mindspore as ms
    from mindspore import communication

    ms.set_context(mode=ms.PYNATIVE_MODE)  # ms.jit compiles what it is put on
    if run.cuda:
        try:
            ms.set_device("GPU", run.local_rank if run.distributed else 0)
        except RuntimeError as error:  # of many lines; the first names what it supports
            reason = str(error).strip().split("\n")[0]
            raise Unsupported(
                "this build of MindSpore has no CUDA that works here, or sees no GPU: " + reason
            ) from None
    else:
        ms.set_device("CPU")
        ms.runtime.dispatch_threads_num(run.cores_per_device)
    ms.set_seed(run.dropout_seed)
    if run.distributed:
        run.wait_for_port()  # one that comes before the scheduler is late by a second or more
        communication.init()
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.DATA_PARALLEL,
            gradients_mean=True,
            device_num=run.ranks,
        )


def step_timer(run):
    return HostTimer()


def memory(run):
    from mindspore import runtime

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    return {
        "device_peak_bytes": runtime.max_memory_allocated(),
        "device_total_peak_bytes": runtime.max_memory_reserved(),
    }


def parity(run):
    import mindspore as ms
    from mindspore import communication

    facts = {
        "framework_version": ms.__version__,
        "compiler_detail": compiler_detail(run),
        "collective": None,
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
        "host_blocking_run": os.environ.get("MS_DEV_HOST_BLOCKING_RUN"),
    }
    if run.distributed:
        facts["collective"] = communication.GlobalComm.BACKEND
    if run.cuda:
        facts["tf32"] = os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"
    return facts


def compiler_detail(run):
    """What was compiled, from MindSpore's own list of compiled functions."""
    from mindspore.graph.api import ms_compile_cache

    from dlperf.frameworks.mindspore import FRAMEWORK

    if run.compiler == "none":
        return FRAMEWORK.compilers["none"]
    graphs = [phase for phase in ms_compile_cache if phase.startswith("dlperf.")]
    if not graphs:
        raise Unsupported("ms.jit compiled nothing: the step ran in PYNATIVE")
    return "%s, graphs: %d" % (FRAMEWORK.compilers[run.compiler], len(graphs))


def stop(run):
    from mindspore import communication

    if run.distributed:
        communication.release()
