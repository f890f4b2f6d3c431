"""The smallest wrong settings of InsightFace in MXNet: of its margin and its split heads."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

mxnet = partial(Mutation, "insightface", "mxnet", variant="y1")
model = partial(Mutation, "insightface", "mxnet", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "mxnet", variant="y1-headpartial")

#: The cheapest first.
INSIGHTFACE_MXNET = [
    model(
        "features' gradient of the own rank alone",
        Replace(
            "Split.__call__",
            "self.summed(_own)[_first:_first + self.run.batch_size]",
            "_own[_first:_first + self.run.batch_size]",
        ),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace("Trainer.step", "self.classes.grad()", "self.classes.grad() / 2"),
        tier="float64-gradient",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "Split._cross_entropy",
            "_found = self.gathered_shares(_found) if self.is_apart else _found.expand_dims(0)",
            "_found = _found.expand_dims(0)",
        ),
        tier="float64-loss",
    ),
    sampled(
        "all centres taken",
        Replace("Split._chosen", "_own.nonzero()[0]", "np.arange(len(_own))"),
        tier="float64-loss",
    ),
    sampled(
        "no decay of sampled centres",
        Replace(
            "Trainer._update",
            "updated(_own, _weight, _gradient, _velocity, _own.learning_rate, _own.wd)",
            "updated(_own, _weight, _gradient, _velocity, _own.learning_rate, 0.0)",
        ),
        tier="float64-gradient",
    ),
    sampled(
        "a sample without the batch's identities",
        Replace("sampled", "2.0", "0.0", times=2),
        tier="sampler",
        **TIMED,
    ),
    mxnet(
        "a margin on the next class",
        Replace(
            "Head.hybrid_forward",
            "_F.one_hot(_labels, self.count, dtype=self.dtype)",
            "_F.one_hot((_labels + 1) % self.count, self.count, dtype=self.dtype)",
        ),
        tier="float64-loss",
    ),
]
#: As it is, with every head.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        sampled("", None, layout="dp2"),
        sampled("", None),
        mxnet("", None, layout="dp2"),
        mxnet("", None),
        mxnet("", None, variant="y1-cosface"),
        mxnet("", None, variant="r50"),
    )
]
