"""A rank's process under PyTorch: how it starts, what it says of itself, how it ends."""

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer


def environment(run):
    return {
        "TORCHINDUCTOR_COMPILE_THREADS": str(max(1, len(run.cores))),
    }


def services(run):
    return []


def start(run):
    import torch
    import torch.distributed as dist

    torch.manual_seed(run.seed)
    if run.float64:
        torch.set_default_dtype(torch.float64)
    if run.cuda:
        torch.cuda.set_device(0)  # a rank sees its own card only
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = run.tf32
        torch.backends.cuda.matmul.allow_tf32 = run.tf32
    else:
        torch.set_num_threads(run.cores_per_device)
        torch.set_num_interop_threads(1)
    if run.distributed:
        dist.init_process_group(
            "nccl" if run.cuda else "gloo",
            init_method="tcp://%s:%d" % (run.address, run.port),
            rank=run.rank,
            world_size=run.ranks,
        )


def step_timer(run):
    return EventTimer() if run.cuda else HostTimer()


def memory(run):
    import torch

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    free, total = torch.cuda.mem_get_info()
    return {
        "device_peak_bytes": torch.cuda.max_memory_allocated(),
        # what the card had to give at the end: allocator's cache, cuDNN, context and NCCL included
        "device_total_peak_bytes": total - free,
    }


def parity(run):
    import torch

    facts = {
        "framework_version": torch.__version__,
        "compiler_detail": compiler_detail(run),
        "autotune": torch.backends.cudnn.benchmark if run.cuda else None,
        "collective": torch.distributed.get_backend() if run.distributed else None,
    }
    if run.cuda:
        facts.update(
            tf32_matmul=torch.backends.cuda.matmul.allow_tf32,
            tf32_convolution=torch.backends.cudnn.allow_tf32,
            cuda_version=torch.version.cuda,
            cudnn_version=torch.backends.cudnn.version(),
        )
    else:
        facts["onednn"] = torch.backends.mkldnn.is_available()
    return facts


def compiler_detail(run):
    if run.compiler == "none":
        return "eager"
    from torch._dynamo.utils import counters

    graphs = counters["stats"]["unique_graphs"]
    breaks = sum(counters["graph_break"].values())
    if not graphs:
        raise Unsupported("torch.compile gave no graph: the step ran eagerly")
    return "torch.compile (Inductor), graphs: %d, breaks: %d" % (graphs, breaks)


def stop(run):
    import torch.distributed as dist

    if run.distributed:
        dist.destroy_process_group()


class EventTimer:
    """Device time between steps, from CUDA events queued with the work and read after it."""

    clock = "device"

    def __init__(self):
        self._events = []

    def mark(self):
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def seconds(self):
        """Seconds of each step: one less than the marks; all work must be done."""
        pairs = zip(self._events, self._events[1:])
        return [before.elapsed_time(after) / 1000.0 for before, after in pairs]
