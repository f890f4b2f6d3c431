"""Wide & Deep in HugeCTR, after its own sample (samples/wdl).

As fast as it gets: tables hashed over all GPUs, of which Adam updates the rows that a batch looks
up (Update_t.Local); with `adam: dense`, all rows (Update_t.Global, as the sample has it). Both
tables are distributed by key, not by field: so no GPU holds more rows than its share.
"""

from collections import OrderedDict

import hugectr

from dlperf.contract.tensor import shapes
from dlperf.frameworks.hugectr import training as framework
from dlperf.workloads.wide_deep import facts

TABLES = OrderedDict(wide=("wide_embedding", facts.CROSSES), deep=("deep_embedding", facts.FIELDS))


def add(network, kind, bottoms, top, **values):
    """Add a layer, and return what it gives."""
    network.add(
        hugectr.DenseLayer(
            layer_type=getattr(hugectr.Layer_t, kind),
            bottom_names=bottoms,
            top_names=[top],
            **values,
        )
    )
    return top


def model(run, batches):
    dimensions, adam = run.dimensions, optimizer(run)
    rate = facts.learning_rate(run.global_batch_size)
    network = hugectr.Model(framework.solver(run, rate), batches.reader(), adam)
    network.add(
        hugectr.Input(
            label_dim=1,
            label_name="label",
            dense_dim=facts.NUMBERS,
            dense_name="numbers",
            data_reader_sparse_param_array=[
                hugectr.DataReaderSparseParam(name, 1, True, slots)
                for name, (_, slots) in TABLES.items()
            ],
        )
    )
    looked_up = {}
    for name, (table, slots) in TABLES.items():
        width = facts.parameters(dimensions)[table].shape[1]
        network.add(
            hugectr.SparseEmbedding(
                embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
                workspace_size_per_gpu_in_mb=framework.workspace(run, width),
                embedding_vec_size=width,
                combiner="sum",
                sparse_embedding_name=table,
                bottom_name=name,
                optimizer=adam,
            )
        )
        looked_up[name] = add(
            network, "Reshape", [table], name + "_rows", leading_dim=slots * width
        )
    crosses = add(network, "ReduceSum", [looked_up["wide"]], "crosses", axis=1)
    x = add(network, "Concat", [looked_up["deep"], "numbers"], "columns")
    for layer in range(dimensions["layers"]):
        x = add(network, "InnerProduct", [x], "hidden%d" % layer, num_output=facts.UNITS)
        x = add(network, "ReLU", [x], "relu%d" % layer)
        if facts.DROPOUT:  # its layer takes no rate of 0
            x = add(network, "Dropout", [x], "dropout%d" % layer, dropout_rate=facts.DROPOUT)
    x = add(network, "InnerProduct", [x], "output", num_output=1)
    loss(network, add(network, "Add", [x, crosses], "logits"))
    network.compile()
    return network


def weights(run, network):
    """The dense ones and the tables, by the names of facts.parameters."""
    sizes = shapes(facts.parameters(run.dimensions))
    tables = OrderedDict((table, sizes.pop(table)) for table, _ in TABLES.values())
    return framework.Weights(run, network, sizes, tables)


def loss(network, logits):
    add(network, "BinaryCrossEntropyLoss", [logits, "label"], "loss")


def optimizer(run):
    lazy = bool(facts.sparse(run.dimensions))
    return hugectr.CreateOptimizer(
        optimizer_type=hugectr.Optimizer_t.Adam,
        update_type=hugectr.Update_t.Local if lazy else hugectr.Update_t.Global,
        beta1=facts.BETA1,
        beta2=facts.BETA2,
        epsilon=facts.EPSILON,
    )


def training(run):
    batches = framework.Batches(run)
    network = model(run, batches)
    return framework.train(
        run,
        network,
        weights(run, network),
        batches,
        facts.learning_rate(run.global_batch_size),
        parity={"optimizer": "Adam; of the tables " + run.dimensions["adam"]},
    )
