"""The smallest wrong settings of GPT in OneFlow: of one device, and split by tensors."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation, common
from wrong.gpt_jax import BY_RANK

oneflow = partial(Mutation, "gpt", "oneflow")

#: A rank's own sum, which each takes for that of all.
OWN_SUM = """
def own_sum(tensor):
    value = tensor.to_local().square().sum()
    return value.to_global(tensor.placement, sbp=[flow.sbp.broadcast] * len(tensor.sbp))
"""


GPT_ONEFLOW = [
    oneflow(
        "GELU by the error function",
        Replace("DecoderLayer.forward", "F.gelu(_x, approximate='tanh')", "F.gelu(_x)"),
    ),
    oneflow("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    oneflow(
        "a mask one token late",
        Replace("GPT.__init__", "flow.tril(_x)", "flow.tril(_x, 1)"),
    ),
    oneflow(
        "tied gradient without the head's",
        Replace("GPT.head", "self.word_embedding.weight", "self.word_embedding.weight.detach()"),
    ),
    oneflow("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
    oneflow("decay on biases", common.DECAY_ON_BIASES_IN_PYTORCH),
    oneflow(
        "a clip by a rank's own part",
        Replace("squares", "_x.square().sum()", "own_sum(_x)", definitions=OWN_SUM),
        layout="tp2",
    ),
    oneflow(
        "query, key and value by head",
        Replace("Split.write", "reordered(as_array(_rows), _, _)", "as_array(_rows)"),
        layout="tp2",
    ),
    oneflow(
        "batches by rank",
        Replace(
            "train",
            "open_batches(run, _layout)",
            "open_batches(by_rank(run), _layout)",
            definitions=BY_RANK,
        ),
        layout="tp2",
    ),
    oneflow("micro-steps summed", common.SUMMED_MICRO_STEPS["oneflow"], layout="acc2", **TIMED),
]
#: What passes.
RIGHT = [
    oneflow("as it is", None, layout=layout, **TIMED)
    for layout in ("1", "dp2", "acc2", "tp2", "dp2tp2", "tp2acc2")
]
