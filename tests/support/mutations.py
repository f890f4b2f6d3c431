"""The smallest wrong settings of each workload, as changes of an implementation's source.

tests/certificates/test_mutations.py makes them. RIGHT has changes of nothing.
"""

from typing import NamedTuple

from conftest import CPU_FRAMEWORKS
from electra_mutations import JAX, OF_THE_OPTIMIZER, ONEFLOW, PADDLEPADDLE, PYTORCH, TENSORFLOW1
from squad_mutations import MINDSPORE, MINDSPORE_INFER, MINDSPORE_QUALITY
from squad_mutations import OF_THE_OPTIMIZER as OF_SQUADS_OPTIMIZER
from squad_mutations import ONEFLOW as ONEFLOW_ON_SQUAD
from squad_mutations import TENSORFLOW1 as TENSORFLOW1_ON_SQUAD
from squad_mutations import WRONG as WRONG_ON_SQUAD

from dlperf import frameworks, workloads


class Mutation(NamedTuple):
    name: str
    framework: str
    compiler: str
    old: str
    new: str
    layout: str = "1"
    more: str = ""  # put behind the source
    float64_only: bool = True  # enough to show it, in half the time
    precision: str = "fp32"
    tier: str = ""  # the first that shows it, where that is what the mutation is for


# torch's own SyncBatchNorm wants a GPU, so the mutation spells out what it computes.
GATHERED = """

def gather_statistics(network):
    import torch.distributed as dist
    import torch.distributed.nn.functional as together

    def forward(self, x):
        count = dist.get_world_size()
        mean = together.all_reduce(x.mean((0, 2, 3), keepdim=True)) / count
        variance = together.all_reduce(((x - mean) ** 2).mean((0, 2, 3), keepdim=True)) / count
        scale, shift = self.weight.view(1, -1, 1, 1), self.bias.view(1, -1, 1, 1)
        return (x - mean) / torch.sqrt(variance + self.eps) * scale + shift

    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.forward = forward.__get__(module)
"""
RESNET50 = [
    Mutation(
        "v1 in place of v1.5",
        "pytorch",
        "none",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
    ),
    Mutation("a class more", "pytorch", "none", "facts.CLASSES)", "facts.CLASSES + 1)"),
    Mutation("momentum 0.9", "pytorch", "none", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "pytorch", "none", "eps=facts.BATCH_NORM_EPSILON", "eps=1e-6"),
    Mutation(
        "no label smoothing",
        "pytorch",
        "none",
        "label_smoothing=facts.LABEL_SMOOTHING",
        "label_smoothing=0.0",
    ),
    Mutation(
        "decay on biases",
        "pytorch",
        "none",
        '"weight_decay": 0.0',
        '"weight_decay": decay',
    ),
    Mutation(
        "batch-norm over all ranks",
        "pytorch",
        "none",
        "    network = model(run)\n    return",
        "    network = model(run)\n    gather_statistics(network)\n    return",
        layout="dp2",
        more=GATHERED,
    ),
    Mutation(
        "v1 in place of v1.5",
        "jax",
        "xla",
        'conv(self.width, 1, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)))',
        'conv(self.width, 1, self.stride, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, name="conv2")(y)))',
    ),
    Mutation("momentum 0.9", "jax", "xla", ", facts.MOMENTUM)", ", 0.9)"),
    Mutation("epsilon 1e-6", "jax", "xla", "epsilon=facts.BATCH_NORM_EPSILON", "epsilon=1e-6"),
    Mutation("no label smoothing", "jax", "xla", "facts.LABEL_SMOOTHING)", "0.0)"),
    Mutation(
        "decay on biases", "jax", "xla", "p: p.ndim > 1, parameters", "p: p.ndim > 0, parameters"
    ),
    Mutation(
        "batch-norm over all ranks",
        "jax",
        "xla",
        "        epsilon=facts.BATCH_NORM_EPSILON,\n",
        '        epsilon=facts.BATCH_NORM_EPSILON,\n        axis_name="ranks",\n',
        layout="dp2",
    ),
    Mutation(
        "batch-norm over all ranks",
        "tensorflow",
        "none",
        "            mean, variance = tf.nn.moments(x, [0, 1, 2])\n",
        "            mean, square = tf.distribute.get_replica_context().all_reduce(\n"
        '                "mean", [tf.reduce_mean(x, [0, 1, 2]), tf.reduce_mean(x * x, [0, 1, 2])]\n'
        "            )\n"
        "            variance = square - mean * mean\n",
        layout="dp2",
    ),
    Mutation(
        "v1 in place of v1.5",
        "mxnet",
        "static",
        "self.conv1 = conv(inputs, width, 1, layout=layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, stride, layout)",
        "self.conv1 = conv(inputs, width, 1, stride, layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, 1, layout)",
    ),
    Mutation("momentum 0.9", "mxnet", "static", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "mxnet", "static", "facts.BATCH_NORM_EPSILON,", "1e-6,"),
    Mutation("no label smoothing", "mxnet", "static", "= facts.LABEL_SMOOTHING", "= 0.0"),
    Mutation(
        "decay on biases", "mxnet", "static", "parameter.wd_mult = 0.0", "parameter.wd_mult = 1.0"
    ),
]
# What float64 shows, or half precision hides, is not what is timed.
TIMED = {"float64_only": False}
COMPRESSED = """

def compress(network):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    network.register_comm_hook(None, fp16_compress_hook)
"""
RESNET50 += [
    Mutation(
        "running statistics of another momentum",
        "pytorch",
        "none",
        "momentum=1 - facts.BATCH_NORM_MOMENTUM",
        "momentum=0.01",
        tier="float64-statistics",
    ),
    Mutation(
        "running statistics of another momentum",
        "jax",
        "xla",
        "momentum=facts.BATCH_NORM_MOMENTUM",
        "momentum=0.99",
        tier="float64-statistics",
    ),
    Mutation(
        "running statistics of another momentum",
        "mxnet",
        "static",
        "facts.BATCH_NORM_MOMENTUM,",
        "0.99,",
        tier="float64-statistics",
    ),
    Mutation(
        "no running statistics",
        "pytorch",
        "none",
        "    return F.cross_entropy(",
        "    for module in network.modules():\n"
        "        if isinstance(module, nn.BatchNorm2d):\n"
        "            module.momentum = 0.0\n"
        "    return F.cross_entropy(",
        tier="float64-statistics",
    ),
    Mutation(
        "no running statistics",
        "tensorflow1",
        "none",
        "statistics = tf.get_collection(tf.GraphKeys.UPDATE_OPS)",
        "statistics = []",
        tier="float64-statistics",
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "pytorch",
        "none",
        "    if run.distributed:\n        network = DistributedDataParallel(",
        "    if run.distributed and run.float64:\n        network = DistributedDataParallel(",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "jax",
        "xla",
        "    if run.distributed:\n        gradients = mean",
        "    if run.distributed and run.float64:\n        gradients = mean",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "tensorflow",
        "none",
        "        if run.distributed:\n            gradients = tf.distribute",
        "        if run.distributed and run.float64:\n            gradients = tf.distribute",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float16",
        "pytorch",
        "none",
        "    narrow = half(run) if run.amp else None\n",
        "    if not run.float64:\n        compress(network)\n"
        "    narrow = half(run) if run.amp else None\n",
        layout="dp2",
        more=COMPRESSED,
        tier="timed-gradient-last",
        **TIMED,
    ),
    Mutation(
        "mixed precision that is float32",
        "pytorch",
        "none",
        "enabled=run.amp):",
        "enabled=False):",
        precision="amp",
        tier="timed-precision",
        **TIMED,
    ),
    Mutation(
        "mixed precision that is float32",
        "tensorflow",
        "none",
        "return tf.as_dtype(half(run)) if run.amp else dtype()",
        "return dtype()",
        precision="amp",
        tier="timed-precision",
        **TIMED,
    ),
    Mutation(
        "most layers detached in mixed precision",
        "pytorch",
        "none",
        "        x = self.average(self.blocks(x)).flatten(1)",
        "        x = self.average(self.blocks(x)).flatten(1)\n"
        "        x = x.detach() if torch.is_autocast_enabled(x.device.type) else x",
        precision="amp",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "most layers detached in mixed precision",
        "jax",
        "xla",
        "        x = jnp.mean(x, axis=(1, 2)",
        "        x = jax.lax.stop_gradient(x) if self.dtype else x\n"
        "        x = jnp.mean(x, axis=(1, 2)",
        precision="amp",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "smoothing over the other classes",
        "mindspore",
        "graph",
        "    return ops.cross_entropy(outputs, labels, label_smoothing=facts.LABEL_SMOOTHING)",
        "    share = facts.LABEL_SMOOTHING * facts.CLASSES / (facts.CLASSES - 1)\n"
        "    return ops.cross_entropy(outputs, labels, label_smoothing=share)",
        **TIMED,
    ),
    Mutation(
        "v1 in place of v1.5",
        "mindspore",
        "graph",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
        **TIMED,
    ),
]
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
# The BERT of two layers passes in every framework.
#: Those that change nothing are the small model as it is, which passes.
ELECTRA = [
    # what the optimiser alone shows needs the tier of given gradients
    Mutation(name, framework, compiler, *change, float64_only=name not in OF_THE_OPTIMIZER)
    for framework, compiler, wrong in (
        ("pytorch", "none", PYTORCH),
        ("jax", "xla", JAX),
        ("paddlepaddle", "none", PADDLEPADDLE),
        ("oneflow", "none", ONEFLOW),
        ("tensorflow1", "none", TENSORFLOW1),
    )
    for name, *change in (("as it is", "", ""), *wrong)
]
#: Of BERT's variant pad1: all implementations as they are, and one whose padding has a share.
PADDED = [
    Mutation(
        "a padded vocabulary",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        old="",
        new="",
        float64_only=False,
    )
    for framework in CPU_FRAMEWORKS
]
PADDED += [
    Mutation(
        "padding that has a share",
        "pytorch",
        "none",
        "value=facts.PADDING_SCORE",
        "value=0.0",
        tier="float64-loss",
    )
]


def on_squad(name: str, layout: str = "1") -> list[Mutation]:
    """ELECTRA on SQuAD as it is, in each framework."""
    return [
        Mutation(
            name,
            framework,
            frameworks.load(framework).DEFAULT_COMPILER["cpu"],
            old="",
            new="",
            layout=layout,
            float64_only=False,
        )
        for framework in CPU_FRAMEWORKS
        if workloads.implements("electra_squad", framework)
    ]


def in_mindspore(wrong: tuple) -> list[Mutation]:
    """Without float64: it has none for this model."""
    return [Mutation(name, "mindspore", "graph", *change, **TIMED) for name, *change in wrong]


#: The same of ELECTRA on SQuAD: its training, its answers, and its training to a quality.
SQUAD = [
    *on_squad("as it is on SQuAD"),
    *on_squad("as it is on SQuAD", layout="dp2"),
    *(
        Mutation(name, "pytorch", "none", *change, float64_only=name not in OF_SQUADS_OPTIMIZER)
        for name, *change in WRONG_ON_SQUAD
    ),
    *in_mindspore(MINDSPORE),
]
SQUAD += [
    Mutation(name, framework, "none", *change, float64_only=name not in OF_SQUADS_OPTIMIZER)
    for framework, wrong in (("tensorflow1", TENSORFLOW1_ON_SQUAD), ("oneflow", ONEFLOW_ON_SQUAD))
    for name, *change in wrong
]
SQUAD += [
    Mutation("as it is on SQuAD", framework, "none", "", "", layout, float64_only=False)
    for framework in ("tensorflow1", "oneflow")
    for layout in ("1", "dp2")
]
SQUAD_INFER = [*on_squad("answers on SQuAD as they are"), *in_mindspore(MINDSPORE_INFER)]
SQUAD_QUALITY = [*on_squad("to a quality on SQuAD"), *in_mindspore(MINDSPORE_QUALITY)]
RIGHT = [
    Mutation(
        "as it is",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        old="",
        new="",
        layout=layout,
        float64_only=False,
    )
    for framework in CPU_FRAMEWORKS
    for layout in (("1", "dp2", "acc2") if framework == "pytorch" else ("1", "acc2"))
]


WIDE_DEEP = [
    Mutation(name, "pytorch", "none", old, new)
    for name, old, new in (
        (
            "all rows move",
            "summed(table.grad._indices()[0], table.grad._values())\n",
            "torch.arange(len(table)), table.grad.to_dense()\n",
        ),
        (
            "places of a row squared singly",
            "addcmul_(g, g, value=1 - beta2)",
            "add_(\n                summed(table.grad._indices()[0], table.grad._values() ** 2)[1],"
            " alpha=1 - beta2\n            )",
        ),
        ("epsilon beside the corrected root", 'eps"] = epsilon / root', 'eps"] = epsilon'),
        ("epsilon beside the corrected root, of tables", "add_(epsilon)", "add_(epsilon * root)"),
        ("epsilon 1e-8", "eps=facts.EPSILON", "eps=1e-8"),
        ("a step ahead", "self.steps += 1", "self.steps += 1 + (self.steps == 0)"),
        ("no correction", " * root / (1 - beta1**self.steps)", ""),
        ("a sum over the batch", "deep), labels)", 'deep), labels, reduction="sum")'),
        ("a mean of the crosses", "crosses.sum((1, 2))", "crosses.mean((1, 2))"),
        ("no bias of the output", "self.output(x)[:", "F.linear(x, self.output.weight)[:"),
        ("one table for all fields", "self.deep(deep)", "self.deep(deep % 600)"),
        ("a row of padding", "sparse=lazy)", "sparse=lazy, padding_idx=0)"),
        ("numbers first", "[fields.flatten(1), numbers]", "[numbers, fields.flatten(1)]"),
    )
]
WIDE_DEEP += [
    Mutation(
        "gradients of tables added up over ranks",
        "pytorch",
        "none",
        "mine._values() / run.ranks",
        "mine._values()",
        layout="dp2",
        tier="float64-gradient",
    ),
    Mutation(
        "gradients of tables stay on their rank as they are timed",
        "pytorch",
        "none",
        "        table.grad = gradient(table, gathered(run, ids), gathered(run, rows))\n",
        "        if run.float64:\n"
        "            table.grad = gradient(table, gathered(run, ids), gathered(run, rows))\n",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "no dropout behind the layers",
        "pytorch",
        "none",
        "self.dropout(F.relu(layer(x)))",
        "F.relu(layer(x))",
        tier="timed-dropout",
        **TIMED,
    ),
]
SHARDED = [
    Mutation(f"{name}, of sharded tables", "pytorch", "none", old, new, layout="dp2", **more)
    for name, old, new, more in (
        (
            "gradients added up over ranks",
            "flatten(0, 1) / run.ranks",
            "flatten(0, 1)",
            {"tier": "float64-gradient"},
        ),
        (
            "gradients added up over ranks as they are timed",
            "flatten(0, 1) / run.ranks",
            "flatten(0, 1) / (run.ranks if run.float64 else 1)",
            {"tier": "timed-gradient", **TIMED},
        ),
        (
            "two columns swapped",
            "        return rows.reshape(*ids.shape, shard.width)",
            "        rows = rows.reshape(*ids.shape, shard.width)\n"
            "        return rows[..., [1, 0, *range(2, shard.width)]] if shard.width > 1 else rows",
            {"tier": "float64-loss"},
        ),
        (
            "gradients of the next rank's columns",
            "        rows = to_and_fro(rows.contiguous())",
            "        rows = to_and_fro(rows.flip(0).contiguous())",
            {"tier": "float64-gradient"},
        ),
    )
]
