"""The smallest wrong settings of GPT in TensorFlow 1."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

tensorflow1 = partial(Mutation, "gpt", "tensorflow1")

GPT_TENSORFLOW1 = [
    tensorflow1(
        "GELU by the error function",
        Replace("decoder_layer", "gelu_by_tanh(_x)", "gelu(_x)"),
    ),
    tensorflow1(
        "a mask one token late",
        Replace("causal_bias", "tf.linalg.band_part(_x, -1, 0)", "tf.linalg.band_part(_x, -1, 1)"),
    ),
    tensorflow1(
        "decay on vectors",
        Replace("AdamW._apply_dense", "len(_v.shape) > 1", "len(_v.shape) > 0"),
    ),
]
#: What passes; the first is in `make test`.
RIGHT = [tensorflow1("as it is", None, layout=layout, **TIMED) for layout in ("1", "dp2", "acc2")]
