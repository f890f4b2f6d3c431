"""InsightFace in MXNet as it is, which passes."""

from functools import partial

from wrong import TIMED, Mutation

mxnet = partial(Mutation, "insightface", "mxnet", "as it is", None, **TIMED)

RIGHT = [
    mxnet(variant="y1", layout="dp2"),
    mxnet(variant="y1"),
    mxnet(variant="y1-cosface"),
    mxnet(variant="r50"),
]
