"""OneFlow's own way to such models (Oneflow-Inc/models, RecommenderSystems/wide_and_deep), eager.

nn.Embedding tables, whose gradients are of all rows, nn.Linear layers, and AdamW with a decay of 0.
"""

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts

SOURCE = "oneflow 0.9.0, nn.Embedding, nn.Linear, AdamW of all rows (in its models' way)"
REQUIREMENTS = []


class WideDeep(nn.Module):
    def __init__(self, dimensions):
        super().__init__()
        rows = dimensions["vocabulary"]
        self.wide = nn.Embedding(rows, 1)
        self.deep = nn.Embedding(rows, dimensions["width"])
        layers, inputs = [], facts.inputs(dimensions)
        for _ in range(dimensions["layers"]):
            layers += [nn.Linear(inputs, facts.UNITS), nn.ReLU(), nn.Dropout(facts.DROPOUT)]
            inputs = facts.UNITS
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, numbers, wide, deep):
        x = flow.cat([self.deep(deep).flatten(1), numbers], 1)
        return self.layers(x) + self.wide(wide).sum(1)


def training(run):
    network = WideDeep(run.dimensions).to(run.device).train()
    adam = flow.optim.AdamW(
        network.parameters(),
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        weight_decay=0.0,
    )
    batches = open_batches(run)

    def put(numbers, wide, deep, labels):
        arrays = numbers, wide.astype(np.int64), deep.astype(np.int64), labels[:, None]
        return [flow.from_numpy(each).to(run.device) for each in arrays]

    next_batch = feed(batches, put)

    def step():
        *given, labels = next_batch()
        value = F.binary_cross_entropy_with_logits(network(*given), labels)
        value.backward()
        adam.step()
        adam.zero_grad()
        return value.detach()

    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity={},
    )
