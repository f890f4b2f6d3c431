"""Inference in MXNet's Gluon: what all workloads do alike.

A hybridized block in prediction mode. On a CPU oneDNN's backend puts convolution, batch-norm and
ReLU into one operator, and a dense layer and its activation; it knows float32 only.
"""

import mxnet as mx

from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.mxnet import training
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, inputs, layout="", parity=None):
    """The Inference of `network`.

    outputs(run, network): a hybrid block that gives a batch's outputs from the first so many
    `inputs` arrays of a batch. put, layout: as of training.train.
    """
    forward, how = outputs(run, network), "imperative"
    if run.compiler == "static":
        fused = not (run.cuda or run.amp or run.float64)
        # the graph is made in the first call: by then the weights are there
        backend = "MKLDNN" if fused else None
        forward.hybridize(backend=backend, static_alloc=True, static_shape=True)
        how = "hybridize, oneDNN's fused operators" if fused else "hybridize"
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    queued = Queued(lambda value: value.asnumpy(), mx.nd.waitall)

    def copied(batch):
        return training.copied(run, forward(*batch[:inputs]))

    return Inference(
        # a copy to the host is queued behind its outputs, as everything is
        step=lambda: queued.add(copied(next_batch()).as_in_context(mx.cpu())),
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: copied(put(run, *batch)).asnumpy(),
        parameters=sum(p.data().size for p in trained),
        batches=batches,
        parity=dict(
            training.read_back(run, forward, inputs),
            inference=how,
            outputs_copied="while it computes",
            **parity or {},
        ),
        weights=weights,
    )
