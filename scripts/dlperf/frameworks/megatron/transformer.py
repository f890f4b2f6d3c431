"""megatron-core's layers of a decoder, and the config by which it builds, splits and runs them.

`facts` below are those of a workload: dropout and epsilon are read when a model is made.
"""

import torch
import torch.nn.functional as F
from megatron.core import tensor_parallel
from megatron.core.distributed import finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig

from dlperf.frameworks.pytorch.transformer import attention


class CoreAttention(MegatronModule):
    """Causal attention of a rank's own heads by torch's fused kernel.

    megatron-core's own takes Transformer Engine for that, and else writes all scores to memory.
    """

    def __init__(self, config, **_):
        super().__init__(config=config)

    def forward(self, query, key, value, attention_mask, **_):
        """(tokens, batch, heads, head width), three times -> (tokens, batch, width)."""
        heads = [each.permute(1, 2, 0, 3) for each in (query, key, value)]
        dropped = self.config.attention_dropout if self.training else 0.0
        with tensor_parallel.get_cuda_rng_tracker().fork():  # each rank has heads of its own
            mixed = F.scaled_dot_product_attention(*heads, dropout_p=dropped, is_causal=True)
        return mixed.permute(2, 0, 1, 3).flatten(2)


def attention_of(run, facts):
    """What records say of CoreAttention."""
    width, heads = run.dimensions["width"], run.dimensions["heads"]
    own = (heads // run.mesh.tensor, width // heads, facts.ATTENTION_DROPOUT)
    return attention(run, *own, training=True, causal=True)


def as_it_is(tensor):
    """An initialization that draws nothing."""
    return tensor


def layer_spec():
    """A layer of megatron-core's own modules, but for the attention."""
    spec = get_gpt_layer_local_spec()
    spec.submodules.self_attention.submodules.core_attention = CoreAttention
    return spec


def transformer_config(run, facts, width, layers, heads, narrow):
    """How megatron-core builds, splits and runs a decoder.

    narrow: the type of mixed precision, in which all of the network is; None without that.
    """
    dtype = getattr(torch, narrow) if narrow else torch.float32
    recomputed = {}
    if run.layout.activation_checkpointing:  # each layer
        recomputed = {
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
        }
    return TransformerConfig(
        num_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        hidden_dropout=facts.DROPOUT,
        attention_dropout=facts.ATTENTION_DROPOUT,
        layernorm_epsilon=facts.LAYER_NORM_EPSILON,
        activation_func=F.gelu,
        bias_activation_fusion=True,  # by tanh; by the error function where it is not fused
        bias_dropout_fusion=True,
        # fused, it rounds the gradient of the scores to bfloat16, whatever the precision
        cross_entropy_loss_fusion=narrow == "bfloat16",
        masked_softmax_fusion=False,
        tensor_model_parallel_size=run.mesh.tensor,
        pipeline_model_parallel_size=run.mesh.pipeline,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=narrow == "bfloat16",
        fp16=narrow == "float16",
        # The stopwatch writes all weights. Without `perform_initialization` no weight would say
        # that it is a part, and the clip would take the norm of one rank's parts for that of all.
        init_method=as_it_is,
        output_layer_init_method=as_it_is,
        gradient_accumulation_fusion=False,  # Apex's
        deallocate_pipeline_outputs=True,
        batch_p2p_sync=False,  # a wait for the device that versions of torch before 2 needed
        finalize_model_grads_func=finalize_model_grads,
        **recomputed,
    )
