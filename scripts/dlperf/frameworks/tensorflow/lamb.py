"""LAMB (You et al. 2019) in TensorFlow 2, which has none."""

import tensorflow as tf

from dlperf.frameworks.tensorflow.adam import Adam, change
from dlperf.frameworks.tensorflow.process import dtype
from dlperf.frameworks.tensorflow.training import choose


class Lamb(Adam):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + epsilon) + decay w; w -= rate |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0 or not `adaptive`. Tensors of one dimension are plain Adam's. The fused
    operator finds u: it starts from decay w, at the rate -1.
    """

    def __init__(self, variables, learning_rate, betas, epsilon, decay, adaptive, clip_norm):
        super().__init__(variables, learning_rate, betas, epsilon, clip_norm)
        self.decay, self.adaptive = decay, adaptive
        shapes = {tuple(v.shape): v for v in variables if v.shape.rank > 1}
        # of tensors as large, one for all: they take their steps one after the other
        self.changes = {
            str(shape): tf.Variable(tf.zeros_like(v), trainable=False)
            for shape, v in shapes.items()
        }

    def apply(self, gradients, norm=None, finite=None):
        """One step, or none: see training.train."""
        gradients = self.clipped(gradients, norm)
        step = self.next_step(finite)
        plain = self.settings(step, self.learning_rate, finite)
        added = self.settings(step, -1.0, finite)
        rate = choose(finite, tf.cast(self.learning_rate, dtype()), 0.0)
        for variable, *rest in zip(self.trained, self.first, self.second, gradients):
            if variable.shape.rank == 1:
                change(variable, *rest, plain, finite)
                continue
            wanted = self.changes[str(tuple(variable.shape))]
            wanted.assign(self.decay * variable)
            change(wanted, *rest, added, finite)
            scale = rate
            if self.adaptive:
                before, after = (tf.linalg.global_norm([each]) for each in (variable, wanted))
                known = tf.logical_and(before > 0, after > 0)
                scale = rate * tf.where(known, before / after, 1.0)
            variable.assign_sub(scale * wanted)
