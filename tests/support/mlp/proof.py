"""What proves the MLP's equal work."""

from dlperf.workloads.mlp import facts

DIMENSIONS = {"image_size": 32}
BATCH_SIZE = 4
SEED = 1
LEARNING_RATE = 2.0**-10
SETTINGS = {}
GRADIENT_SETTINGS = {}
GRADIENT_LEARNING_RATE = 1.0
TIMED = {"fp32": {"loss": 1e-5, "gradient": 1e-3, "gradient_median": 1e-3, "optimizer": 1e-5}}
LONG_RUNS = {"": (5.8620, 6.3633, 5.9567, 5.7963, 6.1113)}
GIVEN_SCALES = (1.0, 1.0, 1.0)


def neutral(name, shape, random):
    if len(shape) == 2:
        return shape[1] ** -0.5 * random.standard_normal(shape)
    return 0.1 * random.standard_normal(shape)


class Optimizer:
    """v = momentum v + g; w -= rate v."""

    def __init__(self, weights, dimensions):
        self.velocities = {name: 0.0 for name in weights}

    def update(self, weights, gradients, learning_rate):
        for name in weights:
            self.velocities[name] = facts.MOMENTUM * self.velocities[name] + gradients[name]
        return {name: weights[name] - learning_rate * self.velocities[name] for name in weights}
