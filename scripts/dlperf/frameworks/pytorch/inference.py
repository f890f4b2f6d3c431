"""Inference in PyTorch: what all workloads do alike.

Under torch.inference_mode, eager or by Inductor with frozen weights, which folds batch-norm's
constants into one multiply-add and packs weights for oneDNN; on a GPU it replays CUDA graphs.
"""

import torch

from dlperf import frameworks
from dlperf.contract.work import Inference, Queued, feed
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

    queued = Queued(lambda outputs: outputs.numpy())

    def copied(outputs):
        """Outputs on the host, or on their way there."""
        return in_numpys_type(outputs).to("cpu", non_blocking=True)

    def wait():
        if run.cuda:
            torch.cuda.synchronize()
        queued.wait()

    graphs = cuda_graphs(run)
    if run.compiler == "inductor":
        options = {"freezing": True, "triton.cudagraphs": graphs}
        forward = torch.compile(forward, options=options)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def step():
        with quiet():
            if graphs:  # the copy is queued before the next replay, which writes over the outputs
                torch.compiler.cudagraph_mark_step_begin()
            return queued.add(copied(forward(*next_batch())))

    def answer(*batch):
        with quiet():
            return to_host(forward(*put(run, *batch)))

    return Inference(
        step=step,
        wait=wait,
        outputs=queued.outputs,
        answer=answer,
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity=dict(
            inference="frozen" if run.compiler == "inductor" else "inference_mode",
            outputs_copied="while it computes",
            compute_dtype=str(half).replace("torch.", ""),
            **parity or {},
        ),
        weights=weights,
    )


def to_host(outputs):
    """A NumPy array."""
    return in_numpys_type(outputs).cpu().numpy()


def in_numpys_type(outputs):
    """The outputs in a type that NumPy has: bfloat16 is none."""
    outputs = outputs.detach()
    if outputs.dtype in (torch.bfloat16, torch.float16):
        outputs = outputs.float()
    return outputs
