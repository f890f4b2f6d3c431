"""A page's training step without the update of its weights: gradients are made, and left."""

import paddle

from dlperf import workloads


class Nothing(paddle.optimizer.SGD):
    """Does all that an optimizer does but the update, and the clip that belongs to it."""

    def step(self):
        """There is no update."""


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: Nothing(parameters=network.parameters())
    return page.training(run)
