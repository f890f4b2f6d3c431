"""Adam by TensorFlow's fused operator: what optimizers that are built on it do alike."""

import tensorflow as tf

from dlperf.frameworks.tensorflow.process import dtype
from dlperf.frameworks.tensorflow.training import choose


class Adam(tf.Module):
    """Moments, a clip by global norm, and the operator, ResourceApplyAdam.

    The operator adds its epsilon beside the root of the uncorrected moment, and corrects in float32
    (where 1 - 0.999 has an error of 1e-5): so epsilon and the rate are scaled before it.
    """

    def __init__(self, variables, learning_rate, betas, epsilon, clip_norm):
        super().__init__()
        self.trained, self.betas, self.epsilon = variables, betas, epsilon
        self.clip_norm = clip_norm
        # a variable, not a constant: of a small rate, 1 - rate x decay would be optimised away
        self.learning_rate = tf.Variable(learning_rate, dtype=tf.float64, trainable=False)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.first = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self.second = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def clipped(self, gradients, norm):
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, norm)
        return gradients

    def next_step(self, finite):
        """Its number, or that of the last where there is none: see training.train."""
        return self.steps.assign_add(choose(finite, tf.constant(1, tf.int64), 0))

    def settings(self, step, rate, finite):
        """The operator's arguments by which weights change, at `rate`, or stay."""
        beta1, beta2 = (tf.constant(beta, dtype()) for beta in self.betas)
        # corrections are of the betas as the operator has them: rounded
        exact1, exact2 = tf.cast(beta1, tf.float64), tf.cast(beta2, tf.float64)
        steps = tf.cast(step, tf.float64)
        root = tf.sqrt(1 - exact2**steps)
        return {
            "lr": choose(finite, tf.cast(rate * root / (1 - exact1**steps), dtype()), 0.0),
            "epsilon": choose(finite, tf.cast(self.epsilon * root, dtype()), 1.0),
            "beta1": choose(finite, beta1, 1.0),
            "beta2": choose(finite, beta2, 1.0),
            "beta1_power": tf.constant(0.0, dtype()),
            "beta2_power": tf.constant(0.0, dtype()),
        }


def change(variable, first, second, gradient, settings, finite):
    """A step of `variable`, whose moments are variables too."""
    handles = {"var": variable.handle, "m": first.handle, "v": second.handle}
    tf.raw_ops.ResourceApplyAdam(grad=choose(finite, gradient, 0.0), **handles, **settings)
