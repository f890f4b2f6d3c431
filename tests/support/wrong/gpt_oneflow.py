"""The smallest wrong settings of GPT in OneFlow: of one device, and split by tensors."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation, common
from wrong.gpt_deepspeed import FIRST_AGAIN
from wrong.gpt_jax import BY_RANK

oneflow = partial(Mutation, "gpt", "oneflow")

#: A rank's own sum, which each takes for that of all.
OWN_SUM = """
def own_sum(tensor):
    value = tensor.to_local().square().sum()
    return value.to_global(tensor.placement, sbp=[flow.sbp.broadcast] * len(tensor.sbp))
"""

#: A gradient of which each rank takes its own part for the sum.
OWN = """
def own_gradient(x):
    class Own(flow.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x

        @staticmethod
        def backward(context, gradient):
            whole = [gradient.sbp[0], flow.sbp.broadcast]
            return gradient.to_local().to_global(gradient.placement, sbp=whole)

    return Own.apply(x)
"""


GPT_ONEFLOW = [
    oneflow(
        "GELU by the error function",
        Replace("DecoderLayer.forward", "F.gelu(_x, approximate='tanh')", "F.gelu(_x)"),
    ),
    oneflow("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    oneflow(
        "a mask one token late",
        Replace("Mask.__init__", "flow.tril(_x)", "flow.tril(_x, 1)"),
    ),
    oneflow(
        "tied gradient without the head's",
        Replace("GPT.head", "_table.weight", "_table.weight.detach()"),
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
#: Of a model that is split.
SPLIT = [
    oneflow(
        "the tied gradient of one copy alone",
        Replace("sum_gradients", "_one.grad + _other.grad.to_global(...)", "_one.grad"),
        layout="pp2acc2",
    ),
    oneflow(
        "a clip by a stage",
        Replace(
            "clip_over_stages.clip",
            "flow.stack(_sums).sum().sqrt()",
            "flow.stack(_sums[:1]).sum().sqrt()",
        ),
        layout="pp2acc2",
    ),
    oneflow(
        "a clip that counts both copies of the table",
        Replace("clip_over_stages", "id(_each) not in _copies", "True"),
        layout="pp2acc2",
    ),
    oneflow(
        "gradients of norms not summed over ranks",
        Replace("enter", "_x.to_global(grad_sbp=rows(run))", "own_gradient(_x)", definitions=OWN),
        layout="tp2",
    ),
    oneflow(
        "a bias that each rank adds",
        Replace(
            "DecoderLayer.forward",
            "self.leave(self.ffn2(_x))",
            "self.leave(self.ffn2(_x)) + self.ffn2.bias",
        ),
        layout="tp2",
    ),
    oneflow(
        "summed over micro-batches",
        common.SUMMED_MICRO_STEPS["oneflow"],
        layout="pp2acc2",
        **TIMED,  # a clip hides it from Adam
    ),
    oneflow(
        "averaged twice",
        Replace("eager.forward", "_value / run.accumulation", "_value / run.accumulation**2"),
        layout="pp2acc2",
        **TIMED,
    ),
    oneflow(
        "summed over replicas",
        Replace(
            "sum_gradients",
            "_one.grad.to_global(sbp=_one.sbp)",
            "_one.grad.to_global(sbp=_one.sbp) * 2",
        ),
        layout="dp2tp2",
        **TIMED,
    ),
    oneflow(
        "a stage whose layers add nothing",
        Replace(
            "GPT.hidden",
            "self.layers[_number](_x, _mask.seen)",
            "self.layers[_number](_x, _mask.seen) * int(_stage == 0) + _x * int(_stage > 0)",
            given=("parallel.at_stage(self.run, _stage, _x)",),
        ),
        layout="pp2acc2",
    ),
    oneflow(
        "the first micro-batch again",
        Replace(
            "eager.forward",
            "_loss(run, _network, *_following())",
            "_loss(run, _network, *first_again(run, _following))",
            definitions=FIRST_AGAIN,
        ),
        layout="pp2acc2",
    ),
]
#: What passes.
RIGHT = [
    oneflow("as it is", None, layout=layout, **TIMED)
    for layout in ("1", "dp2", "acc2", "tp2", "dp2tp2", "tp2acc2")
    + ("tp2pp2acc2", "pp2acc2", "dp2pp2acc2")
]
