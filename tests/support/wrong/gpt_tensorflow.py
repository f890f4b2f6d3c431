"""The smallest wrong settings of GPT in TensorFlow 2."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

tensorflow = partial(Mutation, "gpt", "tensorflow")

GPT_TENSORFLOW = [
    tensorflow(
        "GELU by the error function",
        Replace("DecoderLayer.__call__", "gelu_by_tanh(_x)", "gelu(_x)"),
    ),
    tensorflow("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "LayerNorm")),
    tensorflow(
        "a tied table without the head's gradient",
        Replace(
            "GPT.__call__",
            "tf.matmul(_x, _table, transpose_b=True)",
            "tf.matmul(_x, tf.stop_gradient(_table), transpose_b=True)",
        ),
    ),
    tensorflow("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
]
#: What passes; the first is in `make test`.
RIGHT = [tensorflow("as it is", None, layout=layout, **TIMED) for layout in ("1", "dp2", "acc2")]
