"""torchvision's ResNet-50, trained as its references do, channels_last, with a fused SGD."""

import numpy as np
import torch
from contestant import answering

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

# The wheel on PyPI is built for CUDA. Without CUDA its compiled operators do not load, and its
# import fails on the declarations of two of them; its models need none.
for name in ("nms", "qnms"):
    torch.library.define(
        "torchvision::" + name, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

from torchvision.models import resnet50  # noqa: E402

SOURCE = "torchvision 0.28.0, models.resnet50 (v1.5)"
REQUIREMENTS = ["torchvision==0.28.0"]


def training(run):
    network = resnet50(num_classes=facts.CLASSES).to(memory_format=torch.channels_last).train()
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)
    trained = list(network.parameters())
    sgd = torch.optim.SGD(
        [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": facts.WEIGHT_DECAY},
            {"params": [p for p in trained if p.ndim <= 1]},
        ],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        fused=True,
    )

    def forward(images, labels):
        with torch.autocast(run.device, dtype=torch.bfloat16, enabled=run.amp):
            return criterion(network(images), labels)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, "NHWC")
    next_batch = feed(
        batches,
        lambda images, labels: (
            torch.from_numpy(images).permute(0, 3, 1, 2),
            torch.from_numpy(labels.astype(np.int64)),
        ),
    )

    def step():
        value = forward(*next_batch())
        sgd.zero_grad(set_to_none=True)
        value.backward()
        sgd.step()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )


def inference(run):
    """As its documentation has it: evaluation mode, inference_mode; frozen where it is compiled."""
    network = resnet50(num_classes=facts.CLASSES).to(memory_format=torch.channels_last).eval()
    quiet, forward = torch.inference_mode, network
    if run.compiler == "inductor":  # which freezes weights only outside of inference mode
        quiet, forward = torch.no_grad, torch.compile(network, options={"freezing": True})

    def answer(images, labels):
        with quiet():
            return forward(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()

    return answering(run, "NHWC", sum(p.numel() for p in network.parameters()), answer)
