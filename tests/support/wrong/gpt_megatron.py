"""The smallest wrong settings of GPT in Megatron-LM; it has no float64, so float32 shows them."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

megatron = partial(Mutation, "gpt", "megatron", **TIMED)


def configured(settings: str, instead_of: str = "") -> Replace:
    """The model's config with these settings; those that it has already are in `instead_of`."""
    known = f"TransformerConfig(..., {instead_of})" if instead_of else "TransformerConfig(...)"
    return Replace("transformer_config", known, f"TransformerConfig(..., {settings})")


def network(function: str, source: str) -> Replace:
    """The data-parallel network as a function of ours leaves it, whose source this is."""
    return Replace("data_parallel", "return _one", f"return {function}(_one)", definitions=source)


#: A norm that no ranks sum, of the part or the share of the model that one has.
BY_PART = Replace(
    "megatron_adamw",
    "return _optimizer",
    "return by_part(_optimizer)",
    definitions="""
def by_part(optimizer):
    from torch import distributed as dist

    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    inner(optimizer).grad_stats_parallel_group = groups[dist.get_rank()]
    return optimizer
""",
)
SUMMED = """
def summed(network):
    for group in network.bucket_groups:
        for bucket in group.buckets:
            bucket.gradient_scaling_factor = 1.0
    return network
"""
ALONE = """
def alone(network):
    for group in network.bucket_groups:
        group.start_grad_sync = group.finish_grad_sync = lambda *_, **__: None
    return network
"""
#: Gradients of replicas are exchanged; those of a table that two stages have are not.
WITHOUT_TIED = """
def without_tied(networks, *_, **__):
    for network in networks:
        network.finish_grad_sync()
"""
AS_FIRST = (
    "def as_first(run):\n    import dataclasses\n    return dataclasses.replace(run, rank=0)\n"
)
#: A loader that takes the rank for the replica.
BY_RANK = (
    "class ByRank:\n"
    "    def __init__(self, run):\n"
    "        self.run = run\n"
    "        self.input = run.input._replace(part=run.rank, parts=run.ranks)\n"
    "    def __getattr__(self, name):\n"
    "        return getattr(self.run, name)\n"
)

#: The first is in `make test`.
GPT_MEGATRON = [
    # what `perform_initialization=False` does in megatron-core 0.16.1
    megatron(
        "a clip of weights that do not say that they are parts",
        configured("perform_initialization=False"),
        layout="tp2",
    ),
    megatron("a clip by a rank's own part", BY_PART, layout="tp2"),
    megatron("a clip by a stage", BY_PART, layout="pp2acc2"),
    # of dp2zero1 alone it would not show: nearly all of the norm is in the first replica's share
    megatron("a clip by a rank's own part and share", BY_PART, layout="dp2tp2zero1"),
    megatron("no clip", constant("CLIP_NORM", "0.0", "optimizer"), layout="dp2"),
    megatron("gradients summed over replicas", network("summed", SUMMED), layout="dp2"),
    megatron("replicas do not exchange", network("alone", ALONE), layout="dp2"),
    megatron(
        "gradients summed over micro-steps",
        Replace(
            "train.forward.mean",
            "(_value, _value.detach().clone())",
            "(_value * run.accumulation, _value.detach().clone())",
        ),
        layout="acc2",
    ),
    megatron(
        "the tied gradient of one copy alone",
        Replace(
            "transformer_config",
            "TransformerConfig(..., finalize_model_grads_func=_function)",
            "TransformerConfig(..., finalize_model_grads_func=without_tied)",
            definitions=WITHOUT_TIED,
        ),
        layout="pp2acc2",
    ),
    megatron(
        "the first micro-batch again",
        Replace("train.step", "iter(_following, None)", "iter([_following()] * run.accumulation)"),
        layout="acc2",
    ),
    megatron(
        "a loader by rank",
        Replace("train", "open_batches(run)", "open_batches(ByRank(run))", definitions=BY_RANK),
        layout="tp2",
    ),
    megatron(
        "another rate on one rank",
        Replace(
            "megatron_adamw",
            "facts.learning_rate(_size)",
            "facts.learning_rate(_size) * (1 + run.rank)",
        ),
        layout="tp2",
    ),
    megatron(
        "one part owned twice",
        Replace("Weights", "parts(run)", "parts(as_first(run))", definitions=AS_FIRST),
        layout="tp2",
    ),
    megatron(
        "query, key and value as they stand",
        Replace("Weights", "_tensors[_name].blocks > 1", "False"),
    ),
    megatron(
        "a fused loss, whose gradient is bfloat16",
        configured("cross_entropy_loss_fusion=True", "cross_entropy_loss_fusion=_fused"),
    ),
    megatron(
        "GELU by the error function",
        configured("bias_activation_fusion=False", "bias_activation_fusion=True"),
    ),
    megatron("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "transformer_config")),
    megatron(
        "no mask",
        Replace(
            "CoreAttention.forward",
            "F.scaled_dot_product_attention(..., is_causal=True)",
            "F.scaled_dot_product_attention(...)",
        ),
    ),
    megatron("decay on biases", Replace("megatron_adamw", "OptimizerParamScheduler(...)", "None")),
    megatron("epsilon 1e-6", constant("EPSILON", "1e-6", "megatron_adamw")),
]
#: What passes; the first is in `make test`.
RIGHT = [
    *(
        megatron("as it is", None, layout=layout)
        for layout in ("tp2", "1", "dp2", "acc2", "ckpt1", "pp2acc2", "dp2tp2", "tp2pp2acc2")
        + ("dp2zero1", "dp2zero1acc2", "dp2tp2zero1", "dp2pp2zero1acc2")
    ),
    *(
        megatron("in mixed precision", None, layout=layout, precision="amp")
        for layout in ("1", "dp2", "tp2", "pp2acc2", "dp2zero1")
    ),
]
