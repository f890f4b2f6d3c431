"""A page's training step without the update of its weights: gradients are made, and left."""

import torch

from dlperf import workloads


class Nothing(torch.optim.Optimizer):
    """Does all that an optimizer does but the update, and the clip that belongs to it."""

    def step(self):
        """There is no update."""


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: Nothing(network.parameters(), {})
    return page.training(run)
