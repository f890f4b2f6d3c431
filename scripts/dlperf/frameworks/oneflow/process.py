"""A rank's process under OneFlow: how it starts, what it says of itself, how it ends."""

import glob
import os

from dlperf.contract.timer import HostTimer
from dlperf.frameworks import gpus

# In a graph on a GPU, as OneFlow's own recommendation models set them; a user's own setting stays.
MULTI_TENSOR = "ONEFLOW_ENABLE_MULTI_TENSOR_MODEL_UPDATE"  # one kernel updates many weights
FUSED_CAST = "ONEFLOW_FUSE_MODEL_UPDATE_CAST"  # the update also writes the float16 weights

PASSED_ON = (
    "OPENBLAS_CORETYPE",
    "ONEFLOW_ENABLE_NHWC",
    "ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION",
    MULTI_TENSOR,
    FUSED_CAST,
)


def environment(run):
    variables = {"LD_LIBRARY_PATH": library_path(run.interpreter), "ONEFLOW_ENABLE_NHWC": "0"}
    if run.cuda:
        # of convolutions and matmul
        variables["ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION"] = "1" if run.tf32 else "0"
        variables["ONEFLOW_ENABLE_NHWC"] = "1" if run.amp else "0"
        if run.compiler == "graph":
            variables[MULTI_TENSOR] = os.environ.get(MULTI_TENSOR, "1")
            if run.amp:
                variables[FUSED_CAST] = os.environ.get(FUSED_CAST, "1")
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
        built = flow._oneflow_internal.flags.with_cuda()
        gpus.require("OneFlow", built, flow.cuda.is_available())
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

    from dlperf.frameworks.oneflow import FRAMEWORK

    own = "NCCL" if run.cuda else "OneFlow's own (TCP)"
    facts = {
        "framework_version": flow.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
        "collective": own if run.distributed else None,
        "autotune": run.compiler == "graph" if run.cuda else None,
    }
    facts.update((name.lower(), os.environ.get(name)) for name in PASSED_ON)
    return facts


def stop(run):
    pass  # the group ends with the process
