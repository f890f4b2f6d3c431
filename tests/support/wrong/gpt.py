"""The smallest wrong settings of GPT in PyTorch: of one device, and of a model that is split."""

from functools import partial

from edits import Edit, Replace, assignment, constant

from wrong import TIMED, Mutation, common

pytorch = partial(Mutation, "gpt", "pytorch")

ACTIVATION = "F.gelu(_x, approximate='tanh')"
HEAD = "self.head(_x)"
#: A product of a rank's own part, whose backward pass sums no gradients over ranks.
OWN_PRODUCT = (
    "def own_product(layer, x):\n"
    "    return F.linear(x, layer.weight.to_local(), layer.bias.to_local())\n"
)
#: The same of a part by inputs: each rank adds the bias, before the products are summed.
BIAS_OF_EACH = (
    "def bias_of_each(layer, x):\n"
    "    from torch.distributed.nn.functional import all_reduce\n"
    "    own = F.linear(x, layer.weight.to_local(), layer.bias.to_local())\n"
    "    return all_reduce(own, group=layer.weight.device_mesh.get_group())\n"
)
#: A rank that takes itself for the first.
AS_FIRST = (
    "def as_first(run):\n    import dataclasses\n    return dataclasses.replace(run, rank=0)\n"
)
#: Scores of which what pads GPT-2's own vocabulary gets no share.
WITHOUT_PADDING = (
    "def without_padding(scores):\n"
    "    import torch\n"
    "    scores = scores.clone()\n"
    "    scores[:, 50257:] = -torch.inf\n"
    "    return scores\n"
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
OWN_SOFTMAX = (
    "def of_own_words(scores, labels):\n"
    "    own = scores.to_local().flatten(0, 1)\n"
    "    return F.cross_entropy(own, labels % own.shape[1])\n"
)
RUN_LAYER = "checkpoint(_layer, _x, use_reentrant=False) if self.checkpointing else _layer(_x)"
TIED_SUM = "dist.all_reduce(local(self._named[_name].grad), group=_tied)"
OVER_AXES = "(TENSOR, PIPELINE) + _more"


def all_layouts(*names: str) -> list[Mutation]:
    """The implementation as it is, in these layouts."""
    return [pytorch("as it is", None, name) for name in names]


#: What passes. The cheapest that have each kind of split between them come first.
RIGHT = [
    *all_layouts("tp2", "1", "tp2pp2acc2", "dp2zero3acc2"),
    *all_layouts("dp2", "acc2", "pp2acc2", "dp2tp2", "dp2tp2acc2", "dp2pp2acc2"),
    *all_layouts("dp2zero1", "dp2zero2", "dp2zero3", "ckpt1", "tp2ckpt1", "pp2ckpt1acc2"),
    *all_layouts("dp2zero1acc2", "dp2zero2acc2"),
    pytorch("an exchange for each gradient", assignment("BUCKET_BYTES", "1"), "dp2tp2acc2"),
    pytorch("an exchange for each gradient", assignment("BUCKET_BYTES", "1"), "dp2pp2acc2"),
]


def norm_over(axes: str) -> Edit:
    """The clip's norm over these axes alone."""
    return Replace("Gradients.norm", OVER_AXES, axes)


ALONE = [
    pytorch(
        "GELU by the error function", Replace("DecoderLayer.forward", ACTIVATION, "F.gelu(_x)")
    ),
    pytorch("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    pytorch(
        "no mask",
        Replace(
            "DecoderLayer.forward",
            "self.apart(..., is_causal=True)",
            "self.apart(...)",
        ),
    ),
    pytorch(
        "a mask one token late",
        Replace(
            "DecoderLayer.forward",
            "self.apart(_attend, _query, ..., is_causal=True)",
            "self.apart(\n"
            "    _attend,\n"
            "    _query,\n"
            "    ...,\n"
            "    attn_mask=_query.new_ones(_query.shape[2:3] * 2).tril(1) > 0\n"
            ")",
        ),
    ),
    pytorch(
        "positions from 1",
        Replace(
            "GPT.hidden",
            "self.position_embedding.weight[: _count]",
            "self.position_embedding.weight.roll(-1, 0)[: _count]",
        ),
    ),
    pytorch(
        "query, key and value by head",
        Replace(
            "DecoderLayer.forward",
            "self.qkv(_x).unflatten(-1, (3, -1, self.head_width))",
            "self.qkv(_x).unflatten(-1, (-1, 3, self.head_width)).transpose(2, 3)",
        ),
    ),
    pytorch(
        "scores not scaled",
        Replace(
            "DecoderLayer.forward",
            "self.apart(...)",
            "self.apart(..., scale=1.0)",
        ),
    ),
    pytorch(
        "no share for what pads the vocabulary",
        Replace(
            "criterion",
            "_scores.flatten(0, 1)",
            "without_padding(_scores.flatten(0, 1))",
            definitions=WITHOUT_PADDING,
        ),
    ),
    pytorch(
        "tied gradient without the head's",
        Replace("GPT.forward", HEAD, "F.linear(_x, self.head.weight.detach())"),
    ),
    pytorch("no last norm", Replace("GPT.hidden", "self.norm(_x)", "_x + 0 * self.norm(_x)")),
    pytorch(
        "normalised behind the sum",
        Replace(
            "DecoderLayer.forward",
            "self.qkv(self.norm1(_x))",
            "self.qkv(_x + 0 * self.norm1(_x))",
        ),
    ),
    pytorch("decay on biases", common.DECAY_ON_BIASES_IN_PYTORCH),
    pytorch("no decay", constant("WEIGHT_DECAY", "0.0", "adamw")),
    pytorch("epsilon 1e-6", constant("EPSILON", "1e-6", "adamw"), **TIMED),
    pytorch("second moment by 0.95", constant("BETA2", "0.95", "adamw")),
    pytorch("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
    pytorch(
        "each tensor clipped alone",
        Replace(
            "adamw.clip_all",
            "torch.nn.utils.clip_grad_norm_(_parameters, _limit, foreach=True)",
            "[torch.nn.utils.clip_grad_norm_(each, _limit) for each in _parameters]",
        ),
    ),
    pytorch(
        "a sum over tokens",
        Replace("criterion", "F.cross_entropy(...)", "F.cross_entropy(..., reduction='sum')"),
    ),
    pytorch(
        "the last token not predicted",
        Replace(
            "loss",
            "criterion(run, _network(_tokens), _labels)",
            "criterion(run, _network(_tokens)[:, :-1], _labels[:, :-1])",
        ),
    ),
]
SPLIT = [
    pytorch("a clip by a rank's own part", norm_over("(PIPELINE,) + _more"), "tp2"),
    pytorch("a clip by a stage", norm_over("(TENSOR,) + _more"), "pp2acc2"),
    pytorch("a clip by a shard", norm_over("(TENSOR, PIPELINE)"), "dp2zero3acc2"),
    pytorch(
        "a clip that counts what all ranks have twice",
        Replace("Gradients.norm", "_name in self._divided or _place.tensor == 0", "True"),
        "tp2",
    ),
    pytorch(
        "a clip that counts both copies of the table",
        Replace(
            "Gradients.norm",
            "_mine and _place.pipeline == _stages[_name][0]",
            "_mine and _place.pipeline in _stages[_name]",
        ),
        "pp2acc2",
    ),
    pytorch(
        "gradients of norms not summed over ranks",
        Replace(
            "DecoderLayer.forward",
            "self.qkv(_x)",
            "own_product(self.qkv, _x)",
            definitions=OWN_PRODUCT,
        ),
        "tp2",
    ),
    pytorch(
        "a bias that each rank adds",
        Replace(
            "DecoderLayer.forward",
            "self.projection(_x)",
            "bias_of_each(self.projection, _x)",
            definitions=BIAS_OF_EACH,
        ),
        "tp2",
    ),
    pytorch("summed over micro-steps", common.SUMMED_MICRO_STEPS["pytorch"], "acc2"),
    pytorch(
        "summed over micro-batches",
        Replace("Pipeline", "_mean(_x, _y) / _run.accumulation", "_mean(_x, _y)"),
        "pp2acc2",
        **TIMED,  # a clip hides it from Adam
    ),
    pytorch(
        "summed over replicas",
        Replace("Averages.finish", "_flat /= self._count", "pass"),
        "dp2tp2",
        **TIMED,
    ),
    pytorch(
        "replicas do not exchange",
        Replace("Averages._send", "dist.all_reduce(_flat, ...)", "dist.all_reduce(_flat + 0, ...)"),
        "dp2tp2",
    ),
    pytorch(
        "averaged before the last micro-step",
        Replace("Averages._begin", "self._micro_steps * len(_x)", "len(_x)"),
        "dp2tp2acc2",
    ),
    pytorch(
        "summed over shards",
        Replace(
            "shard",
            "fully_shard(_layer, ...)",
            "fully_shard(_layer, ...).set_gradient_divide_factor(1.0)",
            times=2,
        ),
        "dp2zero3acc2",
    ),
    pytorch(
        "a loader by rank",
        Replace(
            "train", "open_batches(run, ...)", "open_batches(ByRank(run), ...)", definitions=BY_RANK
        ),
        "tp2",
    ),
    pytorch(
        "a stage whose layers add nothing",
        Replace(
            "GPT.hidden",
            RUN_LAYER,
            f"{RUN_LAYER} if self.first else _x + 0 * _layer(_x)",
        ),
        "pp2acc2",
    ),
    pytorch(
        "one part owned twice",
        Replace(
            "parts",
            "workloads.parts_of(run)",
            "workloads.parts_of(as_first(run))",
            definitions=AS_FIRST,
        ),
        "tp2",
    ),
    pytorch(
        "the tied gradient of one copy alone",
        Replace("Exchange.finish", TIED_SUM, "None"),
        "pp2acc2",
    ),
    pytorch(
        "the tied gradient averaged",
        Replace(
            "Exchange.finish",
            TIED_SUM,
            "dist.all_reduce(local(self._named[_name].grad.div_(2)), group=_tied)",
        ),
        "pp2acc2",
    ),
    pytorch(
        "a softmax over a rank's own words",
        Replace(
            "criterion",
            "F.cross_entropy(_scores.flatten(0, 1), parallel.labels_of(_scores, _labels))",
            "of_own_words(_scores, _labels)",
            definitions=OWN_SOFTMAX,
        ),
        "tp2",
    ),
    pytorch(
        "another rate on one rank",
        Replace(
            "adamw",
            "facts.learning_rate(_size)",
            "facts.learning_rate(_size) * (1 + run.rank)",
        ),
        "tp2",
    ),
    pytorch(
        "the first micro-batch again",
        Replace("Pipeline.gradients", "zip(*_batches)", "zip(*_batches[:1] * len(_batches))"),
        "pp2acc2",
    ),
]
