"""flowvision's ResNet-50, trained as its own scripts do: eager, or nn.Graph where asked for."""

import numpy as np
import oneflow as flow
from contestant import answering
from flowvision.models import resnet50
from oneflow import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "flowvision 0.2.1, models.resnet50 (v1.5)"
# 0.2.2 asks for names that OneFlow 0.9.0 has not
REQUIREMENTS = ["flowvision==0.2.1", "tabulate==0.9.0", "six==1.17.0"]
BUILD_CONSTRAINTS = ["setuptools<70"]  # flowvision is an sdist that imports pkg_resources


class TrainingGraph(nn.Graph):
    def __init__(self, network, criterion, sgd):
        super().__init__()
        self.network, self.criterion = network, criterion
        self.add_optimizer(sgd)

    def build(self, images, labels):
        value = self.criterion(self.network(images), labels)
        value.backward()
        return value


def training(run):
    network = resnet50(num_classes=facts.CLASSES).to(run.device).train()
    trained = list(network.parameters())
    criterion = nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)
    sgd = flow.optim.SGD(
        [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": facts.WEIGHT_DECAY},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
    )

    def eager(images, labels):
        value = criterion(network(images), labels)
        value.backward()
        sgd.step()
        sgd.zero_grad()
        return value

    train = TrainingGraph(network, criterion, sgd) if run.compiler == "graph" else eager
    batches = open_batches(run, "NCHW")
    next_batch = feed(
        batches,
        lambda images, labels: (
            flow.from_numpy(images).to(run.device),
            flow.from_numpy(labels.astype(np.int64)).to(run.device),
        ),
    )

    def step():
        return train(*next_batch()).detach()

    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )


class InferenceGraph(nn.Graph):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def build(self, images):
        return self.network(images)


def inference(run):
    """Evaluation mode without gradients: eager, or nn.Graph where asked for."""
    network = resnet50(num_classes=facts.CLASSES).to(run.device).eval()
    forward = InferenceGraph(network) if run.compiler == "graph" else network

    def answer(images, labels):
        with flow.no_grad():
            return forward(flow.from_numpy(images).to(run.device)).numpy()

    return answering(run, "NCHW", sum(p.numel() for p in network.parameters()), answer)
