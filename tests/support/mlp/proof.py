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
    dimensions={"image_size": 32},
    batch_size=4,
    seed=1,
    learning_rate=2.0**-10,
    settings={},
    gradient_settings={},
    gradient_learning_rate=1.0,
    neutral=neutral,
    optimizer=Optimizer,
    given_scales=(1.0, 1.0, 1.0),
    tolerances=TOLERANCES,
    long_runs={"": (5.8620, 6.3633, 5.9567, 5.7963, 6.1113)},
)
