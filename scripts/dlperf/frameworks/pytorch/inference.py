"""Inference in PyTorch: what all workloads do alike.

Under torch.inference_mode, eager or by Inductor with frozen weights, which folds batch-norm's
constants into one multiply-add and packs weights for oneDNN; on a GPU it replays CUDA graphs.
"""

import torch

from dlperf import frameworks
from dlperf.contract.work import Inference, feed
from dlperf.frameworks.pytorch.process import cuda_graphs
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, layout="", parity=None):
    """The Inference of `network`, in evaluation mode.

    outputs(run, network, *batch): a batch's outputs. put, layout: as of training.train.
    """
    half = getattr(torch, frameworks.half(run)) if run.amp else torch.float32
    # Inductor freezes weights only where nothing could need a gradient, and not in inference mode.
    quiet = torch.no_grad if run.compiler == "inductor" else torch.inference_mode

    def forward(*batch):
        with torch.autocast(run.device, dtype=half, enabled=run.amp):
            return outputs(run, network, *batch)

    graphs = cuda_graphs(run)
    if run.compiler == "inductor":
        options = {"freezing": True, "triton.cudagraphs": graphs}
        forward = torch.compile(forward, options=options)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def step():
        with quiet():
            if not graphs:
                return forward(*next_batch())
            torch.compiler.cudagraph_mark_step_begin()
            return forward(*next_batch()).clone()  # the next replay writes over it

    def answer(*batch):
        with quiet():
            return to_host(forward(*put(run, *batch)))

    return Inference(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        outputs=to_host,
        answer=answer,
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity=dict(
            inference="frozen" if run.compiler == "inductor" else "inference_mode",
            compute_dtype=str(half).replace("torch.", ""),
            **parity or {},
        ),
        weights=weights,
    )


def to_host(outputs):
    """A NumPy array, which has no bfloat16."""
    outputs = outputs.detach()
    if outputs.dtype in (torch.bfloat16, torch.float16):
        outputs = outputs.float()
    return outputs.cpu().numpy()
