"""GPT pre-training in DeepSpeed.

The model is PyTorch's of the page beside this one, as DeepSpeed trains torch's modules. What it
does with it is its own: gradients, the clip, mixed precision, and ZeRO's stages.
"""

from dlperf.frameworks.deepspeed import training as framework
from dlperf.frameworks.pytorch.training import put
from dlperf.frameworks.pytorch.transformer import attention_of
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.pytorch import GPT, criterion
from dlperf.workloads.gpt.pytorch import weights as pytorch_weights


def model(run):
    network = GPT(run).train()  # the engine moves it to the device, or divides it
    network.tie()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters, as torch has them before DeepSpeed."""
    return pytorch_weights(run, network)


def loss(run, network, tokens, labels):
    """In float32 in mixed precision too: DeepSpeed casts the network alone."""
    return criterion(run, network(tokens).float(), labels)


def config(run):
    return framework.config(run, clip_norm=facts.CLIP_NORM, width=run.dimensions["width"])


def optimizer(run, network):
    return framework.fused_adamw(run, network, facts)


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        config(run),
        parity={
            "attention": attention_of(run, network),
            "optimizer": "AdamW, fused",
            "clip": "global norm, DeepSpeed's",
        },
    )
