"""The smallest wrong settings of GPT in DeepSpeed; it has no float64, so float32 shows them."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation, common

deepspeed = partial(Mutation, "gpt", "deepspeed", **TIMED)


def engine(function: str, source: str) -> Replace:
    """DeepSpeed's engine as a function of ours leaves it, whose source this is."""
    return Replace("initialize", "return _one", f"return {function}(_one)", definitions=source)


#: A norm of which no rank's share is summed.
BY_SHARD = """
def by_shard(engine):
    norm = engine.optimizer.get_grad_norm_direct

    def of_own(*arguments, **more):
        exchange, deepspeed.comm.all_reduce = deepspeed.comm.all_reduce, lambda *_, **__: None
        try:
            return norm(*arguments, **more)
        finally:
            deepspeed.comm.all_reduce = exchange

    engine.optimizer.get_grad_norm_direct = of_own
    return engine
"""
#: Moments whose bias is long gone.
UNCORRECTED = """
def uncorrected(engine):
    def late(optimizer, *_):
        for state in optimizer.state.values():
            state["step"].fill_(1000000)

    engine.basic_optimizer.register_step_pre_hook(late)
    return engine
"""
ALONE = "def alone(engine):\n    engine.enable_backward_allreduce = False\n    return engine\n"
SUMMED = "def summed(engine):\n    engine.gradient_average = False\n    return engine\n"
#: An update's first batch in all of its micro-steps.
FIRST_AGAIN = """
def first_again(run, following, known={"count": 0}):
    batch = following()
    if known["count"] % run.accumulation == 0:
        known["batch"] = batch
    known["count"] += 1
    return known["batch"]
"""
#: A run of which each rank takes itself for the first replica.
AS_FIRST = (
    "def as_first(run):\n    import dataclasses\n    return dataclasses.replace(run, rank=0)\n"
)

#: The first is in `make test`.
GPT_DEEPSPEED = [
    deepspeed("a clip by a shard", engine("by_shard", BY_SHARD), layout="dp2zero3"),
    deepspeed("a clip by a shard", engine("by_shard", BY_SHARD), layout="dp2zero1"),
    deepspeed("no clip", constant("CLIP_NORM", "0.0", "config"), layout="dp2"),
    deepspeed(
        "gradients summed over micro-steps",
        Replace(
            "train.step",
            "_engine.backward(_value)",
            "_engine.backward(_value * run.accumulation) / run.accumulation",
        ),
        layout="acc2",
    ),
    deepspeed("gradients summed over replicas", engine("summed", SUMMED), layout="dp2"),
    deepspeed("replicas do not exchange", engine("alone", ALONE), layout="dp2"),
    deepspeed(
        "another rate on one rank",
        Replace(
            "fused_adamw",
            "facts.learning_rate(_size)",
            "facts.learning_rate(_size) * (1 + run.rank)",
        ),
        layout="dp2zero3",
    ),
    deepspeed(
        "the first micro-batch again",
        Replace(
            "train.step",
            "_loss(run, _engine, *_following())",
            "_loss(run, _engine, *first_again(run, _following))",
            definitions=FIRST_AGAIN,
        ),
        layout="acc2",
    ),
    deepspeed(
        "the same batches on all replicas",
        Replace("train", "open_batches(run)", "open_batches(as_first(run))", definitions=AS_FIRST),
        layout="dp2zero2",
    ),
    deepspeed(
        "one part owned twice",
        Replace("partition", "torch.distributed.get_rank()", "0"),
        layout="dp2zero3",
    ),
    deepspeed(
        "tied gradient without the head's",
        Replace("GPT.forward", "self.head(_x)", "F.linear(_x, self.head.weight.detach())"),
        layout="dp2zero1",
    ),
    deepspeed("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    deepspeed(
        "GELU by the error function",
        Replace("DecoderLayer.forward", "F.gelu(_x, approximate='tanh')", "F.gelu(_x)"),
    ),
    deepspeed("decay on biases", common.DECAY_ON_BIASES_IN_PYTORCH),
    deepspeed("moments whose bias is not corrected", engine("uncorrected", UNCORRECTED)),
    deepspeed("epsilon 1e-6", constant("EPSILON", "1e-6", "fused_adamw")),
    deepspeed(
        "moments one step late, as DeepSpeed starts them",
        Replace("initialize", "_state['step'].zero_()", "None"),
        precision="amp",
    ),
    deepspeed(
        "a loss in bfloat16",
        Replace("loss", "_network(_tokens).float()", "_network(_tokens)"),
        precision="amp",
    ),
]
#: What passes; the first is in `make test`.
RIGHT = [
    *(
        deepspeed("as it is", None, layout=layout)
        for layout in ("dp2zero3", "1", "dp2", "acc2", "ckpt1", "dp2zero1", "dp2zero2")
        + ("dp2zero1acc2", "dp2zero2acc2", "dp2zero3acc2", "dp2zero3ckpt1")
    ),
    *(
        deepspeed("in mixed precision", None, layout=layout, precision="amp")
        for layout in ("1", "dp2", "dp2zero1", "dp2zero2", "dp2zero3")
    ),
]
