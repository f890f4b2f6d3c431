"""Wide & Deep in OneFlow, eager.

As fast as it gets: of both tables only the rows that a batch looks up have gradients, and Adam
updates them in place. With `adam: dense`, tables are parameters like others.

F.dropout, not nn.Dropout, each of which starts from the same seed.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.data import clicks
from dlperf.frameworks.oneflow import sparse
from dlperf.frameworks.oneflow import training as framework
from dlperf.workloads.wide_deep import facts


class WideDeep(nn.Module):
    def __init__(self, dimensions):
        super().__init__()
        rows, lazy = dimensions["vocabulary"], bool(facts.sparse(dimensions))
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.wide = sparse.Table(rows, 1, lazy)
        self.deep = sparse.Table(rows, dimensions["width"], lazy)
        self.hidden = nn.ModuleList(map(framework.Linear, columns, columns[1:]))
        self.output = framework.Linear(facts.UNITS, 1)
        self.dropout = facts.DROPOUT

    def forward(self, numbers, wide, deep):
        crosses, fields = self.wide(wide), self.deep(deep)
        x = flow.cat([fields.flatten(1), numbers], 1)
        for layer in self.hidden:
            x = F.dropout(F.relu(layer(x)), self.dropout, self.training)
        return (self.output(x) + crosses.sum(1)).squeeze(1)


def model(run):
    return framework.place(run, WideDeep(run.dimensions))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("hidden.", "hidden")
        named[{"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}.get(own, name)] = (
            parameter
        )
    return framework.Weights(named)


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
        example=clicks.empty(run.batch_size),
        parity={"optimizer": "Adam; of the tables " + run.dimensions["adam"]},
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def outputs(run, network, numbers, wide, deep, labels):
    return network(numbers, wide, deep)
