"""A rank's process under Megatron-LM: PyTorch's, and Megatron's groups of ranks."""

from dlperf.frameworks.pytorch import process as pytorch
from dlperf.frameworks.pytorch.process import memory, reset_peak, services, step_timer  # noqa: F401


def environment(run):
    variables = dict(pytorch.environment(run))
    if run.cuda and run.mesh.tensor > 1:
        # what it computes and what it exchanges then start in the order in which it queues them
        variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    return variables


def start(run):
    pytorch.start(run)  # the group of ranks too, which Megatron divides
    import torch.distributed as dist
    from megatron.core import parallel_state, tensor_parallel

    if not run.distributed:  # its groups are parts of that of all ranks, be it one
        backend = "nccl" if run.cuda else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    if not run.cuda:
        from dlperf.frameworks.megatron import cpu

        cpu.redirect()
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=run.mesh.tensor,
        pipeline_model_parallel_size=run.mesh.pipeline,
        create_gloo_process_groups=False,  # for checkpoints
    )
    tensor_parallel.model_parallel_cuda_manual_seed(run.seed)  # a model cannot be made without


def parity(run):
    import megatron.core
    from megatron.core import jit, parallel_state

    facts = pytorch.parity(run)
    compiled = jit.jit_fuser is not jit.noop_decorator
    return dict(
        facts,
        framework_version=megatron.core.__version__,
        torch_version=facts["framework_version"],
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
        pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(),
        data_parallel_size=parallel_state.get_data_parallel_world_size(),
        fused_functions="torch.compile" if compiled else "eager",
        device_names=None if run.cuda else "CUDA's stand for the CPU",
    )


def stop(run):
    import torch.distributed as dist

    dist.destroy_process_group()
