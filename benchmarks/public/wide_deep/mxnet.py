"""MXNet's own way to such models (its example/sparse/wide_deep): a symbol and a Module.

The wide part is a product with a CSR matrix of ones, each field has a SparseEmbedding of its own,
and Adam updates touched rows (`lazy_update`). With dropout and one output, as ours; the example has
none and two.
"""

import mxnet as mx
import numpy as np

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts

SOURCE = "mxnet 1.9.1, Module, sparse.dot and SparseEmbedding, lazy Adam (in the example's way)"
REQUIREMENTS = []


def symbol(rows, width, layers):
    wide, numbers, deep, labels = map(mx.sym.Variable, ("wide", "numbers", "deep", "labels"))
    linear = mx.sym.Variable("linear_weight", stype="row_sparse", shape=(rows, 1))
    features = []
    fields = mx.sym.split(deep, num_outputs=facts.FIELDS, axis=1, squeeze_axis=True)
    for index, field in enumerate(fields):
        features.append(
            mx.sym.contrib.SparseEmbedding(
                field,
                weight=mx.sym.Variable(f"embed_{index}_weight", stype="row_sparse"),
                input_dim=rows // facts.FIELDS,
                output_dim=width,
            )
        )
    x = mx.sym.concat(*features, numbers, dim=1)
    for index in range(layers):
        x = mx.sym.FullyConnected(x, num_hidden=facts.UNITS, name=f"hidden{index}")
        x = mx.sym.Dropout(mx.sym.Activation(x, act_type="relu"), p=facts.DROPOUT)
    x = mx.sym.FullyConnected(x, num_hidden=1, name="output")
    return mx.sym.LogisticRegressionOutput(x + mx.sym.sparse.dot(wide, linear), labels)


def training(run):
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    size = run.batch_size
    module = mx.mod.Module(
        symbol(rows, width, run.dimensions["layers"]),
        data_names=["wide", "numbers", "deep"],
        label_names=["labels"],
    )
    module.bind(
        data_shapes=[
            mx.io.DataDesc("wide", (size, rows)),
            mx.io.DataDesc("numbers", (size, facts.NUMBERS)),
            mx.io.DataDesc("deep", (size, facts.FIELDS)),
        ],
        label_shapes=[mx.io.DataDesc("labels", (size, 1))],
    )
    module.init_params(mx.init.Uniform(facts.TABLE_LIMIT))
    adam = mx.optimizer.Adam(
        learning_rate=facts.learning_rate(run.global_batch_size),
        beta1=facts.BETA1,
        beta2=facts.BETA2,
        epsilon=facts.EPSILON,
        rescale_grad=1.0 / size,
    )
    module.init_optimizer(kvstore=None, optimizer=adam)
    batches = open_batches(run)

    def put(numbers, wide, deep, labels):
        ends = np.arange(size + 1) * facts.CROSSES
        ones = np.ones(wide.size, np.float32)
        csr = mx.nd.sparse.csr_matrix((ones, wide.ravel(), ends), shape=(size, rows))
        data = [csr, mx.nd.array(numbers), mx.nd.array(deep % (rows // facts.FIELDS))]
        return [mx.io.DataBatch(data, [mx.nd.array(labels[:, None])])]

    next_batch = feed(batches, put)

    def step():
        (batch,) = next_batch()
        module.forward_backward(batch)
        module.update()
        return module.get_outputs()[0], batch.label[0]

    def loss(handle):
        given, labels = (each.asnumpy().astype(np.float64) for each in handle)
        return float(-np.mean(labels * np.log(given) + (1 - labels) * np.log(1 - given)))

    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=loss,
        parameters=sum(int(np.prod(each.shape)) for each in module.get_params()[0].values()),
        batches=batches,
        parity={},
    )
