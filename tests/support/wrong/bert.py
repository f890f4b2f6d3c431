"""The smallest wrong settings of BERT-Base."""

from dlperf import frameworks
from wrong import TIMED, Mutation

# PyTorch's AdamW always corrects; a rate that undoes it is what goes without.
UNCORRECTED = """

def leave_uncorrected(adam):
    rate, steps = adam.param_groups[0]["lr"], [0]

    def undo(*_):
        steps[0] += 1
        share = (1 - facts.BETA1 ** steps[0]) / (1 - facts.BETA2 ** steps[0]) ** 0.5
        for group in adam.param_groups:
            group["lr"] = rate * share

    adam.register_step_pre_hook(undo)
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
BERT = [
    Mutation(
        "no bias correction",
        "pytorch",
        "none",
        "    return adam\n",
        "    leave_uncorrected(adam)\n    return adam\n",
        more=UNCORRECTED,
    ),
    Mutation(
        "no clip",
        "pytorch",
        "none",
        'if run.dimensions["clip"]:\n\n',
        "if False:\n\n",
        float64_only=False,  # the small model's gradients are below the clip: alone it shows
    ),
    Mutation(
        "GELU's tanh form",
        "pytorch",
        "none",
        "F.gelu(self.ffn1(x))",
        'F.gelu(self.ffn1(x), approximate="tanh")',
    ),
    Mutation(
        "no loss of sentence pairs",
        "pytorch",
        "none",
        "+ F.cross_entropy(pairs",
        "+ 0.0 * F.cross_entropy(pairs",
    ),
    Mutation(
        "decay on biases",
        "pytorch",
        "none",
        '"weight_decay": 0.0',
        '"weight_decay": decay',
    ),
    Mutation(
        "no bias correction",
        "jax",
        "xla",
        "optax.adamw(",
        "uncorrected(",
        more=UNCORRECTED_OPTAX,
    ),
    Mutation(
        "no clip",
        "jax",
        "xla",
        'if run.dimensions["clip"] else adam',
        "if False else adam",
        float64_only=False,
    ),
    Mutation("GELU's tanh form", "jax", "xla", "approximate=False", "approximate=True"),
    Mutation(
        "a sum over micro-steps",
        "jax",
        "xla",
        "gradients = jax.tree.map(lambda each: each / run.accumulation, gradients)",
        "gradients = gradients",
        layout="acc2",
    ),
    Mutation(
        "no loss of sentence pairs",
        "jax",
        "xla",
        "language + cross_entropy(",
        "language + 0.0 * cross_entropy(",
    ),
    Mutation(
        "no bias correction",
        "tensorflow",
        "none",
        "root = tf.sqrt(1 - exact2**steps)\n",
        "root = tf.constant(1.0, tf.float64)\n        exact1 = tf.constant(0.0, tf.float64)\n",
    ),
    Mutation(
        "no clip",
        "tensorflow",
        "none",
        "if self.clip_norm:",
        "if False:",
        float64_only=False,
    ),
    Mutation(
        "GELU's tanh form",
        "tensorflow",
        "none",
        "return 0.5 * x * tf.math.erfc(x * -(0.5**0.5))",
        "return tf.nn.gelu(x, approximate=True)",
    ),
    Mutation(
        "no loss of sentence pairs",
        "tensorflow",
        "none",
        "language + tf.reduce_mean(",
        "language + 0.0 * tf.reduce_mean(",
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
        return jax.lax.pmean(count, "ranks")
    except NameError:  # where shapes alone are asked for, there are no ranks
        return count
""",
    "tensorflow": """

def over_ranks(count):
    return tf.distribute.get_replica_context().all_reduce("mean", count)
""",
}
COUNTED = {
    "pytorch": ("predicted.sum()\n", "over_ranks(predicted.sum())\n"),
    "jax": ("/ jnp.sum(predicted)", "/ over_ranks(jnp.sum(predicted))"),
    "tensorflow": ("/ tf.reduce_sum(predicted)", "/ over_ranks(tf.reduce_sum(predicted))"),
}
BERT += [
    Mutation(
        "a mean over the predictions of all ranks",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        *COUNTED[framework],
        layout="dp2",
        more=more,
        tier="float64-loss",
    )
    for framework, more in TOGETHER.items()
]
BERT += [
    Mutation("the mask ignored", "pytorch", "none", "attn_mask=bias", "attn_mask=None"),
    Mutation("the mask ignored", "jax", "xla", "mask=mask,", "mask=None,"),
    Mutation(
        "the mask ignored", "tensorflow", "none", "transpose_b=True) + bias", "transpose_b=True)"
    ),
    Mutation(
        "a loss over empty places too",
        "pytorch",
        "none",
        "(each * predicted).sum() / predicted.sum()",
        "each.mean()",
    ),
    Mutation(
        "a loss over empty places too",
        "jax",
        "xla",
        "jnp.sum(each * predicted) / jnp.sum(predicted)",
        "jnp.mean(each)",
    ),
    Mutation(
        "a loss over empty places too",
        "tensorflow",
        "none",
        "tf.reduce_sum(predicted * language) / tf.reduce_sum(predicted)",
        "tf.reduce_mean(language)",
    ),
    Mutation(
        "no dropout in attention",
        "pytorch",
        "none",
        "self.attention_dropout if self.training else 0.0",
        "0.0",
        tier="timed-attention-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout in attention",
        "jax",
        "xla",
        "dropout_rate=facts.ATTENTION_DROPOUT",
        "dropout_rate=0.0",
        tier="timed-attention-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout in attention",
        "tensorflow",
        "none",
        "dropout(tf.nn.softmax(scores), training, self.attention_dropout)",
        "tf.nn.softmax(scores)",
        tier="timed-attention-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout behind one layer",
        "pytorch",
        "none",
        "        self.mlm = dense(",
        "        self.layers[-1].dropout = nn.Identity()\n        self.mlm = dense(",
        tier="timed-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout of embeddings",
        "pytorch",
        "none",
        "self.dropout(self.embedding_norm(x))",
        "self.embedding_norm(x)",
        tier="timed-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout of embeddings",
        "jax",
        "xla",
        "self.dropout(self.norm(x))",
        "self.norm(x)",
        tier="timed-dropout",
        **TIMED,
    ),
    Mutation(
        "no dropout of embeddings",
        "mxnet",
        "static",
        "self.dropout(self.embedding_norm(x))",
        "self.embedding_norm(x)",
        tier="timed-dropout",
        **TIMED,
    ),
    Mutation(
        "sums that no update clears",
        "mindspore",
        "graph",
        "        return apply(clear, sums)\n",
        "        return sums\n",
        layout="acc2",
        tier="timed-update",
        **TIMED,
    ),
    Mutation(
        "layer norm's epsilon 1e-6",
        "mindspore",
        "graph",
        "epsilon=facts.LAYER_NORM_EPSILON",
        "epsilon=1e-6",
        **TIMED,
    ),
]
