"""The optimiser of ResNet-50 v1.5 as a formula, for the reference and for certificates."""

from dlperf.workloads.resnet50 import facts


class Optimizer:
    """v = momentum v + g + decay w; w -= rate v. Decay on tensors of two dimensions and more."""

    def __init__(self, weights):
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
