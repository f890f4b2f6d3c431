"""A rank's process under PyTorch: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer


def environment(run):
    # kept: else every repetition compiles anew, as a rank's TMPDIR ends with it
    cache = os.path.abspath(os.path.join("results", ".cache", "inductor"))
    return {
        "TORCHINDUCTOR_COMPILE_THREADS": str(max(1, len(run.cores))),
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", cache),
    }


def services(run):
    return []


def start(run):
    import torch
    import torch.distributed as dist

    if run.cuda:
        refuse_without_gpu(torch)
    torch.manual_seed(run.seed)
    if run.float64:
        torch.set_default_dtype(torch.float64)
    if run.cuda:
        torch.cuda.set_device(0)  # a rank sees its own card only
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = 0  # all of cuDNN's algorithms, not the first ten
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


def refuse_without_gpu(torch):
    if torch.version.cuda is None:
        raise Unsupported(
            "PyTorch %s is built without CUDA: install a build with it, or ask for device cpu"
            % torch.__version__
        )
    if not torch.cuda.is_available():
        raise Unsupported(
            "PyTorch %s for CUDA %s finds no GPU that it can use: see what nvidia-smi says of "
            "the driver and its CUDA version" % (torch.__version__, torch.version.cuda)
        )


def cuda_graphs(run):
    """Whether a compiled step is captured in CUDA graphs and replayed.

    Not of a training over ranks, whose exchange cuts the step into pieces, nor over micro-steps,
    whose gradients must outlive a replay: Inductor alone does these. Ranks that infer exchange
    nothing.
    """
    whole = not run.distributed and run.accumulation == 1
    return (
        run.cuda and run.compiler == "inductor" and (whole or run.scenario in ("infer", "server"))
    )


def step_timer(run):
    return EventTimer() if run.cuda else HostTimer()


def reset_peak(run):
    """Count the peak of allocated memory anew; return what it was. None where it goes on.

    Replays of CUDA graphs allocate nothing: of those only the capture shows the peak, in warm-up.
    """
    import torch

    if not run.cuda or cuda_graphs(run):
        return None
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


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
            autotune_limit=torch.backends.cudnn.benchmark_limit,
            cuda_graphs=captured(run),
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


def captured(run):
    """How many forward passes were captured in CUDA graphs; their backward passes follow them."""
    if not cuda_graphs(run):
        return "none"
    from torch._dynamo.utils import counters
    from torch._inductor import cudagraph_trees

    manager = cudagraph_trees.get_manager(0, create_if_none_exists=False)
    count = sum(len(nodes) for nodes in manager.roots.values()) if manager else 0
    return "captured: %d, skipped: %d" % (count, counters["inductor"]["cudagraph_skips"])


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
