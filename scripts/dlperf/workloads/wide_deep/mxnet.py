"""Wide & Deep in MXNet's Gluon.

As fast as it gets: the layers and the loss are one hybrid block with `static_alloc` and
`static_shape`; tables are looked up in front of it, and Adam's fused operator updates the rows that
a batch looks up. With `adam: dense`, tables are parameters of the block like others; with `tables:
sharded`, each rank has a part of them.
"""

from mxnet import gluon
from mxnet.gluon import nn

from dlperf.contract.shards import Shard
from dlperf.frameworks.mxnet import inference as answers
from dlperf.frameworks.mxnet import sparse
from dlperf.frameworks.mxnet import training as framework
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import Batch


def dense(inputs, outputs, activation=None):
    # the stopwatch writes all weights
    return nn.Dense(outputs, activation, in_units=inputs, weight_initializer="zeros")


class Layers(nn.HybridBlock):
    """The loss of a batch, from the rows of its ids."""

    def __init__(self, dimensions):
        super().__init__()
        self.hidden = nn.HybridSequential()
        columns = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        for inputs, outputs in zip(columns, columns[1:]):
            self.hidden.add(dense(inputs, outputs, "relu"))
        self.output = dense(facts.UNITS, 1)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.cross_entropy = gluon.loss.SigmoidBinaryCrossEntropyLoss()

    def hybrid_forward(self, F, numbers, crosses, fields, labels):
        return F.mean(self.cross_entropy(self.logits(F, numbers, crosses, fields), labels))

    def logits(self, F, numbers, crosses, fields):
        x = F.concat(fields.reshape((0, -1)), numbers, dim=1)
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.output(x) + F.sum(crosses, axis=1)


#: Names in the network -> canonical ones.
TABLES = {"wide.weight": "wide_embedding", "deep.weight": "deep_embedding"}


class WideDeep(nn.HybridBlock):
    """The loss of a batch."""

    def __init__(self, run):
        super().__init__()
        dimensions, tensors = run.dimensions, facts.parameters(run.dimensions)
        shapes, self.shards = [tensors[name].shape for name in TABLES.values()], {}
        if facts.sharded(dimensions):
            self.shards = {name: Shard(run, name, tensors[name]) for name in TABLES.values()}
            shapes = [shard.shape for shard in self.shards.values()]
        lazy = bool(facts.sparse(dimensions))
        self.wide, self.deep = (sparse.table(*shape, lazy) for shape in shapes)
        self.layers = Layers(dimensions)

    def hybrid_forward(self, F, numbers, wide, deep, labels):
        return self.layers(numbers, self.wide(wide), self.deep(deep), labels)


class Logits(nn.HybridBlock):
    """Those of a batch, from its ids."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def hybrid_forward(self, F, numbers, wide, deep):
        own = self.network
        logits = own.layers.logits(F, numbers, own.wide(wide), own.deep(deep))
        return logits.reshape((-1,))


def model(run):
    return framework.initialized(run, WideDeep(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    own = framework.named(network)
    return framework.Weights(
        run,
        {
            TABLES.get(name) or name.replace("layers.", "").replace("hidden.", "hidden"): parameter
            for name, parameter in own
        },
        shards=network.shards,
    )


def loss(run, network):
    return network.layers if facts.sparse(run.dimensions) else network


def optimizer(run, network):
    adam = sparse.adam(
        facts.learning_rate(run.global_batch_size), (facts.BETA1, facts.BETA2), facts.EPSILON
    )
    if not facts.sparse(run.dimensions):
        return framework.trainer(run, network, adam)
    parameters = network.wide.weight, network.deep.weight
    tables = dict(zip(parameters, (facts.CROSSES, facts.FIELDS)))
    shards = dict(zip(parameters, network.shards.values()))
    return sparse.Trainer(run, network.layers, tables, adam, shards)


def put(run, *batch):
    """A clicks.Batch -> arrays: ids in int32, the others in the model's type."""
    dtype = "float64" if run.float64 else "float32"
    return [
        framework.put(run, array, "int32" if array.dtype.kind == "i" else dtype) for array in batch
    ]


def training(run):
    network = model(run)
    trainer = optimizer(run, network)

    def lookup(numbers, wide, deep, labels):
        crosses = trainer.lookup(network.wide.weight, wide)
        return numbers, crosses, trainer.lookup(network.deep.weight, deep), labels

    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=len(Batch._fields),
        lookup=lookup if facts.sparse(run.dimensions) else None,
        parity={
            "optimizer": "Adam, fused; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-gather, of which a rank takes its part"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
        tested=3,  # all but the labels
    )


def inference(run):
    network = model(run)
    return answers.infer(run, network, outputs, weights(run, network), put, inputs=3)


def outputs(run, network):
    return Logits(network)
