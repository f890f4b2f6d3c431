"""AdamW (Loshchilov and Hutter 2017) by TensorFlow 1's fused Adam, a rate for each variable."""

import tensorflow as tf

from dlperf.frameworks.tensorflow1.adam import Adam


class AdamW(Adam):
    """The decay in place, then Adam: no more passes over the weights.

    facts: those of a workload, its betas, epsilon and decay, which is of variables of more than one
    dimension. shares: by variable, what its rate is multiplied by; 1 where there is none.
    """

    def __init__(self, facts, dtype, rate, clip_norm, shares=None):
        super().__init__(dtype, rate, (facts.BETA1, facts.BETA2), facts.EPSILON, clip_norm)
        self.decay, self.shares = facts.WEIGHT_DECAY, shares or {}

    def _prepare(self):
        super()._prepare()
        self.rates = {}  # by share: (of the decay, of Adam)
        for share in {1, *self.shares.values()}:
            rate = self.rate * share
            numbers = (rate * self.decay, rate * self.quotient)
            self.rates[share] = [tf.cast(each, self.dtype) for each in numbers]

    def _apply_dense(self, gradient, variable):
        decay, rate = self.rates[self.shares.get(variable, 1)]
        before = [gradient]  # and with it whatever read the weights
        if len(variable.shape) > 1:
            with tf.control_dependencies(before):
                before = [
                    tf.raw_ops.ApplyGradientDescent(var=variable, alpha=decay, delta=variable)
                ]
        with tf.control_dependencies(before):
            return self._change(variable, variable, gradient, rate)
