"""A rank's process under DeepSpeed: PyTorch's, and what DeepSpeed asks of its environment."""

from dlperf.frameworks.pytorch import process as pytorch
from dlperf.frameworks.pytorch.process import memory, reset_peak, services, step_timer  # noqa: F401


def environment(run):
    """The variables that DeepSpeed's own launcher would set; the stopwatch starts ranks itself."""
    return dict(
        pytorch.environment(run),
        RANK=str(run.rank),
        WORLD_SIZE=str(run.ranks),
        LOCAL_RANK="0",  # a rank sees its own card only
        MASTER_ADDR=run.address,
        MASTER_PORT=str(run.port),
        DS_ACCELERATOR=run.device,
    )


def start(run):
    pytorch.start(run)  # the group of ranks too, which DeepSpeed takes as it is
    import deepspeed.ops
    import torch.distributed as dist

    if not run.distributed:  # its engine has a group of one rank also
        backend = "nccl" if run.cuda else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    # Else it compiles its shared-memory exchange on a CPU when it starts, and a process that is
    # killed meanwhile leaves a lock for which all later ones wait.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(auto_mpi_discovery=False)


def parity(run):
    import deepspeed

    facts = pytorch.parity(run)
    return dict(
        facts,
        framework_version=deepspeed.__version__,
        torch_version=facts["framework_version"],
    )


def stop(run):
    import torch.distributed as dist

    dist.destroy_process_group()
