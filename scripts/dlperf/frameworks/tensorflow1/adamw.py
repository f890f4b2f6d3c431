"""AdamW (Loshchilov and Hutter 2017) by TensorFlow 1's fused Adam, a rate for each variable."""

import tensorflow as tf

from dlperf.frameworks.tensorflow1.adam import Adam


class AdamW(Adam):
    """The decay in place, then Adam: no more passes over the weights.

    decay: of variables of more than one dimension. shares: each variable's share of the rate.
    """

    def __init__(self, dtype, rate, betas, epsilon, decay, clip_norm, shares):
        super().__init__(dtype, rate, betas, epsilon, clip_norm)
        self.decay, self.shares = decay, shares

    def _prepare(self):
        super()._prepare()
        self.rates = {}  # by share: (of the decay, of Adam)
        for share in set(self.shares.values()):
            rate = self.rate * share
            numbers = (rate * self.decay, rate * self.quotient)
            self.rates[share] = [tf.cast(each, self.dtype) for each in numbers]

    def _apply_dense(self, gradient, variable):
        decay, rate = self.rates[self.shares[variable]]
        before = [gradient]  # and with it whatever read the weights
        if len(variable.shape) > 1:
            with tf.control_dependencies(before):
                before = [
                    tf.raw_ops.ApplyGradientDescent(var=variable, alpha=decay, delta=variable)
                ]
        with tf.control_dependencies(before):
            return self._change(variable, variable, gradient, rate)
