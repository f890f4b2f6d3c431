"""The smallest wrong settings of ELECTRA.

Each is one that somebody could get wrong, or that public code has. The same setting has the same
name in every framework. The first of each framework is the implementation as it is.
"""

from functools import partial

from edits import Replace, constant

from dlperf import workloads
from wrong import TIMED, Mutation, as_it_is, common

pytorch = partial(Mutation, "electra", "pytorch")
jax = partial(Mutation, "electra", "jax")
paddlepaddle = partial(Mutation, "electra", "paddlepaddle", other_compiler="none")
oneflow = partial(Mutation, "electra", "oneflow")
tensorflow1 = partial(Mutation, "electra", "tensorflow1")

SAME_WEIGHT = constant("DISCRIMINATOR_WEIGHT", "1.0")
#: What the discriminator starts from, and the mean of its losses, in PyTorch.
EMBEDDED = "self.embed(_tokens, _segments)"
MEAN = "(_each * _mask).sum() / _mask.sum()"
#: The group of its optimiser that has neither decay nor a ratio.
OTHERS = "dict(..., adaptive=False)"
#: Adam's kernel by its formula: a moment is corrected by its bias once, or 0 times.
BY_HAND = """
def by_hand(once_first, once_second, changes, gradients, first, second, _, steps, **settings):
    beta1, beta2 = settings["beta1"], settings["beta2"]
    for change, gradient, m, v, step in zip(changes, gradients, first, second, steps):
        step += 1
        m.lerp_(gradient, 1 - beta1)
        v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        m = m / (1 - beta1 ** float(step)) ** once_first
        v = v / (1 - beta2 ** float(step)) ** once_second
        change.add_(m / (v.sqrt() + settings["eps"]))
"""
PYTORCH = [
    pytorch("as it is", None),
    pytorch("a generator of a quarter of the width", constant("GENERATOR_WIDTH", "192")),
    pytorch(
        "the discriminator without segments",
        Replace("Electra.discriminate", EMBEDDED, "self.embed(_tokens, 0 * _segments)"),
    ),
    pytorch(
        "a norm of the embeddings that the discriminator does not share",
        Replace(
            "Electra.discriminate",
            f"_x = {EMBEDDED}",
            "_x = self.word_embedding(_tokens) + self.segment_embedding(_segments)\n"
            "_x = _x + self.position_embedding.weight[: _tokens.shape[1]]\n"
            "_x = F.layer_norm(_x, [facts.WIDTH], eps=facts.LAYER_NORM_EPSILON)",
        ),
    ),
    pytorch(
        "embeddings that only the generator trains",
        Replace("Electra.discriminate", EMBEDDED, f"{EMBEDDED}.detach()"),
    ),
    pytorch("both losses weigh the same", SAME_WEIGHT),
    pytorch(
        "the discriminator's loss over chosen places alone",
        Replace(
            "Electra.forward",
            MEAN,
            "(_each.gather(1, _positions) * _chosen).sum() / _chosen.sum()",
            given=(
                "_tokens.scatter(1, _positions, _)",
                "(_ * _chosen.flatten()).sum() / _chosen.sum()",
            ),
        ),
    ),
    pytorch("padding counts", Replace("Electra.forward", MEAN, "_each.mean()")),
    pytorch(
        "a true guess is called a replacement",
        Replace(
            "Electra.forward",
            "_ != _tokens.scatter(1, _positions, _)",
            "torch.zeros_like(_tokens).scatter(1, _positions, _chosen.long()) > 0",
            given=("(_ * _chosen.flatten()).sum() / _chosen.sum()",),
        ),
    ),
    pytorch("no noise", Replace("sample", "(_scores + _noise).argmax(-1)", "_scores.argmax(-1)")),
    pytorch("noise alone", Replace("sample", "(_scores + _noise).argmax(-1)", "_noise.argmax(-1)")),
    pytorch(
        "hidden words stay hidden in the second input",
        Replace(
            "Electra.forward",
            "_replaced = _tokens.scatter(1, _positions, _samples)",
            "_replaced = torch.where(_tokens == 4, 4, _tokens.scatter(1, _positions, _samples))",
        ),
    ),
    pytorch("a ratio on biases", Replace("optimizer", OTHERS, "dict(..., adaptive=True)")),
    pytorch(
        "decay on biases",
        Replace(
            "optimizer",
            OTHERS,
            "dict(..., adaptive=False, weight_decay=facts.WEIGHT_DECAY)",
        ),
    ),
    pytorch(
        "a ratio of at most 10",
        Replace(
            "Lamb._update",
            "torch.where(_known, _w / _u, 1.0)",
            "torch.where(_known, (_w / _u).clamp(max=10), 1.0)",
        ),
        **TIMED,
    ),
    pytorch(
        "decay outside of the ratio",
        Replace(
            "Lamb._update",
            "(torch.stack(norms(_weights)), torch.stack(norms(_changes)))",
            "(\n"
            "    torch.stack(norms(_weights)),\n"
            "    torch.stack(norms(torch._foreach_sub(_changes, _weights, alpha=0.01))),\n"
            ")",
        ),
    ),
    pytorch(
        "no correction of the second moment",
        Replace("Lamb._update", "adam(...)", "by_hand(1, 0, ...)", definitions=BY_HAND),
    ),
    pytorch(
        "no correction of the first moment",
        Replace("Lamb._update", "adam(...)", "by_hand(0, 1, ...)", definitions=BY_HAND),
    ),
    pytorch("micro-steps summed", common.SUMMED_MICRO_STEPS["pytorch"], layout="acc2"),
    pytorch(
        "no clip", Replace("Lamb.step", "torch.nn.utils.clip_grad_norm_(...)", "pass"), **TIMED
    ),
]
CLIPPED = """
def clipped(gradients):
    from dlperf.frameworks.jax.clip import clip
    from dlperf.workloads.electra import facts

    return clip(facts.CLIP_NORM).update(gradients, ())[0]
"""
JAX = [
    jax("as it is", None),
    jax("both losses weigh the same", SAME_WEIGHT),
    jax(
        "padding counts",
        Replace(
            "Electra.__call__",
            "jnp.sum(_each * _mask) / jnp.sum(_mask)",
            "jnp.mean(_each)",
            given=("(_mask > 0)[:, None, None, :]",),
        ),
    ),
    jax(
        "a true guess is called a replacement",
        Replace(
            "Electra.__call__",
            "_ != _tokens.at[_rows, _positions].set(_)",
            "jnp.zeros_like(_mask).at[_rows, _positions].set(_chosen) > 0",
            given=("(_mask > 0)[:, None, None, :]", "jnp.where(_chosen > 0, _, _)"),
        ),
    ),
    jax("no noise", Replace("sample", "jnp.argmax(_scores + _, -1)", "jnp.argmax(_scores, -1)")),
    jax(  # optax.lamb has it
        "a ratio on biases",
        Replace(
            "lamb",
            "optax.masked(optax.scale_by_trust_ratio(), _)",
            "optax.scale_by_trust_ratio()",
        ),
    ),
    jax(
        "each rank clips its own gradients",
        Replace(
            "update",
            "mean_of_all(run, _gradients)",
            "mean_of_all(run, clipped(_gradients))",
            definitions=CLIPPED,
        ),
        layout="dp2",
    ),
]
PADDLEPADDLE = [
    paddlepaddle("as it is", None),
    paddlepaddle("both losses weigh the same", SAME_WEIGHT),
    paddlepaddle("padding counts", Replace("Electra.forward", MEAN, "_each.mean()")),
    paddlepaddle(
        "a true guess is called a replacement",
        Replace(
            "Electra.forward",
            "_ != _tokens.put_along_axis(_positions, _, 1)",
            "paddle.zeros_like(_tokens).put_along_axis(\n"
            "    _positions, _used.astype(_tokens.dtype), 1\n"
            ") > 0",
            given=("paddle.where(_used > 0, _, _)",),
        ),
    ),
    paddlepaddle(
        "no noise",
        Replace("sample", "(_scores + _.reshape(_scores.shape)).argmax(-1)", "_scores.argmax(-1)"),
    ),
    paddlepaddle("a ratio on biases", Replace("optimizer", "_p.ndim == 1 or _without", "_without")),
]
ONEFLOW = [
    oneflow("as it is", None),
    oneflow(
        "decay outside of the ratio, as OneFlow's own",
        Replace(
            "Lamb.step",
            "ratio(squares(_weight), squares(_change))",
            "ratio(squares(_weight), squares(_change - self.decay * _weight))",
        ),
    ),
    oneflow(
        "OneFlow's own norm",
        Replace("squares", "_x.square().sum()", "flow.linalg.vector_norm(_x).square()"),
        **TIMED,
    ),
    oneflow(
        "unused places are filled too",
        Replace("Electra.forward", "flow.where(_chosen > 0, _samples, _)", "_samples"),
    ),
    oneflow(
        "a true guess is called a replacement",
        Replace("Electra.forward", "_filled != flow.scatter(_t, 1, _, _)", "_filled != _t"),
    ),
    oneflow("micro-steps summed", common.SUMMED_MICRO_STEPS["oneflow"], layout="acc2"),
]
#: TensorFlow 1's table is shared by hand, and its LAMB is of the fused Adam.
TENSORFLOW1 = [
    tensorflow1("as it is", None),
    tensorflow1(
        "a lookup that does not train its words", Replace("tied", "_given[:-1]", "_given[:-2]")
    ),
    tensorflow1(
        "a true guess is called a replacement",
        Replace(
            "electra",
            "tf.not_equal(_, put(_tokens, _positions, _))",
            "put(tf.zeros_like(_tokens), _positions, tf.cast(_used, tf.int32)) > 0",
            given=("tf.where(_used > 0, _, _)",),
        ),
    ),
    tensorflow1(
        "no noise",
        Replace(
            "sample", "tf.argmax(_scores + _noise, ...)", "tf.argmax(_scores + 0 * _noise, ...)"
        ),
    ),
    tensorflow1(
        "decay outside of the ratio",
        Replace(
            "Lamb._apply_dense",
            "tf.global_norm([_variable]), tf.global_norm([_wanted])",
            "tf.global_norm([_variable]), tf.global_norm([_wanted - self.decay * _variable])",
        ),
    ),
    tensorflow1(
        "no correction of the first moment",
        Replace("Adam._prepare", "self.quotient = _root / _", "self.quotient = _root"),
    ),
]
ELECTRA = [*PYTORCH, *JAX, *PADDLEPADDLE, *ONEFLOW, *TENSORFLOW1]

pytorch_quality = partial(pytorch, variant="quality")
jax_quality = partial(jax, variant="quality")
oneflow_quality = partial(oneflow, variant="quality")
mindspore_quality = partial(Mutation, "electra", "mindspore", variant="quality", **TIMED)
#: The second phase's batches, and its start in PyTorch and in JAX.
BATCHES = "_phases[_number >= _first]"
ANEW = "torch._foreach_zero_([_each['step'] for _each in self.state.values()])"
IS_NO_COUNT = "_path[-1] != jax.tree_util.GetAttrKey('count')"
QUALITY = [
    *(
        each
        for each in as_it_is("electra", "to a quality as it is", variant="quality")
        if workloads.implements("electra", each.framework, "quality")
    ),
    pytorch_quality("as it is in two replicas", None, layout="dp2", **TIMED),
    jax_quality("as it is in two replicas", None, layout="dp2", **TIMED),
    pytorch_quality(
        "a second phase from fresh weights",
        Replace(
            "Lamb.count_anew",
            ANEW,
            f"{ANEW}\n"
            "for group in self.param_groups:\n"
            "    for weight in group['params']:\n"
            "        torch.nn.init.normal_(weight, std=0.02)",
        ),
    ),
    pytorch_quality(
        "a second phase without the moments", Replace("Lamb.count_anew", ANEW, "self.forget()")
    ),
    pytorch_quality("a second phase that counts on", Replace("Lamb.count_anew", ANEW, "pass")),
    pytorch_quality(
        "counted anew a step late",
        Replace("work.step_in_phase", "_done == _first", "_done == _first + 1"),
    ),
    pytorch_quality(
        "short sequences in the second phase", Replace("Prose._batches", BATCHES, "_phases[0]")
    ),
    pytorch_quality(
        "a second phase that begins a step late",
        Replace("Prose._batches", "_number >= _first", "_number > _first"),
    ),
    pytorch_quality(
        "a rate that stays",
        Replace("train.set_rate", "_rate * _group.get('share', 1.0)", "_group['lr']"),
    ),
    pytorch_quality(
        "evaluated on the likeliest words",
        Replace("Electra.evaluate", "sample(_words, _noise)", "_words.argmax(-1)"),
    ),
    pytorch_quality(
        "evaluated on words that stay hidden",
        Replace(
            "Electra.evaluate",
            "_tokens.scatter(1, _positions, _samples)",
            "_tokens + 0 * _samples[0, 0]",
        ),
    ),
    pytorch_quality(
        "an evaluation that names other words than it took",
        Replace(
            "Electra.evaluate",
            "_samples.to(_kind) / facts.DRAWN_UNIT",
            "(_samples + 1).to(_kind) / facts.DRAWN_UNIT",
        ),
    ),
    jax_quality(
        "a second phase without the moments", Replace("train.count_anew", IS_NO_COUNT, "False")
    ),
    jax_quality("a second phase that counts on", Replace("train.count_anew", IS_NO_COUNT, "True")),
    jax_quality(
        "short sequences in the second phase", Replace("Prose._batches", BATCHES, "_phases[0]")
    ),
    jax_quality(
        "evaluated with noise alone",
        Replace("sample", "jnp.argmax(_scores + _noise, -1)", "jnp.argmax(_noise, -1)"),
    ),
]

#: Where batches of the second phase, whose size is another, begin.
SKIPPED = "_steps * run.global_batch_size"
BY_BATCHES = Replace(
    "Prose._batches",
    "_own.get('first_steps', 0) * _own.get('micro_steps', 1)",
    "_own.get('first_steps', 0)",
)
#: The same sizes of both phases, by who reads them.
SAME_SIZE = Replace(
    "phases_of",
    "_input._replace(batch_size=_size, dimensions=_longer)",
    "_input._replace(dimensions=_longer)",
)
SAME_SIZE_APART = Replace(
    "alone", "run.dimensions['second_batch_size'] or run.batch_size", "run.batch_size"
)
OF_TWO = """
def of_two(run, network, *batch):
    return loss(run, network, *(array[:2] for array in batch))
"""
ONE_TWICE = """
def one_twice(run, *batch):
    return transformer.put(run, *(array[[0, 1, 1][: len(array)]] for array in batch))
"""
#: Batches of another size in the second phase, and updates of several of them.
SIZES = [
    *(
        each
        for each in as_it_is(
            "electra", "to a quality in micro-steps", variant="quality", layout="acc2"
        )
        if workloads.implements("electra", each.framework, "quality")
    ),
    pytorch_quality("batches as large as in the first phase", SAME_SIZE),
    pytorch_quality(
        "two sequences of a batch of three",
        Replace(
            "training",
            "transformer.train(run, _network, loss, ...)",
            "transformer.train(run, _network, of_two, ...)",
            definitions=OF_TWO,
        ),
    ),
    pytorch_quality("a first phase of so many batches", BY_BATCHES, layout="acc2"),
    pytorch_quality("micro-steps summed", common.SUMMED_MICRO_STEPS["pytorch"], layout="acc2"),
    jax_quality(
        "a sequence of three twice, and one never",
        Replace("training", "transformer.put", "one_twice", definitions=ONE_TWICE),
    ),
    jax_quality("micro-steps summed", common.SUMMED_MICRO_STEPS["jax"], layout="acc2"),
    Mutation(
        *("electra", "tensorflow", "sequences of the first phase again in the second"),
        Replace("apart", SKIPPED, "0 * _steps"),
        variant="quality",
    ),
    Mutation(
        *("electra", "mxnet", "a second phase that begins so many updates behind"),
        Replace("apart", SKIPPED, "_steps"),
        variant="quality",
        **TIMED,
    ),
    Mutation(
        *("electra", "paddlepaddle", "batches as large as in the first phase", SAME_SIZE_APART),
        variant="quality",
        other_compiler="none",
        **TIMED,
    ),
    oneflow_quality("a first phase of so many batches", BY_BATCHES, layout="acc2"),
    mindspore_quality(
        "micro-steps summed", Replace("accumulated", "1.0 / run.accumulation", "1.0"), layout="acc2"
    ),
]
