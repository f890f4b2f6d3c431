"""The smallest wrong settings of InsightFace's heads in OneFlow: of those that ranks share out."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

oneflow = partial(Mutation, "insightface", "oneflow", variant="y1")
model = partial(Mutation, "insightface", "oneflow", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "oneflow", variant="y1-headpartial")

#: The cheapest first: that is made in every run of the tests.
SPLIT = [
    model(
        "a margin on the next class",
        Replace(
            "Head.forward",
            "(_moved - _own) * _is_own",
            "(_moved - _own) * (\n"
            "    ((_whole + 1) % self.classes.count).unsqueeze(1) == _numbers.unsqueeze(0)\n"
            ").to(_own.dtype)",
            given=("_whole.unsqueeze(1) == _numbers.unsqueeze(0)",),
        ),
        tier="float64-loss",
    ),
    model(
        "half of the features' gradient",
        Replace(
            "gathered",
            "_features.to_global(sbp=_everywhere, grad_sbp=_rows)",
            "(0.5 * _features + 0.5 * _features.detach()).to_global(\n"
            "    sbp=_everywhere, grad_sbp=_rows\n"
            ")",
        ),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace(
            "SGD.step",
            "self.classes.weight.grad = _rows.grad / self.losses",
            "self.classes.weight.grad = _rows.grad / self.losses**2",
        ),
        tier="float64-gradient",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "cross_entropy",
            "summed_over_ranks((_scores - _top).exp().sum(1, keepdim=True))",
            "(_scores - _top).exp().to_local().sum(1, keepdim=True)"
            ".to_global(_scores.placement, flow.sbp.broadcast)",
        ),
        tier="float64-loss",
    ),
    sampled(
        "all centres taken",
        Replace(
            "chosen_rows",
            "_given[_first:_last].nonzero()[:, 0]",
            "flow.arange(_last - _first)",
        ),
        tier="float64-loss",
    ),
]
#: As it is, with every head and layout.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        sampled("", None, layout="dp2"),
        sampled("", None),
        oneflow("", None, layout="dp2"),
        oneflow("", None),
        model("", None, other_compiler="graph"),
    )
]
