"""InsightFace in TensorFlow 1 as it is, which passes."""

from functools import partial

from wrong import TIMED, Mutation

tensorflow1 = partial(Mutation, "insightface", "tensorflow1", "as it is", None, **TIMED)

RIGHT = [
    tensorflow1(variant="y1", layout="dp2"),
    tensorflow1(variant="y1"),
    tensorflow1(variant="y1-cosface"),
    tensorflow1(variant="r50"),
]
