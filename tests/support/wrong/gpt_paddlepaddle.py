"""The smallest wrong settings of GPT in PaddlePaddle."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

paddlepaddle = partial(Mutation, "gpt", "paddlepaddle")

GPT_PADDLEPADDLE = [
    paddlepaddle(
        "GELU by the error function",
        Replace("DecoderLayer.forward", "F.gelu(_x, approximate=True)", "F.gelu(_x)"),
    ),
    paddlepaddle("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    paddlepaddle(
        "a mask one token late",
        Replace("causal_bias", "paddle.triu(_x, 1)", "paddle.triu(_x, 2)"),
    ),
    paddlepaddle(
        "tied gradient without the head's",
        Replace("GPT.head", "self.word_embedding.weight", "self.word_embedding.weight.detach()"),
    ),
    paddlepaddle("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
    paddlepaddle("decay on biases", Replace("adamw", "_p.ndim > 1", "_p.ndim > 0")),
    paddlepaddle(
        "micro-steps summed",
        Replace("train.backward", "_value / run.accumulation", "_value"),
        layout="acc2",
        **TIMED,
    ),
]
#: What passes.
RIGHT = [paddlepaddle("as it is", None, layout=layout, **TIMED) for layout in ("1", "dp2", "acc2")]
