"""What proves Wide & Deep's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    SHOWN_BY_ALL,
    Float64,
    Proof,
    Step,
    Tolerances,
    UpdateRule,
)
from dlperf.contract.tensor import EMBEDDING, VECTOR
from dlperf.workloads.wide_deep import facts

#: Of certificates: 600 rows a field. The sample's ids end at 14,668; the rows behind them rest.
DIMENSIONS = {"vocabulary": 15600, "width": 16, "layers": 7}
BATCH_SIZE = 64
SEED = 5  # of batches: in each, fields of few values repeat a row; most rows rest in the others
#: A power of two, as some frameworks keep it in float32; so small that five steps of Adam, which
#: move all weights of a unit alike, turn no ReLU.
LEARNING_RATE = 2.0**-15
#: Of hidden units: the size of their biases, and one in how many is closed.
BIAS, CLOSED = 1.75, 4
DROPOUTS = ("DROPOUT",)
# With an epsilon far above every gradient, Adam's first step is sqrt(1 - b2), 1/32, of the gradient
# times the rate over epsilon. A large rate, so that the rounding of float32 weights does not count.
GRADIENT_SETTINGS = {"EPSILON": 2.0**20}
GRADIENT_LEARNING_RATE = 2.0**30

#: Tolerances of float64 steps that are this workload's own. MXNet keeps Adam's settings in float32:
#: that is 1.0e-6 of a gradient and 8e-7 of an update, whatever the seeds are.
FLOAT64 = Float64(gradient=3e-6, update=3e-6)
#: Tolerances in the precision that is timed: one step, and the optimiser alone. Those of fp32 are
#: three times the worst of all frameworks over ten pairs of seeds (benchmarks/tolerances.py).
#: `amp` holds for bfloat16 and `amp_fp16` for float16. Steps from neutral weights stay together:
#: where float64 is missing, `update_worst` holds each tensor of five steps in float32.
#: On a CPU bfloat16 measured a loss 1.6e-3 off and gradients 5e-3 to 0.014 (median; PyTorch,
#: TensorFlow, JAX), float16 2.6e-5 and 6e-4 (PyTorch). tf32 has as many digits as float16; it has
#: its tolerance and was not measured. `least_error` lies between these and what float32 measures.
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1.2e-6, gradient=3e-5, gradient_median=2e-5, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=FULL_PRECISION,
        statistics=NO_BATCH_NORM,
        dropout=1e-6,
        losses=4e-6,
        update=3e-3,
        update_worst=5e-3,
        outputs=1e-5,
        optimizer=2e-5,
    ),
    "tf32": Tolerances(
        step=Step(loss=1e-4, gradient=5e-2, gradient_median=1e-2, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=2e-5,
        statistics=NO_BATCH_NORM,
        dropout=1e-4,
        losses=1e-3,
        update=0.2,
        update_worst=MEDIAN_ALONE,
        outputs=3e-3,
        optimizer=1e-4,
    ),
    "amp": Tolerances(
        step=Step(loss=5e-3, gradient=0.1, gradient_median=0.05, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-3,
        statistics=NO_BATCH_NORM,
        dropout=4e-3,
        losses=1e-2,
        update=0.5,
        update_worst=MEDIAN_ALONE,
        outputs=0.02,
        optimizer=1e-2,
    ),
    "amp_fp16": Tolerances(
        step=Step(loss=2e-4, gradient=0.02, gradient_median=5e-3, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-4,
        statistics=NO_BATCH_NORM,
        dropout=1e-3,
        losses=2e-3,
        update=0.3,
        update_worst=MEDIAN_ALONE,
        outputs=3e-3,
        optimizer=1e-2,
    ),
}
#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {
    "": (0.7260, 0.6917, 0.6974, 0.6897, 0.7125),
    "adamdense": (0.7260, 0.6917, 0.6974, 0.6897, 0.7125),
}
# Of the gradients given to the optimiser alone, a step each: as small as the model's, beside which
# an epsilon of 1e-7 shows.
GIVEN_SCALES = (1e-6, 1e-3, 1e-5)


def neutral(name, known, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    Rows of the tables are wide apart, so that another row or another order shows. Every fourth unit
    is closed for all samples, which a missing ReLU would show, and the others are open: their bias
    is seven deviations of what samples add to it. So rounding turns no ReLU, one of which moves the
    gradient of a batch of 64 by half a per cent. Weights of a layer sum to zero over its open
    inputs: what samples differ by does not drown in what they share. The output's bias is so large
    that most errors have one sign: gradients that cancel would be nothing but rounding.
    """
    shape = known.shape
    if known.kind == EMBEDDING:
        return 0.5 * random.standard_normal(shape)
    if name == "output.bias":
        return 2.0 + 0.1 * random.standard_normal(shape)
    if known.kind == VECTOR:
        biases = BIAS + 0.02 * random.standard_normal(shape)
        biases[::CLOSED] -= 2 * BIAS
        return biases
    weights = random.standard_normal(shape)
    if shape[1] != facts.UNITS:  # of the rows of the tables, whose deviation is 0.5
        return weights * (BIAS / 7) / (0.5 * shape[1] ** 0.5)
    closed = weights[:, ::CLOSED].copy()
    opened = weights.shape[1] - closed.shape[1]
    weights -= (weights.sum(1) - closed.sum(1))[:, None] / opened
    weights[:, ::CLOSED] = closed
    # of the output less, as a step of Adam moves all that it adds up in one direction
    return weights * (0.25 if name == "output.weight" else 1.0) / opened**0.5


class Optimizer(UpdateRule):
    """Adam, of which a row of a table that no sample looked up rests, moments and all, where the
    dimension `adam` says `lazy`.

    m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    w -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon); t counts steps, not those of a
    row; g is the sum over all places that look a row up (Kingma and Ba 2015, end of section 2).
    A row whose gradient is zero to the last digit counts as one that nobody looked up.
    Settings are taken from the facts when it is made.
    """

    def __init__(self, weights, dimensions):
        self.epsilon, self.sparse = facts.EPSILON, facts.sparse(dimensions)
        self.first = {name: 0.0 * weight for name, weight in weights.items()}
        self.second = {name: 0.0 * weight for name, weight in weights.items()}
        self.steps = 0

    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}; NumPy or PyTorch."""
        self.steps += 1
        correction = (1 - facts.BETA2**self.steps) ** 0.5 / (1 - facts.BETA1**self.steps)
        new = {}
        for name, weight in weights.items():
            gradient, m, v = gradients[name], self.first[name], self.second[name]
            rows = slice(None)
            if name in self.sparse:
                rows = (gradient != 0).any(1)
            m[rows] = facts.BETA1 * m[rows] + (1 - facts.BETA1) * gradient[rows]
            v[rows] = facts.BETA2 * v[rows] + (1 - facts.BETA2) * gradient[rows] ** 2
            change = 0.0 * weight
            change[rows] = learning_rate * correction * m[rows] / (v[rows] ** 0.5 + self.epsilon)
            new[name] = weight - change
        return new


PROOF = Proof(
    dimensions=DIMENSIONS,
    batch_size=BATCH_SIZE,
    seed=SEED,
    learning_rate=LEARNING_RATE,
    settings={},
    undrawn=dict.fromkeys(DROPOUTS, 0.0),
    gradient_settings=GRADIENT_SETTINGS,
    gradient_learning_rate=GRADIENT_LEARNING_RATE,
    neutral=neutral,
    optimizer=Optimizer,
    given_scales=GIVEN_SCALES,
    tolerances=TOLERANCES,
    long_runs=LONG_RUNS,
    dropouts=DROPOUTS,
    float64=FLOAT64,
)
