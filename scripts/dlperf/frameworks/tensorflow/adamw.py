"""AdamW (Loshchilov and Hutter 2017) by TensorFlow's fused Adam, a rate for each variable."""

import tensorflow as tf

from dlperf.frameworks.tensorflow.adam import Adam, change
from dlperf.frameworks.tensorflow.process import dtype
from dlperf.frameworks.tensorflow.training import choose


class AdamW(Adam):
    """The operator knows no decay: so weights are scaled before it.

    facts: those of a workload, its betas, epsilon and decay, which is of embeddings and dense
    weights. shares: of each variable, what its rate is multiplied by; all 1 if not given.
    """

    def __init__(self, facts, variables, learning_rate, clip_norm, shares=None):
        betas = (facts.BETA1, facts.BETA2)
        super().__init__(variables, learning_rate, betas, facts.EPSILON, clip_norm)
        self.decay, self.shares = facts.WEIGHT_DECAY, shares or [1] * len(variables)

    def apply(self, gradients, norm=None, finite=None):
        """One step, or none: see training.train."""
        gradients = self.clipped(gradients, norm)
        step, settings, kept = self.next_step(finite), {}, {}
        for share in set(self.shares):
            rate = self.learning_rate * share
            settings[share] = self.settings(step, rate, finite)
            scale = tf.cast(1 - rate * self.decay, dtype())
            kept[share] = choose(finite, scale, 1.0)
        every = zip(self.trained, self.first, self.second, gradients, self.shares)
        for weight, first, second, gradient, share in every:
            if weight.shape.rank > 1:
                weight.assign(weight * kept[share])
            change(weight, first, second, gradient, settings[share], finite)
