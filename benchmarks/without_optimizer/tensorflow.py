"""A page's training step without the update of its weights: gradients are made, and left."""

import tensorflow as tf

from dlperf import workloads


class Nothing(tf.Module):
    """Does all that an optimizer does but the update, and the clip that belongs to it.

    It leaves gradients in variables, as a graph makes nothing that nobody takes. A variable takes a
    tensor's memory over, and copies nothing.
    """

    def __init__(self, variables):
        super().__init__()
        self.kept = [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in variables]

    def apply(self, gradients, norm=None, finite=None):
        for kept, gradient in zip(self.kept, gradients, strict=True):
            kept.assign(gradient)


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: Nothing(network.trainable_variables)
    return page.training(run)
