"""The smallest wrong settings of GPT in MindSpore; it has no float64, so float32 shows them."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

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
#: What passes.
RIGHT = [mindspore("as it is", None, layout=layout) for layout in ("1", "dp2", "acc2")]
