"""The smallest wrong settings of GPT in MindSpore: of one device, and split by tensors.

It has no float64, so float32 shows them.
"""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation
from wrong.gpt import AS_FIRST
from wrong.gpt_jax import BY_RANK

mindspore = partial(Mutation, "gpt", "mindspore", **TIMED)

GPT_MINDSPORE = [
    mindspore(
        "GELU by the error function",
        Replace("DecoderLayer.construct", "ops.gelu(_x, approximate='tanh')", "gelu(_x)"),
    ),
    mindspore("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    mindspore(
        "a mask one token late",
        Replace("causal_bias", "np.triu(_x, 1)", "np.triu(_x, 2)"),
    ),
    mindspore(
        "tied gradient without the head's",
        Replace("GPT.head", "self.word_embedding", "ops.stop_gradient(self.word_embedding)"),
    ),
    mindspore("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
    mindspore("decay on biases", Replace("AdamW.__init__", "_each.ndim > 1", "_each.ndim > 0")),
    mindspore(
        "micro-steps summed",
        Replace("accumulated", "1.0 / run.accumulation", "1.0"),
        layout="acc2",
    ),
]
#: The cheapest comes first.
SPLIT = [
    mindspore(
        "a clip by a rank's own part",
        Replace("NormOverRanks.construct", "self.sum(_x)", "_x"),
        layout="tp2",
    ),
    mindspore(
        "a clip that counts what all ranks have twice",
        Replace("NormOverRanks.__init__", "1.0 if _each else 1.0 / _tensors.size", "1.0"),
        layout="tp2",
    ),
    mindspore(
        "gradients of norms not summed over ranks",
        Replace(
            "DecoderLayer.construct",
            "self.enter(self.norm1(_x))",
            "self.norm1(self.enter(_x))",
        ),
        layout="tp2",
    ),
    mindspore(
        "a tied part of a table without the head's gradient",
        Replace("GPT.head", "self.word_embedding", "ops.stop_gradient(self.word_embedding)"),
        layout="tp2",
    ),
    mindspore(
        "a bias that each rank adds",
        Replace("RowDense.construct", "self.leave(_x) + self.bias", "self.leave(_x + self.bias)"),
        layout="tp2",
    ),
    mindspore(
        "a softmax over a rank's own words",
        Replace("MeanCrossEntropy.construct", "_pair = self.leave(_pair)", "pass"),
        layout="tp2",
    ),
    mindspore(
        "query, key and value by head",
        Replace(
            "Layer.attend",
            "self.qkv(_x).reshape((-1, _tokens, 3, self.heads, self.head_width))",
            "ops.transpose("
            "self.qkv(_x).reshape((-1, _tokens, self.heads, 3, self.head_width)), (0, 1, 3, 2, 4))",
        ),
        layout="tp2",
    ),
    mindspore(
        "one part owned twice",
        Replace(
            "parts",
            "workloads.parts_of(run)",
            "workloads.parts_of(as_first(run))",
            definitions=AS_FIRST,
        ),
        layout="tp2",
    ),
    mindspore(
        "batches by rank",
        Replace(
            "train",
            "open_batches(run, _layout)",
            "open_batches(by_rank(run), _layout)",
            definitions=BY_RANK,
        ),
        layout="tp2",
    ),
    mindspore(
        "micro-steps summed",
        Replace("accumulated", "1.0 / run.accumulation", "1.0"),
        layout="tp2acc2",
    ),
    mindspore(
        "summed over replicas",
        Replace(
            "gradient_reducer",
            "nn.DistributedGradReducer(_parameters, mean=True, **_settings)",
            "nn.DistributedGradReducer(_parameters, mean=False, **_settings)",
        ),
        layout="dp2tp2",
    ),
    mindspore(
        "replicas do not exchange",
        Replace(
            "gradient_reducer",
            "nn.DistributedGradReducer(_parameters, mean=True, **_settings)",
            "None",
        ),
        layout="dp2tp2",
    ),
]
#: What passes.
RIGHT = [
    mindspore("as it is", None, layout=layout)
    for layout in ("1", "dp2", "acc2", "tp2", "dp2tp2", "tp2acc2")
]
