"""A node's process under HugeCTR: how it starts, what it says of itself, how it ends."""

import contextlib
import ctypes
import functools
import os
import shutil
import tempfile

from dlperf.contract.run import Run, Unsupported
from dlperf.contract.timer import HostTimer
from dlperf.frameworks import gpus

RUNTIMES = ("libcudart.so", "libcudart.so.12", "libcudart.so.11.0")
NORM_ENDS = (23, 12)  # from this version on, its reader of the format Norm throws "deprecated"


def environment(run):
    variables = {}
    if not run.tf32:
        variables["NVIDIA_TF32_OVERRIDE"] = "0"  # beside its own switch: for all of NVIDIA's parts
    if isinstance(run, Run) and run.data == "synthetic":
        variables["SKIP_H2D"] = "1"  # 24.06 then trains on the first batch; 23.09 does not know it
    return variables


def services(run):
    return []


def start(run):
    from mpi4py import MPI  # as HugeCTR's own samples do: it starts MPI

    gpus.require("HugeCTR", runtime() is not None, count())
    if count() < run.devices:
        raise Unsupported("HugeCTR sees %d of the node's %d GPUs" % (count(), run.devices))
    there = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if there != (run.rank, run.ranks):
        raise Unsupported(
            "MPI counts this process as rank %d of %d, not as node %d of %d: let the launcher be "
            "`srun --mpi=pmix`, with one task a node" % (there + (run.rank, run.ranks))
        )


def meet(run):
    """Return when the processes of all nodes have come here."""
    if run.distributed:
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()


def of_first(run, value):
    """What the first node's process has as `value`: HugeCTR sums losses there alone."""
    if not run.distributed:
        return value
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast(value, 0)


@contextlib.contextmanager
def shared_folder(run, number):
    """A folder for the weights of all nodes, which HugeCTR saves as one: of a file system that
    they share, as the folder of the call is."""
    if not run.distributed:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    name = "hugectr-%s-%d-%d" % (run.address, run.port, number)
    folder = os.path.abspath(os.path.join("results", ".cache", name))
    os.makedirs(folder, exist_ok=True)
    meet(run)
    try:
        yield folder
    finally:
        meet(run)
        shutil.rmtree(folder, ignore_errors=True)


def version():
    """(23, 9, 0)"""
    import hugectr

    return tuple(int(part) for part in hugectr.__version__.split("."))


def reads_norm():
    """Whether this version reads the format Norm; else it is given Parquet."""
    return version() < NORM_ENDS


@functools.lru_cache(maxsize=None)
def runtime():
    """CUDA's runtime, the library that HugeCTR is linked with; None where there is none."""
    for name in RUNTIMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def call(name, *arguments):
    """Call a function of CUDA's runtime. Raises RuntimeError where it fails or is not there."""
    if runtime() is None:
        raise RuntimeError("CUDA's runtime, %s, is not here" % RUNTIMES[0])
    status = getattr(runtime(), name)(*arguments)
    if status:
        raise RuntimeError("%s failed with CUDA's error %d" % (name, status))


def count():
    """How many GPUs this process sees."""
    found = ctypes.c_int()
    try:
        call("cudaGetDeviceCount", ctypes.byref(found))
    except RuntimeError:
        return 0
    return found.value


def synchronize(run):
    """Return when all GPUs of the node have done all that was queued on any of their streams."""
    for device in range(run.devices):
        call("cudaSetDevice", device)
        call("cudaDeviceSynchronize")
    call("cudaSetDevice", 0)


def step_timer(run):
    return HostTimer()


def memory(run):
    """What the fullest of the node's cards had to give at the end."""
    taken = []
    for device in range(run.devices):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("cudaSetDevice", device)
        call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        taken.append(total.value - free.value)
    call("cudaSetDevice", 0)
    return {"device_peak_bytes": None, "device_total_peak_bytes": max(taken)}


def parity(run):
    import hugectr

    from dlperf.frameworks.hugectr import FRAMEWORK

    several = run.devices * run.ranks > 1
    return {
        "framework_version": hugectr.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
        "collective": "NCCL, one process a node" if several else None,
        "devices_per_process": run.devices,
        "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE") != "0",
    }


def stop(run):
    """MPI ends with the process."""
