"""Inference in TensorFlow 2: what all workloads do alike.

The forward pass is one traced function of static shapes. Where a page asks for it, weights become
constants of its graph once they are written, so that the graph optimiser fuses what it otherwise
would not; XLA reads them from variables.
Every rank infers by itself: its variables and functions are outside of the strategy.
"""

from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.tensorflow.training import graph_facts, trace_outputs, wait
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, specs, freeze=False, layout="", parity=None):
    """The Inference of `network`, a tf.Module, in evaluation mode.

    outputs(run, network, *batch): a batch's outputs. put, specs, layout: as of training.train.
    freeze: make weights constants. Of products alone that is a gain at batch 1 only (a quarter of
    BERT-Base's time), and the model's memory many times: 8 GB in place of 1.2.
    """
    freeze = freeze and run.compiler != "xla"
    traced = trace_outputs(run, network, outputs, specs)
    batches = open_batches(run, layout)
    next_batch = feed(batches, put)
    queued = Queued(lambda tensor: tensor.numpy(), lambda: wait(run))
    frozen = None

    def forward(batch):
        nonlocal frozen
        if not freeze:
            return traced(*batch)
        if frozen is None:  # the weights are there
            frozen = convert_variables_to_constants_v2(traced)
        return frozen(*batch)[0]

    return Inference(
        step=lambda: queued.add(forward(next_batch())),
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: forward(put(*batch)).numpy(),
        parameters=sum(each.shape.num_elements() for each in network.trainable_variables),
        batches=batches,
        parity=dict(
            graph_facts(run, traced),
            inference="frozen graph" if freeze else "graph, weights as variables",
            outputs_copied="at the end of the window",
            **parity or {},
        ),
        weights=weights,
    )
