"""The smallest wrong settings of GPT in MXNet."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

mxnet = partial(Mutation, "gpt", "mxnet")

GPT_MXNET = [
    mxnet(
        "GELU by the error function",
        Replace("DecoderLayer.hybrid_forward", "gelu_by_tanh(_F, _x)", "gelu(_F, _x, self.run)"),
    ),
    mxnet("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "LayerNorm")),
    mxnet("decay on vectors", Replace("initialized", "_p.wd_mult = 0.0", "_p.wd_mult = 1.0")),
    mxnet("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
]
#: What passes; the first is in `make test`.
RIGHT = [mxnet("as it is", None, layout=layout, **TIMED) for layout in ("1", "dp2", "acc2")]
