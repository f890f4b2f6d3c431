"""Inference in MindSpore: what all workloads do alike.

The network in evaluation mode, operator by operator or as one graph.
"""

from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.mindspore import training
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, layout="", parity=None):
    """The Inference of `network`, in evaluation mode.

    outputs(network, *batch): a batch's outputs in float32, without a Run, which no graph takes.
    put, layout: as of training.train.
    """

    def forward(*batch):
        return outputs(network, *batch)

    forward = training.compiled(run, forward)
    queued = Queued(lambda value: value.asnumpy(), lambda: training.synchronize(run))
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    return Inference(
        step=lambda: queued.add(forward(*next_batch())),
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: forward(*put(run, *batch)).asnumpy(),
        parameters=sum(p.size for p in network.trainable_params()),
        batches=batches,
        parity=dict(
            inference="evaluation mode",
            outputs_copied="at the end of the window",
            compute_dtype="float16" if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )
