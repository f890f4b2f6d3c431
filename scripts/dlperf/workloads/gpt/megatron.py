"""GPT pre-training in Megatron-LM.

megatron-core's GPTModel as it is, in its own layers; a rank has the layers of its stage, and of
these its part of heads, inner layer and vocabulary. Its schedules and its optimizer train it.
"""

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_model import GPTModel

from dlperf import frameworks
from dlperf.frameworks.megatron import training as framework
from dlperf.frameworks.megatron import transformer
from dlperf.frameworks.megatron.parallel import Weights, canonical_name
from dlperf.frameworks.pytorch.training import put
from dlperf.workloads.gpt import facts


def model(run):
    sizes = run.dimensions
    config = transformer.transformer_config(
        run,
        facts,
        width=sizes["width"],
        layers=sizes["layers"],
        heads=sizes["heads"],
        narrow=frameworks.narrow_type(run),
    )
    network = GPTModel(
        config=config,
        transformer_layer_spec=transformer.layer_spec(),
        vocab_size=facts.VOCABULARY,
        max_sequence_length=sizes["sequence_length"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
        position_embedding_type="learned_absolute",
    )
    network = network.to(run.device).train()
    return framework.data_parallel(run, config, network)


def weights(run, network, optimizer):
    """The parameters by the names of facts.parameters."""
    sizes, place = run.dimensions, run.coordinates
    own = facts.layers_of_stage(sizes, place.pipeline, run.mesh.pipeline)
    named = {}
    for name, parameter in network.named_parameters():
        named[canonical_name(name.replace("module.", ""), own[0])] = parameter
    return Weights(
        run,
        named,
        head_width=sizes["width"] // sizes["heads"],
        gather=framework.gather(network),
        optimizer=framework.inner(optimizer),
    )


def loss(run, network, tokens, labels):
    """The cross-entropy of each next token; of a stage that is not the last its activations."""
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    return network(tokens, positions, None, labels=labels)  # attention is causal without a mask


def optimizer(run, network):
    return framework.megatron_adamw(run, network, facts, clip_norm=facts.CLIP_NORM)


def training(run):
    network = model(run)
    adamw = optimizer(run, network)
    return framework.train(
        run,
        network,
        loss,
        adamw,
        weights(run, network, adamw),
        put,
        parity={
            "attention": transformer.attention_of(run, facts),
            "optimizer": "AdamW, " + type(framework.inner(adamw).optimizer).__module__,
            "clip": "global norm, Megatron's",
        },
    )
