"""The smallest wrong settings of InsightFace in MindSpore: of its margin, and of its split heads.

It has no float64, so float32 shows them.
"""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

mindspore = partial(Mutation, "insightface", "mindspore", variant="y1", **TIMED)
model = partial(Mutation, "insightface", "mindspore", variant="y1-headmodel", layout="dp2", **TIMED)
sampled = partial(Mutation, "insightface", "mindspore", variant="y1-headpartial", **TIMED)

INSIGHTFACE_MINDSPORE = [
    model(
        "half of the features' gradient",
        Replace("Gathered.bprop", "_own * self.ranks", "_own"),
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "Head.__init__",
            "split_head.MeanCrossEntropy(run, self.is_split)",
            "split_head.MeanCrossEntropy(run, False)",
        ),
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace("Losses.bprop", "_gradients[0] / _x", "_gradients[0] / (_x * self.ranks)"),
    ),
    mindspore(
        "a margin on the next class",
        Replace(
            "Margin.construct",
            "split_head.own_column(_places)",
            "split_head.own_column((_places + 1) % _cosines.shape[1])",
            given=("ops.gather_elements(_cosines, 1, _)",),
        ),
    ),
    mindspore(
        "no decay of scales and shifts of norms",
        Replace(
            "nn_momentum",
            "nn.Momentum([_group], ...)",
            "nn.Momentum(_group['params'], ..., weight_decay=_group['weight_decay'])",
        ),
    ),
    sampled(
        "no decay of sampled centres",
        Replace(
            "SGD.construct",
            "self.momentum * _before + _rows + self.decay * _values",
            "self.momentum * _before + _rows",
        ),
    ),
    sampled(
        "the next rank's sample",
        Replace(
            "Head.numbers",
            "_given[self.first:self.first + self.count]",
            "_given[:self.count]",
        ),
        layout="dp2",
    ),
    sampled(
        "a sample that cuts off identities",
        Replace("Sample.first", "min(self.count, max(self.rows, _named))", "self.rows"),
        tier="sampler",
    ),
    sampled(
        "a sample that may lack an identity of the batch",
        Replace(
            "Sample.construct",
            "ops.full_like(_places, 2, dtype=ms.float32)",
            "ops.full_like(_places, 0, dtype=ms.float32)",
        ),
        tier="sampler",
    ),
]
#: As it is, with every head and layout, and each loss.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="")
    for each in (
        model("", None),
        mindspore("", None),
        mindspore("", None, layout="dp2"),
        sampled("", None),
        sampled("", None, layout="dp2"),
        model("", None)._replace(variant="y1-cosface-headmodel"),
    )
]
