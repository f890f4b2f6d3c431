"""A page's training step without the update of its weights: gradients are made, and left."""

import tensorflow as tf

from dlperf import workloads


class Nothing(tf.train.Optimizer):
    """Does all that an optimizer does but the update, and the clip that belongs to it."""

    def __init__(self):
        super().__init__(use_locking=False, name="Nothing")

    def apply_gradients(self, gradients, *more, **named):
        return kept([gradient for gradient, _ in gradients])


def kept(gradients):
    """An operation that leaves gradients in variables: a graph makes nothing that nobody takes."""
    return tf.group(*map(left, gradients))


def left(gradient):
    # a resource variable takes a tensor's memory over, and copies nothing
    zeros = tf.zeros(gradient.shape, gradient.dtype)
    return tf.assign(tf.Variable(zeros, trainable=False, use_resource=True), gradient)


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: Nothing()
    return page.training(run)
