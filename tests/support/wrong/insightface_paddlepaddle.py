"""The smallest wrong settings of InsightFace in PaddlePaddle: of its margin, its split heads, and
of its detours round oneDNN."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

paddlepaddle = partial(Mutation, "insightface", "paddlepaddle", variant="y1")
model = partial(Mutation, "insightface", "paddlepaddle", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "paddlepaddle", variant="y1-headpartial")

#: The cheapest first.
INSIGHTFACE_PADDLEPADDLE = [
    model(
        "half of the features' gradient",
        Replace("Gather.backward", "_own * _run.ranks", "_own"),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace(
            "Head.forward",
            "paddle.matmul(_x, F.normalize(_centres), transpose_y=True)",
            "paddle.matmul(\n"
            "    _x,\n"
            "    F.normalize(\n"
            "        _centres / run.ranks + (_centres - _centres / run.ranks).detach()\n"
            "    ),\n"
            "    transpose_y=True,\n"
            ")",
        ),
        tier="float64-gradient",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "CrossEntropy.forward",
            "(_totals * (_tops - _top).exp()).sum(0)",
            "(_totals * (_tops - _top).exp())[run.rank]",
        ),
        tier="float64-loss",
    ),
    sampled(
        "all centres taken",
        Replace("Head.forward", "paddle.nonzero(_own).flatten()", "paddle.arange(len(_own))"),
        tier="float64-loss",
    ),
    sampled(
        "no decay of sampled centres",
        Replace(
            "SGD.step",
            "_moved.add_(_rows.grad).add_(_values.scale(self.decay))",
            "_moved.add_(_rows.grad)",
        ),
        tier="float64-gradient",
    ),
    paddlepaddle(
        "a margin on the next class",
        Replace(
            "with_margin",
            "_places.clip(min=0).unsqueeze(1)",
            "((_places + 1) % _cosines.shape[1]).unsqueeze(1)",
            given=("paddle.take_along_axis(_cosines, _, 1)",),
        ),
        tier="float64-loss",
    ),
    paddlepaddle(
        "oneDNN's PReLU without the copy behind it",
        Replace("PReLU.forward", "paddle.assign(super().forward(_x))", "super().forward(_x)"),
        tier="timed-gradient",
        **TIMED,
    ),
]
#: As it is, with every head and layout.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        sampled("", None, layout="dp2"),
        sampled("", None),
        paddlepaddle("", None, layout="dp2"),
        paddlepaddle("", None),
        sampled("", None, variant="y1-cosface-headpartial", layout="dp2"),
        paddlepaddle("", None, variant="r50", other_compiler="none"),
    )
]
