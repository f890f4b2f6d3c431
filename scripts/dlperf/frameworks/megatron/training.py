"""Training in Megatron-LM: megatron-core's data parallel, schedules and optimizer.

They accumulate and exchange gradients, in 1F1B where there are stages, clip, scale and update. What
is not of megatron-core is PyTorch's.
"""

import torch
from megatron.core import tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.module import Float16Module

from dlperf.contract.work import Work, feed, restartable
from dlperf.frameworks.megatron import foreach
from dlperf.frameworks.pytorch.training import Ahead
from dlperf.frameworks.pytorch.training import forget as pytorch_forget
from dlperf.workloads.inputs import open_batches


def data_parallel(run, config, network):
    """megatron-core's data parallel of a network, which is in mixed precision as `config` says."""
    if config.bf16 or config.fp16:
        network = Float16Module(config=config, module=network)
    shares = run.layout.zero_stage == 1
    asked = DistributedDataParallelConfig(
        grad_reduce_in_fp32=not config.fp16,  # as pretrain_gpt.py has it
        overlap_grad_reduce=True,
        use_distributed_optimizer=shares,
        overlap_param_gather=shares,
    )
    network = DistributedDataParallel(config=config, ddp_config=asked, module=network)
    config.no_sync_func = network.no_sync
    return network


def megatron_adamw(run, network, facts, clip_norm):
    """Megatron's AdamW with the constants of a workload's facts, after a clip by global norm.

    It decays what has more than one axis and is no bias.
    """
    foreach.take_the_place_of_loops()
    rate = facts.learning_rate(run.global_batch_size)
    asked = OptimizerConfig(
        optimizer="adam",
        lr=rate,
        min_lr=rate,
        weight_decay=facts.WEIGHT_DECAY,
        adam_beta1=facts.BETA1,
        adam_beta2=facts.BETA2,
        adam_eps=facts.EPSILON,
        clip_grad=clip_norm,
        bf16=network.config.bf16,
        fp16=network.config.fp16,
        params_dtype=network.config.params_dtype,
        initial_loss_scale=run.loss_scale if network.config.fp16 else None,
        use_distributed_optimizer=network.ddp_config.use_distributed_optimizer,
        overlap_param_gather=network.ddp_config.overlap_param_gather,
    )
    optimizer = get_megatron_optimizer(
        config=asked, model_chunks=[network], use_gloo_process_groups=False
    )
    OptimizerParamScheduler(  # which, and not the optimizer, leaves vectors without decay
        optimizer,
        init_lr=rate,
        max_lr=rate,
        min_lr=rate,
        lr_warmup_steps=0,
        lr_decay_steps=1,
        lr_decay_style="constant",
        start_wd=facts.WEIGHT_DECAY,
        end_wd=facts.WEIGHT_DECAY,
        wd_incr_steps=1,
        wd_incr_style="constant",
    )
    for group in inner(optimizer).optimizer.param_groups:
        group["fused"] = True  # torch's, where Transformer Engine's and Apex's are not there
    network.config.grad_scale_func = optimizer.scale_loss
    return optimizer


def gather(network):
    """What makes all replicas' updates of a data-parallel network its own."""
    if network.ddp_config.overlap_param_gather:
        return lambda: network.start_param_sync(force_sync=True)
    return lambda: None


def train(run, network, loss, optimizer, weights, put, parity=None):
    """The Work of training `network`, data-parallel, with Megatron's optimizer.

    loss(run, network, *batch): the losses of a micro-batch's tokens, or on all but the last stage
    its activations. put(run, *arrays): a loader's batch as tensors on the device.
    """
    parameters = sum(each.numel() for each in network.parameters())
    tensor_parallel.model_parallel_cuda_manual_seed(run.dropout_seed)
    batches = open_batches(run)
    if run.cuda and not (batches.pooled or batches.on_device):
        batches = Ahead(batches, lambda *batch: put(run, *batch), torch.cuda.Stream())
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    forward_backward = get_forward_backward_func()

    def forward(following, chunk):
        """A micro-step as Megatron's schedules call it: outputs, and what makes a loss of them."""

        def mean(losses):
            value = losses.mean()
            return value, value.detach().clone()  # it divides the first one in place

        return loss(run, chunk, *next(following)), mean

    def step():
        network.zero_grad_buffer()
        optimizer.zero_grad()
        losses = forward_backward(
            forward_step_func=forward,
            data_iterator=iter(next_batch, None),
            model=[network],
            num_microbatches=run.accumulation,
            seq_length=run.dimensions["sequence_length"],
            micro_batch_size=run.batch_size,
            forward_only=False,
        )
        optimizer.step()
        return torch.stack(losses).mean() if losses else None  # the last stage alone has them

    work = Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: None if value is None else value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            reported_settings(run, network, optimizer),
            schedule=forward_backward.__name__,
            copies="one batch ahead, on their own stream" if isinstance(batches, Ahead) else None,
            **parity or {},
        ),
        weights=weights,
    )
    own = inner(optimizer)
    scaler = own.grad_scaler if network.config.fp16 else None
    scaling = scaler and scaler.state_dict()

    def forget():
        pytorch_forget(own.optimizer)
        if scaler:
            scaler.load_state_dict(scaling)

    return restartable(work, forget, running={})


def inner(optimizer):
    """The one optimizer that Megatron chains: there are no experts."""
    (own,) = optimizer.chained_optimizers
    return own


def reported_settings(run, network, optimizer):
    """Return what megatron-core's configs and parts say of themselves."""
    config, exchange = network.config, network.ddp_config
    narrow = config.bf16 or config.fp16
    return {
        "megatron_optimizer": type(inner(optimizer)).__name__,
        "distributed_optimizer": exchange.use_distributed_optimizer,
        "overlap_grad_reduce": exchange.overlap_grad_reduce,
        "overlap_param_gather": exchange.overlap_param_gather,
        "grad_reduce_in_fp32": exchange.grad_reduce_in_fp32,
        "bias_activation_fusion": config.bias_activation_fusion,
        "bias_dropout_fusion": config.bias_dropout_fusion,
        "cross_entropy_loss_fusion": config.cross_entropy_loss_fusion,
        "recompute_granularity": config.recompute_granularity,
        "gradient_clipping": optimizer.config.clip_grad,
        "loss_scaling": "dynamic" if config.fp16 else "none",
        "loss_scale": run.loss_scale if config.fp16 else None,
        "compute_dtype": str(config.params_dtype).replace("torch.", ""),
        "master_weights": "float32" if narrow else "none",
    }


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network, optimizer)
    weights.write(start)
    for given in gradients:
        weights.write_gradients(given)
        optimizer.step()
    return weights.read()
