"""Wide & Deep in OneFlow, eager or as nn.Graph.

As fast as it gets: of both tables only the rows that a batch looks up have gradients, and Adam
updates them in place; in a graph, which is told so, OneFlow's own does. With `adam: dense`, tables
are parameters like others; with `tables: sharded`, each rank has a part of them.

F.dropout, not nn.Dropout, each of which starts from the same seed.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.contract.shards import Shard
from dlperf.frameworks.oneflow import inference as answers
from dlperf.frameworks.oneflow import sparse
from dlperf.frameworks.oneflow import training as framework
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import empty


class WideDeep(nn.Module):
    def __init__(self, run):
        super().__init__()
        dimensions = run.dimensions
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.wide, self.deep = tables(run)
        self.hidden = nn.ModuleList(map(framework.Linear, columns, columns[1:]))
        self.output = framework.Linear(facts.UNITS, 1)
        self.dropout = facts.DROPOUT

    def forward(self, numbers, wide, deep):
        crosses, fields = self.wide(wide), self.deep(deep)
        x = flow.cat([fields.flatten(1), numbers], 1)
        for layer in self.hidden:
            x = F.dropout(F.relu(layer(x)), self.dropout, self.training)
        return (self.output(x) + crosses.sum(1)).squeeze(1)


def tables(run):
    """The wide one and the deep one."""
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    if facts.sharded(run.dimensions):
        known = facts.parameters(run.dimensions)
        tensors = {name: known[name] for name in ("wide_embedding", "deep_embedding")}
        if run.compiler == "graph":
            return [sparse.Spread(run, *each) for each in tensors.items()]
        return [sparse.Part(run, Shard(run, *each)) for each in tensors.items()]
    lazy = bool(facts.sparse(run.dimensions)) and run.compiler == "none"
    return sparse.Table(rows, 1, lazy), sparse.Table(rows, width, lazy)


def model(run):
    network = framework.place(run, WideDeep(run))
    for table in (network.wide, network.deep):
        if isinstance(table, sparse.Spread):
            table.spread()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("hidden.", "hidden")
        named[{"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}.get(own, name)] = (
            parameter
        )
    tables = {"wide_embedding": network.wide.shard, "deep_embedding": network.deep.shard}
    shards = {name: shard for name, shard in tables.items() if shard}
    return framework.Weights(run, named, shards=shards)


def loss(run, network, numbers, wide, deep, labels):
    return F.binary_cross_entropy_with_logits(network(numbers, wide, deep), labels)


def optimizer(run, network):
    return sparse.Adam(
        run,
        [each for each in network.parameters() if each.requires_grad],
        [each for each in (network.wide, network.deep) if each.lazy],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        rows_alone=bool(facts.sparse(run.dimensions)),
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
        example=empty(run.batch_size),
        parity={
            "optimizer": "Adam; of the tables " + run.dimensions["adam"],
            **facts.travel(run, travel(run)),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def travel(run):
    """How a batch's rows come to the rank that asked for them, where ranks share tables out."""
    if run.compiler == "graph":
        return "ids by all-gather, rows as nn.Graph makes them those of a rank's own batch"
    return "all-gather, of which a rank takes its part"


def inference(run):
    network = model(run).eval()
    own, example = weights(run, network), empty(run.batch_size)
    return answers.infer(run, network, outputs, own, framework.put, example=example)


def outputs(run, network, numbers, wide, deep, labels):
    return network(numbers, wide, deep)
