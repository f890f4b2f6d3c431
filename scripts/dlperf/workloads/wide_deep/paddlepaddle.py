"""Wide & Deep in PaddlePaddle.

As fast as it gets: the layers and the loss are one static program; tables are looked up in front of
it, and Adam updates in place the rows that a batch looks up. With `adam: dense`, tables are
parameters of the program like others; with `tables: sharded`, each rank has a part of them. On the
CPU without oneDNN, in whose programs gradients came out wrong (Paddle 3.3: by a third).
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.shards import Shard
from dlperf.frameworks.paddlepaddle import inference as answers
from dlperf.frameworks.paddlepaddle import sparse
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.workloads.wide_deep import facts


def dense(inputs, outputs):
    # the stopwatch writes all weights
    return nn.Linear(inputs, outputs, weight_attr=nn.initializer.Constant(0.0))


class Layers(nn.Layer):
    """The loss of a batch, from the rows of its ids."""

    def __init__(self, dimensions):
        super().__init__()
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.hidden = nn.LayerList(list(map(dense, columns, columns[1:])))
        self.output = dense(facts.UNITS, 1)
        self.dropout = nn.Dropout(facts.DROPOUT)

    def forward(self, numbers, crosses, fields, labels):
        logits = self.logits(numbers, crosses, fields)
        return F.binary_cross_entropy_with_logits(logits, labels.unsqueeze(1))

    def logits(self, numbers, crosses, fields):
        x = paddle.concat([fields.flatten(1), numbers], 1)
        for layer in self.hidden:
            x = self.dropout(F.relu(layer(x)))
        return self.output(x) + crosses.sum(1)


class WideDeep(nn.Layer):
    """The loss of a batch."""

    def __init__(self, run):
        super().__init__()
        self.wide, self.deep = tables(run)
        self.layers = Layers(run.dimensions)

    def forward(self, numbers, wide, deep, labels):
        return self.layers(numbers, self.wide(wide), self.deep(deep), labels)


class Logits(nn.Layer):
    """Those of a batch, from its ids."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, numbers, wide, deep):
        own = self.network
        return own.layers.logits(numbers, own.wide(wide), own.deep(deep)).flatten()


def tables(run):
    """The wide one and the deep one."""
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    if facts.sharded(run.dimensions):
        tensors = facts.parameters(run.dimensions)
        shards = [Shard(run, name, tensors[name]) for name in ("wide_embedding", "deep_embedding")]
        return list(map(sparse.part, shards))
    return sparse.table(rows, 1), sparse.table(rows, width)


def model(run):
    network = WideDeep(run)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    tables = {"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}
    return framework.Weights(
        run,
        {
            tables.get(own) or own.replace("layers.", "").replace("hidden.", "hidden"): parameter
            for own, parameter in network.named_parameters()
        },
    )


def loss(run, network):
    return network.layers if facts.sparse(run.dimensions) else network


def optimizer(run, network):
    lazy = facts.sparse(run.dimensions)
    return sparse.Adam(
        run,
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        parameters=loss(run, network).parameters(),
        tables=[network.wide.weight, network.deep.weight] if lazy else [],
    )


def training(run):
    if not run.cuda:
        paddle.set_flags({"FLAGS_use_onednn": False})  # wrong here: see above
    network = model(run)
    adam = optimizer(run, network)

    def lookup(numbers, wide, deep, labels):
        crosses = adam.lookup(network.wide.weight, wide)
        return numbers, crosses, adam.lookup(network.deep.weight, deep), labels

    return framework.train(
        run,
        network,
        loss,
        adam,
        weights(run, network),
        framework.put,
        spec=spec(run),
        lookup=lookup if facts.sparse(run.dimensions) else None,
        parity={
            "optimizer": "Adam; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-gather, of which a rank takes its part"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
        tested=3,  # all but the labels
        tested_spec=ids_spec(run)[:3],
    )


def inference(run):
    network = model(run)
    network.eval()
    own, spec = weights(run, network), ids_spec(run)[:3]
    return answers.infer(run, network, outputs, own, framework.put, spec=spec)


def outputs(run, network):
    return Logits(network)


def spec(run):
    size, dtype = run.batch_size, paddle.get_default_dtype()
    given = paddle.static.InputSpec
    numbers, labels = given((size, facts.NUMBERS), dtype), given((size,), dtype)
    if not facts.sparse(run.dimensions):
        return ids_spec(run)
    crosses, fields = (size, facts.CROSSES, 1), (size, facts.FIELDS, run.dimensions["width"])
    return [numbers, given(crosses, dtype), given(fields, dtype), labels]


def ids_spec(run):
    """Of a batch before rows are looked up."""
    size, dtype = run.batch_size, paddle.get_default_dtype()
    given = paddle.static.InputSpec
    return [
        given((size, facts.NUMBERS), dtype),
        given((size, facts.CROSSES), "int64"),
        given((size, facts.FIELDS), "int64"),
        given((size,), dtype),
    ]
