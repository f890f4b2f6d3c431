"""The MLP in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.mlp import facts


class MLP(nn.Module):
    def __init__(self, pixels):
        super().__init__()
        self.hidden = nn.Linear(pixels, facts.WIDTH)
        self.output = nn.Linear(facts.WIDTH, facts.CLASSES)

    def forward(self, images):
        return self.output(F.relu(self.hidden(images.flatten(1))))


def model(run):
    return MLP(3 * run.dimensions["image_size"] ** 2).to(run.device).train()


def weights(run, network):
    return framework.Weights(run, dict(network.named_parameters()))


def loss(run, network, images, labels):
    return F.cross_entropy(network(images), labels)


def optimizer(run, network):
    rate = facts.learning_rate(run.global_batch_size)
    return torch.optim.SGD(network.parameters(), lr=rate, momentum=facts.MOMENTUM, fused=True)


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        layout="NHWC",
        parity={"optimizer": "SGD, fused"},
    )
