"""OneFlow: eager or nn.Graph; DistributedDataParallel or global tensors.

The PyPI wheel is a CUDA 11 build that needs cuBLAS and cuDNN to be imported, on a CPU too: they
come from the environment's nvidia packages. Its old OpenBLAS does not know recent AMD processors
and takes SSE kernels for them: Haswell's (AVX2, FMA) are asked for where the processor has them
(a quarter faster). The GPU's side is written from the documentation and has not run on a GPU.
"""

import glob
import os

from dlperf.contract.timer import HostTimer

TITLE = "OneFlow"
COMPILERS = {"none": "eager", "graph": "nn.Graph"}
DEFAULT_COMPILER = {"cpu": "none", "cuda": "graph"}
FLOAT64_COMPILERS = ("none",)  # a float64 graph fails
FLOAT64_EXCHANGE = False  # by an own all-reduce

PASSED_ON = ("OPENBLAS_CORETYPE", "ONEFLOW_ENABLE_NHWC", "ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION")


def unsupported(case):
    if case["precision"] == "amp" and case["device"] != "cuda":
        return "nn.Graph's enable_amp has no effect on the CPU"
    if case["precision"] == "amp" and case["compiler"] == "none":
        return "OneFlow scales the loss in nn.Graph only: AMP needs the compiler 'graph'"
    if case.get("clip") and case["compiler"] == "graph" and case["device"] != "cuda":
        return "on the CPU nn.Graph clips by a norm that is percents off: a running sum of float32"
    return ""


def environment(run):
    variables = {"LD_LIBRARY_PATH": library_path(run.interpreter), "ONEFLOW_ENABLE_NHWC": "0"}
    if run.cuda:
        # TF32 for convolutions and matmul is OneFlow's default; said, so that it can be read back
        variables["ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION"] = "1"
        variables["ONEFLOW_ENABLE_NHWC"] = "1" if run.amp else "0"
    if "OPENBLAS_CORETYPE" not in os.environ and {"avx2", "fma"} <= processor_flags():
        variables["OPENBLAS_CORETYPE"] = "Haswell"
    if run.distributed:
        # what oneflow.distributed.launch sets
        variables.update(
            MASTER_ADDR=run.address,
            MASTER_PORT=str(run.port),
            WORLD_SIZE=str(run.ranks),
            RANK=str(run.rank),
            LOCAL_RANK=str(among_neighbours(run)),
        )
    return variables


def among_neighbours(run):
    """The rank's number among those of its address, which is how OneFlow counts nodes.

    The local rank, unless a cluster has several nodes on one host.
    """
    hosts = [peer.rpartition(":")[0] for peer in run.peers[: run.rank]]
    return hosts.count(run.own_address)


def library_path(interpreter):
    """The nvidia packages' folders of an environment, before what is on the path already."""
    environment = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    folders = glob.glob(
        os.path.join(environment, "lib", "python3*", "site-packages", "nvidia", "*", "lib")
    )
    there = os.environ.get("LD_LIBRARY_PATH", "")
    return os.pathsep.join(sorted(folders) + ([there] if there else []))


def processor_flags():
    with open("/proc/cpuinfo") as stream:
        for line in stream:
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return set()


def services(run):
    return []


def start(run):
    if run.rank > 0:
        run.wait_for_port()  # OneFlow, joining at its import, tries every 10 s only
    import oneflow as flow

    flow.manual_seed(run.seed)
    if run.cuda:
        flow.cuda.set_device(0)  # a rank sees its own card only
    if flow.env.get_world_size() != run.ranks:
        raise RuntimeError(
            "OneFlow joined %d ranks, not %d" % (flow.env.get_world_size(), run.ranks)
        )


def step_timer(run):
    return HostTimer()  # OneFlow has no events for Python


def memory(run):
    import oneflow as flow

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    return {
        "device_peak_bytes": None,  # OneFlow does not say
        # what the card had given at the end; OneFlow's allocators keep what they got
        "device_total_peak_bytes": int(flow._oneflow_internal.GetCUDAMemoryUsed() * 2**20),
    }


def parity(run):
    import oneflow as flow

    own = "NCCL" if run.cuda else "OneFlow's own (TCP)"
    facts = {
        "framework_version": flow.__version__,
        "compiler_detail": COMPILERS[run.compiler],
        "collective": own if run.distributed else None,
        "autotune": run.compiler == "graph" if run.cuda else None,
    }
    facts.update((name.lower(), os.environ.get(name)) for name in PASSED_ON)
    return facts


class Undrawn:
    """Of a layer that draws no weights when it is made: the stopwatch writes them all."""

    def reset_parameters(self):
        pass


class Weights:
    """A network's parameters by canonical name; OneFlow's layouts are the canonical ones.

    In a graph over several ranks they are global tensors, of which every rank has a whole copy.
    """

    def __init__(self, named):
        self.named = named

    def read(self):
        return ((name, self.local(p).numpy()) for name, p in self.named.items())

    def write(self, arrays):
        for name, parameter in self.named.items():
            parameter.data.copy_(self.tensor(name, arrays[name]))

    def tensor(self, name, array):
        """A canonical array as the parameter has it."""
        import oneflow as flow

        parameter = self.named[name]
        tensor = flow.tensor(array.copy(), dtype=parameter.dtype)
        if parameter.is_global:
            return tensor.to_global(placement=parameter.placement, sbp=parameter.sbp)
        return tensor.to(parameter.device)

    @staticmethod
    def local(parameter):
        return (parameter.to_local() if parameter.is_global else parameter).detach()


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(network)
    weights.write(start)
    update = graph_update if run.compiler == "graph" else eager_update
    update = update(run, implementation, weights.named, optimizer)
    for given in gradients:
        update({name: weights.tensor(name, given[name]) for name in weights.named})
    return weights.read()


def eager_update(run, implementation, named, optimizer):
    def update(gradients):
        for name, parameter in named.items():
            parameter.grad = gradients[name]
        optimizer.step()

    return update


def graph_update(run, implementation, named, optimizer):
    """The implementation's training graph, on a loss that has the given gradients."""
    import oneflow as flow

    keys = ["parameter%d" % index for index in range(len(named))]  # no name may have a dot

    class Products(flow.nn.Module):
        def __init__(self):
            super().__init__()
            for key, parameter in zip(keys, named.values()):
                self.register_parameter(key, parameter)

        def forward(self, numbers):
            return [(getattr(self, key) * each).sum() for key, each in zip(keys, numbers)]

    graph = implementation.TrainingGraph(run, Products(), lambda sums, _: sum(sums), optimizer)
    return lambda gradients: graph(list(gradients.values()), None)


def stop(run):
    pass  # the group ends with the process
