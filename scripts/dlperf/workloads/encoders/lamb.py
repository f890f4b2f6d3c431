"""LAMB after a clip by global norm, as plain formulas; NumPy or PyTorch."""

from dlperf.workloads.encoders.adamw import AdamW


class Lamb(AdamW):
    """AdamW whose change u of a tensor is scaled to the tensor's norm: w -= rate |w| / |u| u.

    The ratio is 1 where |w| or |u| is 0. Tensors of one dimension have none, and none has one
    unless the facts are ADAPTIVE. You et al. 2019, algorithm 2, with the identity for phi; as
    tensorflow/addons optimizers/lamb.py has it, in NVIDIA's use.
    """

    def __init__(self, facts, weights, clip_norm):
        super().__init__(facts, weights, clip_norm)
        self.adaptive = facts.ADAPTIVE

    def rate(self, name, weight, change, learning_rate):
        if not self.adaptive or len(weight.shape) == 1:
            return learning_rate
        before, after = (float((each * each).sum()) ** 0.5 for each in (weight, change))
        return learning_rate * before / after if before > 0 and after > 0 else learning_rate
