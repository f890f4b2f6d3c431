"""The smallest wrong settings of ELECTRA on SQuAD: of training, inference and time to quality.

Each is one that somebody could get wrong, or that public code has.
"""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation, as_it_is, common

pytorch = partial(Mutation, "electra_squad", "pytorch")
jax = partial(Mutation, "electra_squad", "jax")
mxnet = partial(Mutation, "electra_squad", "mxnet")
oneflow = partial(Mutation, "electra_squad", "oneflow")
paddlepaddle = partial(Mutation, "electra_squad", "paddlepaddle")
tensorflow = partial(Mutation, "electra_squad", "tensorflow")
tensorflow1 = partial(Mutation, "electra_squad", "tensorflow1")
#: Without float64: it has none for this model.
mindspore = partial(Mutation, "electra_squad", "mindspore", **TIMED)

SHARE = "facts.rate_share(_name)"
SAME_RATE = Replace("optimizer", SHARE, "1.0")
DECAY_ON_BIASES = Replace("optimizer", "_decay * (_p.ndim > 1)", "_decay")
ENDS_IN_THE_QUESTION = constant("BLOCKED", "0.0", "Reader.ends")
NO_CLIP = constant("CLIP_NORM", "None", "optimizer")
#: Whether there is an answer, beside where.
AS_MUCH = constant("ANSWERABLE_WEIGHT", "1.0")
TWO = "F.cross_entropy(_starts, _first) + F.cross_entropy(_ends, _last)"
PYTORCH = [
    pytorch("the same rate in all layers", SAME_RATE),
    pytorch(
        "rates that fall upwards",
        Replace("optimizer", SHARE, f"facts.LAYER_DECAY ** (facts.LAYERS + 2) / {SHARE}"),
    ),
    pytorch(
        "the end ignores the start",
        Replace(
            "Reader.ends",
            "_end + self.end_start(_x)[:, :, None]",
            "_end + 0 * self.end_start(_x)[:, :, None]",
        ),
    ),
    pytorch(
        "the end follows the likeliest start",
        Replace(
            "Reader.forward",
            "self.ends(_x, _[:, None], _allowed)",
            "self.ends(_x, _starts.argmax(-1)[:, None], _allowed)",
            given=("_starts = self.starts(_x, _allowed)",),
        ),
    ),
    pytorch(
        "losses summed over windows",
        Replace("Reader.forward", TWO, TWO.replace(")", ", reduction='sum')")),
    ),
    pytorch("start and end weigh twice", Replace("Reader.forward", f"({TWO}) / 2", TWO)),
    pytorch(
        "no segments",
        Replace("Reader.encode", "self.embed(_t, _s)", "self.embed(_t, 0 * _s)"),
    ),
    pytorch(
        "padding is attended to",
        Replace(
            "Reader.encode",
            "attention_bias(_mask, _dtype)",
            "attention_bias(torch.ones_like(_mask), _dtype)",
        ),
    ),
    pytorch("a start may stand in the question", constant("BLOCKED", "0.0", "Reader.starts")),
    pytorch("an end may stand in the question", ENDS_IN_THE_QUESTION),
    pytorch("whether there is an answer weighs as much as where", AS_MUCH),
    pytorch("whether there is an answer is not trained", constant("ANSWERABLE_WEIGHT", "0.0")),
    pytorch("GELU in the end's head", Replace("Reader.ends", "torch.tanh(_x)", "F.gelu(_x)")),
    pytorch("decay on biases", DECAY_ON_BIASES),
    pytorch("micro-steps summed", common.SUMMED_MICRO_STEPS["pytorch"], layout="acc2"),
    pytorch("no clip", Replace("optimizer", "_adam.register_step_pre_hook(_)", "pass"), **TIMED),
]
TENSORFLOW1 = [
    tensorflow1("the same rate in all layers", SAME_RATE),
    tensorflow1(
        "a decay at the whole rate",
        Replace("AdamW._prepare", "_rate * self.decay", "self.rate * self.decay"),
    ),
    tensorflow1(
        "the end follows the likeliest start",
        Replace(
            "loss",
            "end_scores(_x, _[:, None], _allowed)",
            "end_scores(_x, tf.argmax(_starts, -1)[:, None], _allowed)",
            given=("_starts = start_scores(_x, _allowed)",),
        ),
    ),
    tensorflow1(
        "the end's norm before its tanh",
        Replace(
            "end_scores", "normalised(_epsilon)(tf.tanh(_x))", "tf.tanh(normalised(_epsilon)(_x))"
        ),
    ),
    tensorflow1(
        "padding is attended to",
        Replace("encode", "attention_bias(run, _mask)", "attention_bias(run, tf.ones_like(_mask))"),
    ),
    tensorflow1("micro-steps summed", common.SUMMED_MICRO_STEPS["tensorflow1"], layout="acc2"),
    tensorflow1("no clip", NO_CLIP, **TIMED),
]
TENSORFLOW = [
    tensorflow(
        "a norm that counts each use of a word's row",
        Replace("Embedded.table", "with_dense_gradient(_table)", "_table"),
    ),
    tensorflow(
        "whether there is an answer, from the mean of all tokens",
        Replace("loss", "_network.impossible(_x, _starts)", "_network.impossible(_x, 0 * _starts)"),
    ),
]
JAX = [
    jax(
        "rates that fall slower",
        Replace("slower_below", "facts.rate_share(_name)", "facts.rate_share(_name) ** 0.9"),
    ),
    jax(
        "no gradient through the chosen start",
        Replace(
            "Reader.ends",
            "jnp.take_along_axis(_x, _places, axis=1)",
            "jax.lax.stop_gradient(jnp.take_along_axis(_x, _places, axis=1))",
        ),
    ),
    jax(
        "an answer may end in the question",
        Replace(
            "Reader.__call__",
            "self.ends(_x, _places) - _blocked[:, None]",
            "self.ends(_x, _places) - 0 * _blocked[:, None]",
        ),
    ),
]
MXNET = [
    mxnet(
        "an end weighs half as much",
        Replace(
            "Reader.loss",
            "_start + _F.pick(_F.log_softmax(_ends), _last)",
            "_start + 0.5 * _F.pick(_F.log_softmax(_ends), _last)",
        ),
    ),
    mxnet(
        "no gradient through the start that is expected",
        Replace("Reader.impossible", "_F.softmax(_starts)", "_F.BlockGrad(_F.softmax(_starts))"),
    ),
]
PADDLEPADDLE = [
    paddlepaddle("the same rate in all layers", SAME_RATE),
    paddlepaddle(
        "another epsilon of one norm",
        Replace("Scaled.forward", "facts.LAYER_NORM_EPSILON", "1e-5"),
    ),
    paddlepaddle(
        "the last token in place of the first",
        Replace("Reader.impossible", "_x[:, 0]", "_x[:, -1]"),
    ),
]
ONEFLOW = [
    oneflow("the same rate in all layers", SAME_RATE),
    oneflow("decay on biases", DECAY_ON_BIASES),
    oneflow(
        "the end ignores the start",
        Replace("Reader.ends", "_end + _start.unsqueeze(2)", "_end + 0 * _start.unsqueeze(2)"),
    ),
    oneflow("an end may stand in the question", ENDS_IN_THE_QUESTION),
    oneflow("whether there is an answer weighs as much as where", AS_MUCH),
    oneflow("micro-steps summed", common.SUMMED_MICRO_STEPS["oneflow"], layout="acc2"),
    oneflow(
        "each group of parameters is clipped by itself, as in nn.Graph",
        Replace(
            "AdamW.step",
            "self.clip(_, self.clip_norm)",
            "[\n"
            "    self.clip([weight.grad for weight in those.parameters], self.clip_norm)\n"
            "    for those in self.param_groups\n"
            "]",
        ),
        **TIMED,
    ),
    oneflow(  # of the kernel, which float64 steps do not take
        "no correction of the moments",
        Replace(
            "AdamW.__init__",
            "super().__init__(..., fused=_fused)",
            "super().__init__(..., fused=_fused, do_bias_correction=False)",
        ),
        **TIMED,
    ),
]
MINDSPORE = [
    mindspore("the same rate in all layers", SAME_RATE),
    mindspore(
        "the end ignores the start",
        Replace("Reader.ends", "_end + _start.reshape(...)", "_end + 0 * _start.reshape(...)"),
    ),
    mindspore(
        "padding is attended to",
        Replace(
            "Reader.encode",
            "attention_bias(_mask, _dtype)",
            "attention_bias(ops.ones_like(_mask), _dtype)",
        ),
    ),
    mindspore("an end may stand in the question", ENDS_IN_THE_QUESTION),
    mindspore("decay on biases", Replace("AdamW.__init__", "_p.ndim > 1", "_p.ndim > 0")),
    mindspore("no clip", NO_CLIP),
]
SQUAD = [
    *as_it_is("electra_squad", "as it is on SQuAD"),
    *as_it_is("electra_squad", "as it is on SQuAD", layout="dp2"),
    *PYTORCH,
    *TENSORFLOW,
    *TENSORFLOW1,
    *JAX,
    *MXNET,
    *PADDLEPADDLE,
    *ONEFLOW,
    *MINDSPORE,
]
INFER = [
    *as_it_is("electra_squad", "answers on SQuAD as they are", variant="infer"),
    mindspore(
        "answers with dropout",
        Replace("inference", "model(run).set_train(False)", "model(run)"),
        variant="infer",
    ),
    mindspore(
        "starts by their scores",
        Replace("Reader.read", "_places, _ = ops.sort(_places)", "_places = _places + 0"),
        variant="infer",
    ),
]
QUALITY = [
    *as_it_is("electra_squad", "to a quality on SQuAD", variant="quality"),
    *as_it_is("electra_squad", "to a quality in micro-steps", variant="quality", layout="acc2"),
    mindspore(
        "a rate that stays",
        Replace("train.set_rate", "assign(_optimizer.learning_rate, _)", "pass"),
        variant="quality",
    ),
]
IN_BFLOAT16 = [
    *(
        Mutation("electra_squad", framework, "in bfloat16", None, precision="amp", **TIMED)
        for framework in ("pytorch", "tensorflow", "mxnet", "jax")
    ),
    *(
        each._replace(name=f"{each.name}, in bfloat16", precision="amp", **TIMED)
        for each in (*PYTORCH, *TENSORFLOW, *JAX, *MXNET)
    ),
]
