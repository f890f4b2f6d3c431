"""Wide & Deep in MindSpore.

As fast as it gets: sparse gradients of both tables, of which one operator sums and updates the rows
that a batch looks up; the whole step in one graph. With `adam: dense`, tables are parameters like
others; with `tables: sharded`, each rank has a part of them.
"""

from mindspore import nn, ops

from dlperf.contract.shards import Shard
from dlperf.frameworks.mindspore import inference as answers
from dlperf.frameworks.mindspore import sparse
from dlperf.frameworks.mindspore import training as framework
from dlperf.workloads.wide_deep import facts

#: Names in the network -> canonical ones.
TABLES = {"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}


def dense(inputs, outputs):
    # the stopwatch writes all weights
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros")


class WideDeep(nn.Cell):
    """The loss of a batch."""

    def __init__(self, run):
        super().__init__()
        columns = [facts.inputs(run.dimensions)] + run.dimensions["layers"] * [facts.UNITS]
        self.shards = shards(run)
        self.wide, self.deep = tables(run, self.shards)
        self.hidden = nn.CellList(list(map(dense, columns, columns[1:])))
        self.output = dense(facts.UNITS, 1)
        # each with a seed of its own, and ranks too: one for all would drop the same elements
        self.dropouts = nn.CellList([nn.Dropout(p=facts.DROPOUT) for _ in self.hidden])
        for index, each in enumerate(self.dropouts):
            each.dropout = ops.Dropout(1 - each.p, run.dropout_seed, index)

    def construct(self, numbers, wide, deep, labels):
        return ops.binary_cross_entropy_with_logits(self.logits(numbers, wide, deep), labels)

    def logits(self, numbers, wide, deep):
        fields = self.deep(deep).reshape((numbers.shape[0], -1))
        x = ops.concat((fields, numbers), 1)
        for layer, dropout in zip(self.hidden, self.dropouts):
            x = dropout(ops.relu(layer(x)))
        return (self.output(x) + self.wide(wide).sum(1)).reshape(-1)


def shards(run):
    """The Shards of the tables that ranks share out, by canonical name."""
    tensors = facts.parameters(run.dimensions)
    names = TABLES.values() if facts.sharded(run.dimensions) else ()
    return {name: Shard(run, name, tensors[name]) for name in names}


def tables(run, shards):
    """The wide one and the deep one."""
    if shards:
        return [sparse.Sharded(each) for each in shards.values()]
    tensors = facts.parameters(run.dimensions)
    lazy = bool(facts.sparse(run.dimensions))
    return [sparse.Table(*tensors[name].shape, lazy) for name in TABLES.values()]


def model(run):
    return WideDeep(run).set_train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.parameters_and_names():
        named[TABLES.get(own) or own.replace("hidden.", "hidden")] = parameter
    return framework.Weights(named, shards=network.shards)


def loss(network, *batch):
    return network(*batch)


def optimizer(run, network):
    named = weights(run, network).named
    return sparse.Adam(
        network.trainable_params(),
        [named[name] for name in facts.sparse(run.dimensions)],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
    )


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        parity={
            "optimizer": "ops.Adam; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-gather, of which a rank takes its part"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run).set_train(False)
    return answers.infer(run, network, outputs, weights(run, network), framework.put)


def outputs(network, numbers, wide, deep, labels):
    return network.logits(numbers, wide, deep)
