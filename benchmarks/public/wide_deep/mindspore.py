"""MindSpore's own way to such models (mindspore-ai/models, Wide_and_Deep), one compiled step.

nn.EmbeddingLookup tables and nn.Adam, which on one device is of all rows. There the wide part has
FTRL, and the training cell runs the backward pass once for each part: here both have one Adam, and
the backward pass is run once.
"""

import mindspore as ms
from mindspore import Tensor, nn, ops

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts

SOURCE = "mindspore 2.10, nn.EmbeddingLookup, nn.Adam of all rows (in its models' way)"
REQUIREMENTS = []


class WideDeep(nn.Cell):
    def __init__(self, dimensions):
        super().__init__()
        rows = dimensions["vocabulary"]
        self.wide = nn.EmbeddingLookup(rows, 1, target="DEVICE", sparse=False)
        self.deep = nn.EmbeddingLookup(rows, dimensions["width"], target="DEVICE", sparse=False)
        layers, inputs = [], facts.inputs(dimensions)
        for _ in range(dimensions["layers"]):
            layers += [nn.Dense(inputs, facts.UNITS), nn.ReLU(), nn.Dropout(p=facts.DROPOUT)]
            inputs = facts.UNITS
        self.layers = nn.SequentialCell([*layers, nn.Dense(inputs, 1)])

    def construct(self, numbers, wide, deep, labels):
        fields = self.deep(deep).reshape((numbers.shape[0], -1))
        logits = self.layers(ops.concat((fields, numbers), 1)) + self.wide(wide).sum(1)
        return ops.binary_cross_entropy_with_logits(logits.reshape(-1), labels)


def training(run):
    network = WideDeep(run.dimensions).set_train()
    trained = network.trainable_params()
    rate = facts.learning_rate(run.global_batch_size)
    adam = nn.Adam(trained, rate, facts.BETA1, facts.BETA2, facts.EPSILON)
    gradients_of = ms.value_and_grad(network, None, adam.parameters)

    def update(*batch):
        value, gradients = gradients_of(*batch)
        adam(gradients)
        return value

    if run.compiler == "graph":
        update = ms.jit(update)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: [Tensor(each) for each in batch])
    return Work(
        step=lambda: update(*next_batch()),
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in trained),
        batches=batches,
        parity={},
    )
