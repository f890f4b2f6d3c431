"""The smallest wrong settings of InsightFace in TensorFlow 2: of its margin, its heads, its SGD."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

tensorflow = partial(Mutation, "insightface", "tensorflow", variant="y1")
model = partial(Mutation, "insightface", "tensorflow", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "tensorflow", variant="y1-headpartial")

INSIGHTFACE_TENSORFLOW = [
    model(
        "half of the features' gradient",
        Replace("Replicas.features", "self.sum(_gradient)", "self.sum(_gradient) / self.size"),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace(
            "Head.__call__",
            "normalized(_centres)",
            "normalized(\n"
            "    _centres / self.replicas.size\n"
            "    + tf.stop_gradient(_centres - _centres / self.replicas.size)\n"
            ")",
            given=("split_head.first_row(_centres)",),
        ),
        tier="float64-gradient",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "Replicas._cross_entropy",
            "tf.reduce_sum(_totals * tf.exp(_tops - _top), 0)",
            "_total * tf.exp(_largest - _top)",
            given=("tf.stack([_largest, _total, _target])",),
        ),
        tier="float64-loss",
    ),
    sampled(
        "all centres taken",
        Replace("Head.__call__", "sample(self.run, _count, ...)", "tf.range(_count)"),
        tier="float64-loss",
    ),
    sampled(
        "momentum and decay of centres that are not sampled",
        Replace("SGD.apply", "isinstance(_gradient, tf.IndexedSlices)", "False"),
        tier="float64-gradient",
    ),
    tensorflow(
        "a margin on the next class",
        Replace(
            "with_margin",
            "split_head.columns_of(_places, _cosines.dtype)",
            "split_head.columns_of((_places + 1) % _cosines.shape[1], _cosines.dtype)",
        ),
        tier="float64-loss",
    ),
]
#: In mixed precision, what has to be in float32.
HALF = [
    tensorflow(
        "a softmax in bfloat16",
        Replace(
            "Head.__call__",
            "facts.SCALE * with_margin(...)",
            "tf.cast(\n"
            "    tf.cast(\n"
            "        facts.SCALE * with_margin(...), framework.compute_dtype(self.run)\n"
            "    ),\n"
            "    _x.dtype,\n"
            ")",
            given=("tf.matmul(normalized(_x), _, transpose_b=True)",),
        ),
        precision="amp",
        tier="timed-loss",
        **TIMED,
    ),
]
#: As it is, with every head and layout.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        tensorflow("", None),
        tensorflow("", None, layout="dp2"),
        sampled("", None),
        sampled("", None, layout="dp2"),
        model("", None, variant="y1-cosface-headmodel"),
        model("", None, other_compiler="xla"),
    )
]
