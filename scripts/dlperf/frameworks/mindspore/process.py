"""MindSpore: PYNATIVE or ms.jit, one process a rank, a scheduler beside them, MCCL or NCCL.

`graph` is ms.jit over the whole step, which compiles what GRAPH_MODE compiles. It is the default:
its users are told to train so, and on one core it takes a fifth less time than PYNATIVE (ResNet-50,
64 px, batch 8), for some 3 s of compilation in the warm-up. On a CPU operators are launched by the
calling thread: by default it spins while another thread computes, which on one core doubles or
triples a step. The CUDA path has not run on a GPU: it follows the documentation (the wheel has
kernels for CUDA 11.1 and 11.6 only).
"""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer
from dlperf.measure import host

TITLE = "MindSpore"
COMPILERS = {"none": "PYNATIVE", "graph": "ms.jit"}
DEFAULT_COMPILER = {"cpu": "graph", "cuda": "graph"}
# No float64 convolution or batch-norm on a CPU. BERT needs neither, but something in its float64
# steps is float32 (first gradient 3.3e-6 off), and they take 10 GB a rank and four minutes.
FLOAT64_COMPILERS = ()
FLOAT64_EXCHANGE = False
# The process that ranks find each other through; `init` returns in it when all ranks have left.
SCHEDULER = "import mindspore as ms; ms.set_device('CPU'); ms.communication.init()"


def unsupported(case):
    if case["device"] == "cpu" and case["precision"] == "amp":
        return (
            "MindSpore has no mixed precision to measure on a CPU: it refuses bfloat16 convolution "
            "and products, and computes those of float16 in float32, with casts around them"
        )
    return ""


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
    if run.cuda and run.distributed:
        # MindSpore binds a rank to the card of its number, so it must see them all.
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(host.visible_gpus()[: run.local_ranks])
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
        ms.set_device("GPU", run.local_rank if run.distributed else 0)
    else:
        ms.set_device("CPU")
        ms.runtime.dispatch_threads_num(run.cores_per_device)
    ms.set_seed(run.seed)
    if run.distributed:
        run.wait_for_port()  # one that comes before the scheduler is late by a second or more
        communication.init()
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.DATA_PARALLEL,
            gradients_mean=True,
            device_num=run.ranks,
        )


def synchronize(run):
    """Wait for all queued work."""
    import mindspore as ms

    if run.cuda:
        ms.runtime.synchronize()
    else:  # the same, but runtime's refuses its first call on a CPU
        ms.hal.synchronize()


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
        facts["tf32"] = "MindSpore's default"
    return facts


def compiler_detail(run):
    """What was compiled, from MindSpore's own list of compiled functions."""
    from mindspore.graph.api import ms_compile_cache

    if run.compiler == "none":
        return COMPILERS["none"]
    graphs = [phase for phase in ms_compile_cache if phase.startswith("dlperf.")]
    if not graphs:
        raise Unsupported("ms.jit compiled nothing: the step ran in PYNATIVE")
    return "%s, graphs: %d" % (COMPILERS[run.compiler], len(graphs))


class Weights:
    """A network's parameters by canonical name; MindSpore's layouts are the canonical ones."""

    def __init__(self, named):
        self.named = named

    def read(self):
        return ((name, p.asnumpy()) for name, p in self.named.items())

    def write(self, arrays):
        for name, parameter in self.named.items():
            parameter.set_data(tensor(arrays[name], parameter))


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    import mindspore as ms

    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(network)
    weights.write(start)
    names = {id(parameter): name for name, parameter in weights.named.items()}

    def update(gradients):
        return optimizer(gradients)

    if run.compiler == "graph":
        update = ms.jit(update, fullgraph=True)
    for given in gradients:
        update(tuple(tensor(given[names[id(p)]], p) for p in optimizer.parameters))
    return weights.read()


def tensor(array, parameter):
    """A copy of the array, in the parameter's type."""
    import mindspore as ms

    return ms.Tensor(array.copy(), parameter.dtype)


def stop(run):
    from mindspore import communication

    if run.distributed:
        communication.release()
