"""Inference in OneFlow: what all workloads do alike.

The network in evaluation mode without gradients, eager or as one nn.Graph. In a graph over several
ranks weights and batches are global tensors, as in training.
"""

import oneflow as flow
from oneflow import nn

from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.oneflow import training
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, example, layout="", parity=None):
    """The Inference of `network`, which training.place gave, in evaluation mode.

    outputs(run, network, *batch): a batch's outputs. put, example, layout: as of training.train.
    """
    graphed, detail = run.compiler == "graph", {}

    def there(*batch):
        found = put(run, *batch)
        return [training.over_ranks(run, each) for each in found] if graphed else found

    if graphed:
        graph = InferenceGraph(run, network, outputs)
        with flow.no_grad():
            graph._compile(*there(*example))  # before its first batch
        detail = {
            "graph_compiled": graph.is_compiled,
            "graph_operations": len(graph._compiled_graph_proto.net.op),
        }

    def forward(batch):
        with flow.no_grad():
            return graph(*batch) if graphed else outputs(run, network, *batch)

    queued = Queued(training.to_host, flow._oneflow_internal.eager.Sync)
    batches = open_batches(run, layout)
    next_batch = feed(batches, there)
    return Inference(
        step=lambda: queued.add(forward(next_batch())),
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: training.to_host(forward(there(*batch))),
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity=dict(
            detail,
            inference="no_grad",
            outputs_copied="at the end of the window",
            compute_dtype="float16" if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )


class InferenceGraph(nn.Graph):
    """The forward pass as one static graph."""

    def __init__(self, run, network, outputs):
        super().__init__()
        self.run, self.network, self.outputs = run, network, outputs
        self.config.allow_fuse_add_to_output(True)
        if run.cuda:
            self.config.enable_cudnn_conv_heuristic_search_algo(False)  # measure, not guess
        if run.amp:
            self.config.enable_amp(True, dtype=flow.float16)
            self.config.allow_fuse_cast_scale(True)

    def build(self, *batch):
        return self.outputs(self.run, self.network, *batch)
