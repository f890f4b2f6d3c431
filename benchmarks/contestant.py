"""What the public modules of an inference share. Python 3.7, for the oldest of the frameworks."""

from dlperf.contract.work import Inference
from dlperf.workloads.inputs import open_batches


def answering(run, layout, parameters, answer):
    """The Inference of a public implementation that has an `answer` and no more."""
    batches = open_batches(run, layout)
    return Inference(
        step=lambda: answer(*batches.next()),
        wait=lambda: None,
        outputs=lambda array: array,
        answer=answer,
        parameters=parameters,
        batches=batches,
        parity={},
    )
