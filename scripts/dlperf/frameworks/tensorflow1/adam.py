"""Adam by TensorFlow 1's fused operator: what optimizers that are built on it do alike."""

import numpy as np
import tensorflow as tf


class Adam(tf.train.Optimizer):
    """Moments, a clip by global norm, and the operator, ApplyAdam. Every gradient is dense.

    The operator adds its epsilon to a root that is not bias-corrected, and corrects by powers of
    beta that it takes in float32: both are made here, in float64, and the operator told of powers
    of zero. rate: a number or, of the quality scenario, a tensor.
    """

    def __init__(self, dtype, rate, betas, epsilon, clip_norm):
        super().__init__(use_locking=False, name=type(self).__name__)
        self.dtype, self.epsilon, self.clip_norm = dtype, epsilon, clip_norm
        # a Python float would become float32
        self.rate = np.float64(rate) if isinstance(rate, float) else tf.cast(rate, tf.float64)
        # as the operator has them: 1 - 0.999 in float32 is 1e-5 off, and its correction too
        self.betas = [dtype.as_numpy_dtype(beta) for beta in betas]

    def apply_gradients(self, gradients, *more, **named):
        """Clipped by their norm all together."""
        gradients, variables = zip(*gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return super().apply_gradients(list(zip(gradients, variables)), *more, **named)

    def _create_slots(self, variables):
        self._create_non_slot_variable(np.float64(0), "steps", colocate_with=variables[0])
        for variable in variables:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _prepare(self):
        """What is the same for all variables, made once: each operator costs time to build."""
        self.steps = self._get_non_slot_variable("steps", tf.get_default_graph())
        correction1, correction2 = [1 - np.float64(b) ** (self.steps + 1) for b in self.betas]
        root = tf.sqrt(correction2)
        self.quotient = root / correction1  # what a rate is to be multiplied by
        self.numbers = dict(
            beta1_power=tf.zeros([], self.dtype),
            beta2_power=tf.zeros([], self.dtype),
            beta1=tf.constant(self.betas[0], self.dtype),
            beta2=tf.constant(self.betas[1], self.dtype),
            epsilon=tf.cast(self.epsilon * root, self.dtype),
        )

    def _change(self, there, variable, gradient, rate):
        """Adam's step of `there`, by the moments of `variable`; rate: as a tensor of the type."""
        return tf.raw_ops.ApplyAdam(
            var=there,
            m=self.get_slot(variable, "m"),
            v=self.get_slot(variable, "v"),
            grad=gradient,
            lr=rate,
            **self.numbers,
        )

    def _finish(self, updates, name):
        with tf.control_dependencies(updates):
            return tf.assign_add(self.steps, np.float64(1), name=name).op
