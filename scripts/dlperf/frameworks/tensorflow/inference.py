"""Inference in TensorFlow 2: what all workloads do alike.

The forward pass is one traced function of static shapes. Once the weights are written they become
constants of its graph, which the graph optimiser fuses and packs; XLA reads them from variables.
Every rank infers by itself: its variables and functions are outside of the strategy.
"""

from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from dlperf.contract.work import Inference, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks.tensorflow.training import function, graph_facts, wait


def infer(run, network, outputs, weights, put, specs, layout="", parity=None):
    """The Inference of `network`, a tf.Module, in evaluation mode.

    outputs(run, network, *batch): a batch's outputs. put, specs, layout: as of training.train.
    """
    xla = run.compiler == "xla"
    traced = function(lambda *batch: outputs(run, network, *batch), jit_compile=xla or None)
    traced = traced.get_concrete_function(*specs)
    batches = open_batches(run, layout)
    next_batch = feed(batches, put)
    frozen = None

    def forward(batch):
        nonlocal frozen
        if xla:
            return traced(*batch)
        if frozen is None:  # the weights are there
            frozen = convert_variables_to_constants_v2(traced)
        return frozen(*batch)[0]

    return Inference(
        step=lambda: forward(next_batch()),
        wait=lambda: wait(run),
        outputs=lambda tensor: tensor.numpy(),
        answer=lambda *batch: forward(put(*batch)).numpy(),
        parameters=sum(each.shape.num_elements() for each in network.trainable_variables),
        batches=batches,
        parity=dict(
            graph_facts(run, traced),
            inference="compiled by XLA" if xla else "frozen graph",
            **parity or {},
        ),
        weights=weights,
    )
