"""What proves the MLP's equal work."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    NO_DROPOUT,
    NO_INFERENCE,
    SHOWN_BY_ALL,
    Proof,
    Step,
    Tolerances,
    UpdateRule,
)
from dlperf.workloads.mlp import facts

DIMENSIONS = {"image_size": 32}
BATCH_SIZE = 4
SEED = 1
LEARNING_RATE = 2.0**-10
SETTINGS = {}
GRADIENT_SETTINGS = {}
GRADIENT_LEARNING_RATE = 1.0
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1e-5, gradient=1e-3, gradient_median=1e-3, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=FULL_PRECISION,
        statistics=NO_BATCH_NORM,
        dropout=NO_DROPOUT,
        losses=1e-5,
        update=0.02,
        update_worst=MEDIAN_ALONE,
        outputs=NO_INFERENCE,
        optimizer=1e-5,
    ),
}
LONG_RUNS = {"": (5.8620, 6.3633, 5.9567, 5.7963, 6.1113)}
GIVEN_SCALES = (1.0, 1.0, 1.0)


def neutral(name, known, random):
    shape = known.shape
    if len(shape) == 2:
        return shape[1] ** -0.5 * random.standard_normal(shape)
    return 0.1 * random.standard_normal(shape)


class Optimizer(UpdateRule):
    """v = momentum v + g; w -= rate v."""

    def __init__(self, weights, dimensions):
        self.velocities = {name: 0.0 for name in weights}

    def update(self, weights, gradients, learning_rate):
        for name in weights:
            self.velocities[name] = facts.MOMENTUM * self.velocities[name] + gradients[name]
        return {name: weights[name] - learning_rate * self.velocities[name] for name in weights}


PROOF = Proof(
    dimensions=DIMENSIONS,
    batch_size=BATCH_SIZE,
    seed=SEED,
    learning_rate=LEARNING_RATE,
    settings=SETTINGS,
    gradient_settings=GRADIENT_SETTINGS,
    gradient_learning_rate=GRADIENT_LEARNING_RATE,
    neutral=neutral,
    optimizer=Optimizer,
    given_scales=GIVEN_SCALES,
    tolerances=TOLERANCES,
    long_runs=LONG_RUNS,
)
