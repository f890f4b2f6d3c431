"""Neutral weights and the optimiser as formulas, for the reference and for certificates."""

from dlperf.workloads.resnet50 import facts

GIVEN_SCALES = (1.0, 1.0, 1.0)  # of the gradients given to the optimiser alone, a step each


def neutral(name, shape, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    A tenth of the usual deviation in convolutions: small variances show a wrong epsilon. Scales
    around one half, none of them zero: residual branches show, and so does the stride's place. No
    bias is zero, so that weight decay on one shows. Measured: docs/certificates.md.
    """
    if len(shape) == 4:
        fan_out = shape[0] * shape[2] * shape[3]
        return 0.1 * (2.0 / fan_out) ** 0.5 * random.standard_normal(shape)
    if name == "fc.weight":
        return 0.01 * random.standard_normal(shape)
    if name.endswith("weight"):
        return random.uniform(0.25, 0.75, shape)
    return 0.1 * random.standard_normal(shape)


class Optimizer:
    """v = momentum v + g + decay w; w -= rate v. Decay on tensors of two dimensions and more."""

    def __init__(self, weights, dimensions):
        self.velocities = {name: 0.0 for name in weights}

    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}; NumPy or PyTorch."""
        new = {}
        for name, weight in weights.items():
            gradient = gradients[name]
            if len(weight.shape) > 1:
                gradient = gradient + facts.WEIGHT_DECAY * weight
            self.velocities[name] = facts.MOMENTUM * self.velocities[name] + gradient
            new[name] = weight - learning_rate * self.velocities[name]
        return new
