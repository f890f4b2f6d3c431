"""The smallest wrong settings of BERT-Base."""

from functools import partial

from edits import Replace, Wrap, constant

from wrong import TIMED, Mutation, as_it_is, common

pytorch = partial(Mutation, "bert", "pytorch")
jax = partial(Mutation, "bert", "jax")
tensorflow = partial(Mutation, "bert", "tensorflow")
mxnet = partial(Mutation, "bert", "mxnet")
mindspore = partial(Mutation, "bert", "mindspore")

# PyTorch's AdamW always corrects; a rate that undoes it is what goes without.
UNCORRECTED = """
def uncorrected(optimizer):
    def changed(run, network):
        adam, steps = optimizer(run, network), [0]
        rate = adam.param_groups[0]["lr"]

        def undo(*_):
            steps[0] += 1
            share = (1 - facts.BETA1 ** steps[0]) / (1 - facts.BETA2 ** steps[0]) ** 0.5
            for group in adam.param_groups:
                group["lr"] = rate * share

        adam.register_step_pre_hook(undo)
        return adam

    return changed
"""
# and so does optax.adamw
UNCORRECTED_OPTAX = """
import jax


def uncorrected(rate, beta1, beta2, epsilon, weight_decay, mask):
    def init(parameters):
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return zeros, zeros

    def update(gradients, state, parameters=None):
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state[0], gradients)
        second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state[1], gradients)
        change = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + epsilon), first, second)
        return change, (first, second)

    adam = optax.GradientTransformation(init, update)
    decay = optax.add_decayed_weights(weight_decay, mask)
    return optax.chain(adam, decay, optax.scale(-rate))
"""
#: The small model's gradients are below the clip: given ones alone show it.
NO_CLIP = Replace("optimizer", "run.dimensions['clip']", "False")
BERT = [
    pytorch("no bias correction", Wrap("optimizer", UNCORRECTED)),
    pytorch("no clip", NO_CLIP, **TIMED),
    pytorch(
        "GELU's tanh form",
        Replace("Layer.forward", "F.gelu(_x)", "F.gelu(_x, approximate='tanh')"),
    ),
    pytorch(
        "no loss of sentence pairs",
        Replace(
            "Bert.forward",
            "_words + F.cross_entropy(_pairs, _follows)",
            "_words + 0.0 * F.cross_entropy(_pairs, _follows)",
        ),
    ),
    pytorch("decay on biases", common.DECAY_ON_BIASES_IN_PYTORCH),
    jax(
        "no bias correction",
        Replace("adamw", "optax.adamw(...)", "uncorrected(...)", definitions=UNCORRECTED_OPTAX),
    ),
    jax("no clip", NO_CLIP, **TIMED),
    jax(
        "GELU's tanh form",
        Replace("gelu", "nn.gelu(..., approximate=False)", "nn.gelu(..., approximate=True)"),
    ),
    jax("a sum over micro-steps", common.SUMMED_MICRO_STEPS["jax"], layout="acc2"),
    jax(
        "no loss of sentence pairs",
        Replace(
            "Bert.__call__",
            "_words + cross_entropy(_pairs, _follows).mean()",
            "_words + 0.0 * cross_entropy(_pairs, _follows).mean()",
        ),
    ),
    tensorflow(
        "no bias correction",  # as behind very many steps
        Replace(
            "Adam.settings",
            "_steps = tf.cast(_step, tf.float64)",
            "_steps = tf.constant(1e9, tf.float64)",
        ),
    ),
    tensorflow("no clip", NO_CLIP, **TIMED),
    tensorflow(
        "GELU's tanh form",
        Replace("gelu", "0.5 * _x * tf.math.erfc(_)", "tf.nn.gelu(_x, approximate=True)"),
    ),
    tensorflow(
        "no loss of sentence pairs",
        Replace("loss", "_words + tf.reduce_mean(_pairs)", "_words + 0.0 * tf.reduce_mean(_pairs)"),
    ),
]
# A mean over the predictions of all ranks, for the mean of the ranks' means.
TOGETHER = {
    "pytorch": """
def over_ranks(count):
    import torch.distributed as dist

    dist.all_reduce(count)
    return count / dist.get_world_size()
""",
    "jax": """
def over_ranks(count):
    import jax

    try:
        return jax.lax.pmean(count, "data")
    except NameError:  # where shapes alone are asked for, there are no ranks
        return count
""",
    "tensorflow": """
def over_ranks(count):
    return tf.distribute.get_replica_context().all_reduce("mean", count)
""",
}
#: The words' loss: the function, and its mean over predictions as a sum and a count.
WORDS = {
    "pytorch": ("Bert.forward", "(_each * _used).sum()", "_used.sum()"),
    "jax": ("Bert.__call__", "jnp.sum(_each * _used)", "jnp.sum(_used)"),
    "tensorflow": ("loss", "tf.reduce_sum(_used * _each)", "tf.reduce_sum(_used)"),
}
BERT += [
    Mutation(
        "bert",
        framework,
        "a mean over the predictions of all ranks",
        Replace(
            within,
            f"{total} / {count}",
            f"{total} / over_ranks({count})",
            definitions=TOGETHER[framework],
        ),
        layout="dp2",
        tier="float64-loss",
    )
    for framework, (within, total, count) in WORDS.items()
]
BERT += [
    pytorch(
        "the mask ignored",
        Replace(
            "Layer.forward",
            "self.apart(..., attn_mask=_)",
            "self.apart(..., attn_mask=None)",
        ),
    ),
    jax(
        "the mask ignored",
        Replace(
            "Layer.__call__",
            "nn.dot_product_attention(..., mask=_)",
            "nn.dot_product_attention(..., mask=None)",
        ),
    ),
    tensorflow(
        "the mask ignored",
        Replace(
            "Layer.attention",
            "tf.matmul(_query, _key, transpose_b=True) + _",
            "tf.matmul(_query, _key, transpose_b=True)",
        ),
    ),
]
MEANS = {"pytorch": "_each.mean()", "jax": "jnp.mean(_each)", "tensorflow": "tf.reduce_mean(_each)"}
BERT += [
    Mutation(
        "bert",
        framework,
        "a loss over empty places too",
        Replace(within, f"{total} / {count}", MEANS[framework]),
    )
    for framework, (within, total, count) in WORDS.items()
]
NO_DROPOUT_IN_ATTENTION = constant("ATTENTION_DROPOUT", "0.0", "Layer")
IN_ATTENTION = {"tier": "timed-attention-dropout", **TIMED}
DROPOUT = {"tier": "timed-dropout", **TIMED}
ONE_LAYER = """
def without_one(model):
    def changed(run):
        network = model(run)
        network.layers[-1].dropout = nn.Identity()
        return network

    return changed
"""
BERT += [
    pytorch("no dropout in attention", NO_DROPOUT_IN_ATTENTION, **IN_ATTENTION),
    jax("no dropout in attention", NO_DROPOUT_IN_ATTENTION, **IN_ATTENTION),
    tensorflow("no dropout in attention", NO_DROPOUT_IN_ATTENTION, **IN_ATTENTION),
    pytorch("no dropout behind one layer", Wrap("model", ONE_LAYER), **DROPOUT),
    pytorch(
        "no dropout of embeddings", Replace("Embedded.embed", "self.dropout(_x)", "_x"), **DROPOUT
    ),
    jax(
        "no dropout of embeddings",
        Replace("Embeddings.__call__", "self.dropout(_x)", "_x"),
        **DROPOUT,
    ),
    mxnet(
        "no dropout of embeddings", Replace("Embedded.embed", "self.dropout(_x)", "_x"), **DROPOUT
    ),
    mindspore(
        "sums that no update clears",
        Replace("accumulated.last", "return _apply(_, _sums)", "return _sums"),
        layout="acc2",
        tier="timed-update",
        **TIMED,
    ),
    mindspore(
        "layer norm's epsilon 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm"), **TIMED
    ),
]
#: The variant pad1: all implementations as they are, and one whose padding has a share.
PADDED = [
    *as_it_is("bert", "a padded vocabulary", variant="pad1"),
    pytorch(
        "padding that has a share",
        constant("PADDING_SCORE", "0.0"),
        variant="pad1",
        tier="float64-loss",
    ),
]
#: The BERT of two layers passes in every framework. Of PyTorch, which goes first, in each layout.
LAYOUTS = {"pytorch": ("1", "tp2", "dp2", "acc2", "dp2tp2acc2")}
RIGHT = [
    each._replace(layout=layout)
    for each in sorted(as_it_is("bert"), key=lambda each: each.framework != "pytorch")
    for layout in LAYOUTS.get(each.framework, ("1", "acc2"))
]
#: To a quality, updates of several micro-steps: evaluations, rates and a new start come in between.
MICRO_STEPS = [
    *as_it_is("bert", "to a quality in micro-steps", variant="quality", layout="acc2"),
    pytorch(
        "micro-steps summed",
        common.SUMMED_MICRO_STEPS["pytorch"],
        variant="quality",
        layout="acc2",
    ),
    jax("micro-steps summed", common.SUMMED_MICRO_STEPS["jax"], variant="quality", layout="acc2"),
]
