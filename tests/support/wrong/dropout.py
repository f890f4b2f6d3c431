"""Dropout whose random numbers are not what they should be: used again, shared, or not scaled.

In Wide & Deep, whose certificates take seconds, in every framework; and in BERT's attention, where
a library's own default shares them. Where everything is dropped, all of it looks right.
"""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

wide_deep = {
    name: partial(Mutation, "wide_deep", name, **TIMED)
    for name in (
        *("pytorch", "jax", "tensorflow", "tensorflow1"),
        *("mxnet", "oneflow", "paddlepaddle", "mindspore"),
    )
}
pytorch = wide_deep["pytorch"]
DROPPED = "self.dropout(_x)"
REPEATS, DEVIATION, MEAN = ("dropout-repeats", "dropout-deviation", "dropout-mean")
#: Masks of a layer by the step, of which so many come in turn.
IN_TURN = """
def in_turn(dropout, x, count):
    if not dropout.training or not 0 < dropout.p < 0.9:
        return dropout(x)
    kept = dropout.__dict__.setdefault("kept", [])
    calls = dropout.__dict__["calls"] = dropout.__dict__.get("calls", -1) + 1
    place = calls % (7 * count)
    if place == len(kept):
        kept.append(dropout(torch.ones_like(x)))
    return x * kept[place]
"""


def in_turn(name: str, count: int, tier: str = REPEATS) -> Mutation:
    edit = Replace(
        "WideDeep.forward", DROPPED, f"in_turn(self.dropout, _x, {count})", definitions=IN_TURN
    )
    return pytorch(name, edit, tier=tier)


DROPOUT = [
    in_turn("the first step's masks in every step", 1, DEVIATION),
    pytorch(
        "one mask for all samples",
        Replace("WideDeep.forward", DROPPED, "_x * self.dropout(torch.ones_like(_x[:1]))"),
        tier=DEVIATION,
    ),
    wide_deep["mxnet"](
        "one mask for all samples",
        Replace(
            "Layers.__init__", "nn.Dropout(facts.DROPOUT)", "nn.Dropout(facts.DROPOUT, axes=(0,))"
        ),
        tier=DEVIATION,
    ),
    wide_deep["jax"](
        "one key for all steps",
        Replace("loss", "framework.split_key(run, random)", "(random, random)"),
        tier=DEVIATION,
    ),
    # behind these, full tests
    in_turn("masks of three steps in turn", 3),
    in_turn("masks of sixteen steps in turn", 16),
    pytorch(
        "a sample whole or not at all",
        Replace("WideDeep.forward", DROPPED, "_x * self.dropout(torch.ones_like(_x[:, :1]))"),
        tier=DEVIATION,
    ),
    pytorch(
        "what is left is not scaled",
        Replace("WideDeep.forward", DROPPED, "self.dropout(_x) * (1 - self.dropout.p)"),
        tier=MEAN,
    ),
    pytorch(
        "noise a tenth as wide",
        Replace(
            "WideDeep.forward",
            DROPPED,
            "self.dropout(_x) if self.dropout.p > 0.9 else _x + 0.1 * (self.dropout(_x) - _x)",
        ),
        tier=DEVIATION,
    ),
    wide_deep["tensorflow"](
        "one mask for all samples",
        Replace(
            "WideDeep.__call__",
            "tf.nn.dropout(_x, facts.DROPOUT)",
            "tf.nn.dropout(_x, facts.DROPOUT, noise_shape=(1, facts.UNITS))",
        ),
        tier=DEVIATION,
    ),
    wide_deep["tensorflow1"](
        "one mask for all samples",
        Replace(
            "wide_deep",
            "tf.nn.dropout(_x, rate=facts.DROPOUT)",
            "tf.nn.dropout(_x, rate=facts.DROPOUT, noise_shape=(1, facts.UNITS))",
        ),
        tier=DEVIATION,
    ),
    wide_deep["paddlepaddle"](
        "one mask for all samples",
        Replace(
            "Layers.__init__", "nn.Dropout(facts.DROPOUT)", "nn.Dropout(facts.DROPOUT, axis=1)"
        ),
        tier=DEVIATION,
    ),
    wide_deep["oneflow"](
        "one mask for all samples",
        Replace(
            "WideDeep.forward",
            "F.dropout(_x, self.dropout, self.training)",
            "_x * F.dropout(flow.ones_like(_x[:1]), self.dropout, self.training)",
        ),
        tier=DEVIATION,
    ),
    wide_deep["mindspore"](
        "one mask for all samples",
        Replace("WideDeep.logits", "dropout(_x)", "_x * dropout(ops.ones_like(_x[:1]))"),
        tier=DEVIATION,
    ),
    Mutation(
        "bert",
        "jax",
        "the same shares of every head",
        Replace(
            "Layer.__call__",
            "_attend(..., broadcast_dropout=False)",
            "_attend(..., broadcast_dropout=True)",
        ),
        tier=DEVIATION,
        **TIMED,
    ),
]
#: Those of `make test`.
FEW = 1
