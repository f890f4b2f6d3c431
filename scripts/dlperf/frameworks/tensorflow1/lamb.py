"""LAMB (You et al. 2019) in TensorFlow 1, which has none."""

import collections

import tensorflow as tf

from dlperf.frameworks.tensorflow1.adam import Adam


class Lamb(Adam):
    """Adam with bias correction and decay, whose change of a tensor is scaled to the tensor's norm.

    u = m' / (sqrt(v') + epsilon) + decay w; w -= rate |w| / |u| u, the ratio never clipped, and 1
    where a norm is 0 or not `adaptive`. Tensors of one dimension are plain Adam's. The fused
    operator finds u: it starts from decay w, at the rate -1.
    """

    def __init__(self, dtype, rate, betas, epsilon, decay, adaptive, clip_norm):
        super().__init__(dtype, rate, betas, epsilon, clip_norm)
        self.decay, self.adaptive = decay, adaptive

    def _create_slots(self, variables):
        super()._create_slots(variables)
        # of tensors as large, one for all: they take their steps one after the other
        for variable in variables:
            if len(variable.shape) > 1:  # what is there already stays
                zeros = tf.zeros(variable.shape, self.dtype)
                self._create_non_slot_variable(zeros, change_of(variable), variable)

    def _prepare(self):
        super()._prepare()
        self.plain = tf.cast(self.rate * self.quotient, self.dtype)
        self.added = tf.cast(-self.quotient, self.dtype)
        self.fixed = tf.cast(self.rate, self.dtype)
        self.last = collections.defaultdict(list)  # of tensors as large: the step of the last one

    def _apply_dense(self, gradient, variable):
        if len(variable.shape) == 1:
            return self._change(variable, variable, gradient, self.plain)
        name = change_of(variable)
        wanted = self._get_non_slot_variable(name, tf.get_default_graph())
        with tf.control_dependencies(self.last[name]):
            wanted = tf.assign(wanted, self.decay * variable)
        wanted = self._change(wanted, variable, gradient, self.added)
        scale = self.fixed
        if self.adaptive:
            before, after = tf.global_norm([variable]), tf.global_norm([wanted])
            known = tf.logical_and(before > 0, after > 0)
            scale = scale * tf.where(known, before / after, tf.ones_like(after))
        step = tf.raw_ops.ApplyGradientDescent(var=variable, alpha=scale, delta=wanted)
        self.last[name] = [step]
        return step


def change_of(variable):
    return "change_" + "x".join(map(str, variable.shape.as_list()))
