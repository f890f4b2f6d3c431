"""Training in DeepSpeed: its engine, by the config that its users write.

The engine averages gradients over micro-steps and replicas, clips, updates and shards; ZeRO's
stages, mixed precision and loss scaling are keys of its config. What is not of the engine is
PyTorch's.
"""

import math

import deepspeed
import torch

from dlperf.contract.work import Work, feed, restartable
from dlperf.frameworks import narrow_type
from dlperf.frameworks.deepspeed.parallel import Weights
from dlperf.frameworks.pytorch.training import Ahead, by_decay
from dlperf.frameworks.pytorch.training import forget as pytorch_forget
from dlperf.workloads.inputs import open_batches

#: Values that ZeRO exchanges together, as in DeepSpeedExamples (training/cifar). The default is ten
#: times as many, more than most models have: all would wait for the end of the backward pass.
BUCKET = 50000000


def config(run, clip_norm, width):
    """The config of DeepSpeed's engine for a run.

    clip_norm: of all gradients together. width: of the model; stage 3 keeps vectors of its layers
    gathered, and nothing else.
    """
    asked = {
        "train_micro_batch_size_per_gpu": run.batch_size,
        "gradient_accumulation_steps": run.accumulation,
        "gradient_clipping": clip_norm,
        "zero_optimization": {
            "stage": run.layout.zero_stage,
            "contiguous_gradients": True,
            "reduce_scatter": True,
            "overlap_comm": run.cuda,  # beside the backward pass; a CPU has no streams
            "reduce_bucket_size": BUCKET,
            "allgather_bucket_size": BUCKET,
            # as Hugging Face Transformers has it (integrations/deepspeed.py)
            "stage3_param_persistence_threshold": 10 * width,
        },
        "steps_per_print": None,
        "timers": {"throughput": {"enabled": False}},  # which waits for the device in each step
    }
    narrow = narrow_type(run)
    if narrow == "bfloat16":
        asked["bf16"] = {"enabled": True}
    elif narrow == "float16":
        power = int(math.log2(run.loss_scale))
        asked["fp16"] = {"enabled": True, "loss_scale": 0, "initial_scale_power": power}
    return asked


def initialize(run, network, optimizer, asked):
    """DeepSpeed's engine of a network and its optimizer, by this config."""
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=asked)
    if run.amp and not run.layout.zero_stage:
        # Its optimizer of stage 0 (runtime/fp16/unfused_optimizer.py) takes a step of zeros when it
        # starts, and would correct the bias of its moments as of one step later: the first update
        # would be 0.74 of what it should be.
        for state in engine.optimizer.state.values():
            state["step"].zero_()
        if engine.fp16_enabled():  # of the config's scale it reads nothing
            engine.optimizer.loss_scale = run.loss_scale
    return engine


def train(run, network, loss, optimizer, weights, put, asked, parity=None):
    """The Work of training `network`.

    loss(run, network, *batch): the mean loss of a batch; its network is DeepSpeed's engine.
    optimizer: torch's. weights: the network's, as PyTorch's Weights. put(run, *arrays): a loader's
    batch as tensors on the device. asked: the engine's config.
    """
    parameters = sum(each.numel() for each in network.parameters())
    torch.manual_seed(run.dropout_seed)
    engine = initialize(run, network, optimizer, asked)
    batches = open_batches(run)
    if run.cuda and not (batches.pooled or batches.on_device):
        batches = Ahead(batches, lambda *batch: put(run, *batch), torch.cuda.Stream())
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def step():
        """One update; the engine counts micro-steps and updates with the last one."""
        total = 0.0
        for _ in range(run.accumulation):
            value = loss(run, engine, *next_batch())
            total += engine.backward(value).detach()  # it returns its share of the mean
            engine.step()
        return total

    work = Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            reported_settings(run, engine),
            copies="one batch ahead, on their own stream" if isinstance(batches, Ahead) else None,
            **parity or {},
        ),
        weights=Weights(run, weights, engine),
    )
    return restartable(work, forget_engine(engine), running={})


def forget_engine(engine):
    """What zeroes the state of an engine's optimizer, and sets its loss scale to what it now is."""
    optimizer = engine.optimizer
    own = getattr(optimizer, "optimizer", optimizer)  # torch's, which ZeRO and mixed precision wrap
    # of stage 0, and of the others
    scale = getattr(optimizer, "loss_scale_config", None) or getattr(optimizer, "loss_scaler", None)
    scaling = dict(vars(scale)) if scale else {}

    def forget():
        pytorch_forget(own)
        if scale:
            vars(scale).update(scaling)
        engine.skipped_steps = 0

    return forget


def reported_settings(run, engine):
    """Return what the engine says of itself."""
    narrow = engine.fp16_enabled() or engine.bfloat16_enabled()
    kind, _ = engine.get_data_types()
    return {
        "zero_stage": int(engine.zero_optimization_stage()),
        "zero_optimizer": type(engine.optimizer).__name__,
        "overlap_comm": engine.zero_overlap_comm(),
        "contiguous_gradients": engine.zero_contiguous_gradients(),
        "reduce_scatter": engine.zero_reduce_scatter(),
        "reduce_bucket_size": engine.zero_reduce_bucket_size(),
        "allgather_bucket_size": engine.zero_allgather_bucket_size(),
        "param_persistence_threshold": engine.zero_param_persistence_threshold(),
        "prefetch_bucket_size": engine.zero_prefetch_bucket_size(),
        "gradient_clipping": engine.gradient_clipping(),
        "loss_scaling": "dynamic" if engine.fp16_enabled() else "none",
        "loss_scale": run.loss_scale if engine.fp16_enabled() else None,
        "compute_dtype": str(kind).replace("torch.", ""),
        "master_weights": "float32" if narrow else "none",
    }


def fused_adamw(run, network, facts):
    """Torch's fused AdamW with the constants of a workload's facts; DeepSpeed clips and shards."""
    return torch.optim.AdamW(
        by_decay(network, facts.WEIGHT_DECAY),
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        fused=True,
    )


class Given(torch.nn.Module):
    """A network whose gradients are given: its loss is the sum of weights times these."""

    def __init__(self, network, named):
        super().__init__()
        self.network, self._named = network, dict(named)

    def forward(self, gradients):
        return sum((each * gradients[name]).sum() for name, each in self._named.items())


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step.

    The engine takes no gradients, so they come out of its own backward pass, of a loss that has
    them; it clips and updates as ever.
    """
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    pytorch = implementation.weights(run, network)
    engine = initialize(run, Given(network, pytorch.named), optimizer, implementation.config(run))
    weights = Weights(run, pytorch, engine)
    weights.write(start)
    for given in gradients:
        tensors = {name: torch.from_numpy(given[name]).to(run.device) for name in pytorch.named}
        engine.backward(engine(tensors))
        engine.step()
    return weights.read()
