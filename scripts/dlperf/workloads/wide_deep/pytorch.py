"""Wide & Deep in PyTorch.

As fast as it gets: sparse gradients of both tables, of which Adam updates the rows that a batch
looks up; a fused Adam for the dense layers. With `adam: dense`, tables are parameters like others;
with `tables: sharded`, each rank has a part of them.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.contract.shards import Shard
from dlperf.frameworks.pytorch import inference as answers
from dlperf.frameworks.pytorch import sparse
from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.wide_deep import facts


def dense(inputs, outputs):
    return nn.utils.skip_init(nn.Linear, inputs, outputs)  # the stopwatch writes all weights


class WideDeep(nn.Module):
    def __init__(self, run):
        super().__init__()
        dimensions = run.dimensions
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.wide, self.deep = tables(run)
        self.hidden = nn.ModuleList(map(dense, columns, columns[1:]))
        self.output = dense(facts.UNITS, 1)
        self.dropout = nn.Dropout(facts.DROPOUT)

    def forward(self, numbers, wide, deep):
        crosses, fields = self.wide(wide), self.deep(deep)
        x = torch.cat([fields.flatten(1), numbers], 1)
        for layer in self.hidden:
            x = self.dropout(F.relu(layer(x)))
        return self.output(x)[:, 0] + crosses.sum((1, 2))


def tables(run):
    """The wide one and the deep one."""
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    if facts.sharded(run.dimensions):
        tensors = facts.parameters(run.dimensions)
        shards = [Shard(run, name, tensors[name]) for name in ("wide_embedding", "deep_embedding")]
        return [sparse.Sharded(run, shard) for shard in shards]
    lazy = bool(facts.sparse(run.dimensions))
    return sparse.table(rows, 1, lazy), sparse.table(rows, width, lazy)


def model(run):
    return WideDeep(run).to(run.device).train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("hidden.", "hidden")
        named[{"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}.get(own, name)] = (
            parameter
        )
    return framework.Weights(run, named)


def loss(run, network, numbers, wide, deep, labels):
    return F.binary_cross_entropy_with_logits(network(numbers, wide, deep), labels)


def optimizer(run, network):
    tables = facts.sparse(run.dimensions)
    named = weights(run, network).named
    return sparse.Adam(
        [each for name, each in named.items() if name not in tables],
        [named[name] for name in tables],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
    )


def training(run):
    network = model(run)
    if facts.sparse(run.dimensions):
        sparse.exchange(run, network, ("wide.weight", "deep.weight"))
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        parity={
            "optimizer": "Adam, fused; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-to-all"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run).eval()
    return answers.infer(run, network, outputs, weights(run, network), framework.put)


def outputs(run, network, numbers, wide, deep, labels):
    return network(numbers, wide, deep)
