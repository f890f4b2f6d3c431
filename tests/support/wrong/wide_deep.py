"""The smallest wrong settings of Wide & Deep, with whole and with sharded tables."""

from wrong import TIMED, Mutation

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
        ("no ReLU", "F.relu(layer(x))", "layer(x)"),
        ("a leaky ReLU", "F.relu(layer(x))", "F.leaky_relu(layer(x), 1e-3)"),
        ("a smooth ReLU", "F.relu(layer(x))", "F.softplus(layer(x), 100)"),
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
