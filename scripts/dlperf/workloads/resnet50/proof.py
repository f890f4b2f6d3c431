"""What proves ResNet-50's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import (
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_DROPOUT,
    SHOWN_BY_ALL,
    Inapplicable,
    Proof,
    Step,
    Tolerances,
    UpdateRule,
)
from dlperf.contract.tensor import DENSE, KERNEL, SCALE, VARIANCE, VECTOR
from dlperf.workloads.resnet50 import facts

#: Of gradients from the neutral weights in fewer digits than float32 has.
DROWNED = Inapplicable("they differ by as much as they are long, in every framework")

DIMENSIONS = {"image_size": 64}  # of certificates: the same layers, less time
BATCH_SIZE = 4
SEED = 1  # of batches
# Where ranks exchange gradients, so many take the timed step: two would not tell a sum that is
# divided by 2 from a mean.
TIMED_RANKS = 3
# A power of two: some frameworks keep the rate in float32. No smaller: at 2**-10, five steps from
# the neutral weights amplify a rounding of 1e-10 to 1e-1 (docs/certificates.md).
LEARNING_RATE = 2.0**-7
SETTINGS = {}  # what certificates change of the facts' constants, in every run
GRADIENT_SETTINGS = {}  # and where one step, at the rate below, shows the gradient
GRADIENT_LEARNING_RATE = 2.0**10  # so large that float32 weights do not swamp it

#: Tolerances in the precision that is timed: one step, and the optimiser alone. `amp`
#: holds for bfloat16 and `amp_fp16` for float16: the type that the process reports decides.
#: From the neutral weights (`neutral`, where there is no float64), gradients in bfloat16 differ in
#: all but the last layer by as much as they are long, in every framework.
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1e-5, gradient=0.1, gradient_median=1e-3, gradient_last=2e-5),
        # the median is three times what MindSpore measures, which alone has this step: 0.031
        neutral=Step(loss=1e-5, gradient=0.2, gradient_median=0.1, gradient_last=SHOWN_BY_ALL),
        least_error=FULL_PRECISION,
        statistics=1e-4,
        dropout=NO_DROPOUT,
        losses=5e-3,
        update=0.5,
        update_worst=MEDIAN_ALONE,
        outputs=1e-5,
        optimizer=1e-5,
    ),
    "tf32": Tolerances(
        step=Step(loss=4e-4, gradient=0.2, gradient_median=0.03, gradient_last=2e-3),
        neutral=Step(loss=1e-3, gradient=DROWNED, gradient_median=DROWNED, gradient_last=0.1),
        least_error=1e-3,
        statistics=1e-2,
        dropout=NO_DROPOUT,
        losses=1e-2,
        update=1.0,
        update_worst=MEDIAN_ALONE,
        outputs=5e-3,
        optimizer=1e-5,
    ),
    "amp": Tolerances(
        step=Step(loss=1e-2, gradient=0.9, gradient_median=0.3, gradient_last=0.05),
        neutral=Step(loss=1e-2, gradient=DROWNED, gradient_median=DROWNED, gradient_last=0.5),
        least_error=1e-3,
        statistics=0.1,
        dropout=NO_DROPOUT,
        losses=0.1,
        update=2.0,
        update_worst=MEDIAN_ALONE,
        outputs=0.05,
        optimizer=1e-2,
    ),
    "amp_fp16": Tolerances(
        step=Step(loss=1e-3, gradient=0.2, gradient_median=0.06, gradient_last=4e-3),
        neutral=Step(loss=5e-3, gradient=DROWNED, gradient_median=DROWNED, gradient_last=0.25),
        least_error=1e-3,
        statistics=4e-3,
        dropout=NO_DROPOUT,
        losses=3e-2,
        update=1.5,
        update_worst=MEDIAN_ALONE,
        outputs=0.01,
        optimizer=1e-2,
    ),
}
#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {"": (5.7664, 5.9541, 5.8063, 5.9833, 5.5383)}

GIVEN_SCALES = (1.0, 1.0, 1.0)  # of the gradients given to the optimiser alone, a step each


def neutral(name, known, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    A tenth of the usual deviation in convolutions: small variances show a wrong epsilon. Scales
    around one half, none of them zero: residual branches show, and so does the stride's place. No
    bias is zero, so that weight decay on one shows. Measured: docs/certificates.md.
    """
    shape = known.shape
    if known.kind == KERNEL:
        fan_out = shape[0] * shape[2] * shape[3]
        return 0.1 * (2.0 / fan_out) ** 0.5 * random.standard_normal(shape)
    if known.kind == DENSE:
        return 0.01 * random.standard_normal(shape)
    if known.kind == SCALE:
        return random.uniform(0.25, 0.75, shape)
    return 0.1 * random.standard_normal(shape)


def timed(name, known, random):
    """Weights for the step that is timed, whose rounding they do not amplify.

    Shifts of 2 keep nearly all ReLUs open: rounding turns few of them. So gradients in TF32 and in
    half precision are told apart from those in float32 (docs/certificates.md).
    """
    array = neutral(name, known, random)
    return array + 2 if known.kind == VECTOR and name != "fc.bias" else array


def neutral_statistics(name, known, random):
    """Running statistics of batch-norm that an inference starts from, float32.

    Means that move a layer's inputs, and variances by which a wrong epsilon shows.
    """
    if known.kind == VARIANCE:
        return random.uniform(1e-4, 2e-2, known.shape)
    return 0.02 * random.standard_normal(known.shape)


class Optimizer(UpdateRule):
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
    timed=timed,
    timed_ranks=TIMED_RANKS,
    neutral_statistics=neutral_statistics,
)
