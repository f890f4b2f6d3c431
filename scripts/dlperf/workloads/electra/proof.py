"""What proves ELECTRA's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    NO_INFERENCE,
    SHOWN_BY_ALL,
    Proof,
    Step,
    Tolerances,
    UpdateRule,
)
from dlperf.workloads.electra import facts

DIMENSIONS = {"sequence_length": 16}  # of certificates: the same layers and all parameters
BATCH_SIZE = 2
# Of batches: the first has a sentence of 9 tokens with 1 chosen place, so that there is padding, an
# unused place, and 3 places in the first part beside 4 in the others; a chosen word that stays; a
# true guess; and no sample so close to another that rounding decides (2.4 in the first step, 0.05
# in the others).
SEED = 4
LEARNING_RATE = 2.0**-14  # a power of two: some frameworks keep it in float32
SETTINGS = {  # what certificates change of the facts' constants, in every run
    "DROPOUT": 0.0,  # random numbers differ between frameworks
    "ATTENTION_DROPOUT": 0.0,
    "GIVEN_NOISE": True,
    # The first step's norm, above 3,000, lies above this and is clipped; those of the others, 327
    # to 1,212, lie below: gradients that are summed in place of averaged show there alone, as LAMB
    # and the clip both hide a factor.
    "CLIP_NORM": 2000.0,
}
DROPOUTS = ("DROPOUT", "ATTENTION_DROPOUT")  # each is shown by itself, in the timed step
# With an epsilon far above every gradient, a rate as large, and no ratio, the first step is the
# gradient.
GRADIENT_SETTINGS = {"EPSILON": 2.0**20, "WEIGHT_DECAY": 0.0, "ADAPTIVE": False}
GRADIENT_LEARNING_RATE = 2.0**20

#: Tolerances in the precision that is timed: one step, and the optimiser alone. `amp`
#: holds for bfloat16 and `amp_fp16` for float16: the type that the process reports decides.
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1e-6, gradient=2e-3, gradient_median=1e-3, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=FULL_PRECISION,
        statistics=NO_BATCH_NORM,
        dropout=1e-5,
        losses=1e-5,
        update=0.02,
        update_worst=MEDIAN_ALONE,
        outputs=NO_INFERENCE,
        optimizer=1e-3,
    ),
    "tf32": Tolerances(
        step=Step(loss=1e-4, gradient=2e-2, gradient_median=1e-2, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-4,
        statistics=NO_BATCH_NORM,
        dropout=1e-4,
        losses=1e-3,
        update=0.2,
        update_worst=MEDIAN_ALONE,
        outputs=NO_INFERENCE,
        optimizer=1e-3,
    ),
    "amp": Tolerances(
        step=Step(loss=3e-3, gradient=0.1, gradient_median=0.06, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-3,
        statistics=NO_BATCH_NORM,
        dropout=3e-3,
        losses=1e-2,
        update=0.5,
        update_worst=MEDIAN_ALONE,
        outputs=NO_INFERENCE,
        optimizer=1e-2,
    ),
    "amp_fp16": Tolerances(
        step=Step(loss=6e-4, gradient=0.02, gradient_median=0.015, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=6e-4,
        statistics=NO_BATCH_NORM,
        dropout=6e-4,
        losses=3e-3,
        update=0.3,
        update_worst=MEDIAN_ALONE,
        outputs=NO_INFERENCE,
        optimizer=1e-2,
    ),
}
#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {"": (27.3374, 27.3078, 28.5631, 28.1795, 27.5335)}

# Of the gradients given to the optimiser alone, a step each: the third lies above the clip's norm,
# the others below; an epsilon of 1e-6 shows beside the first two, and the first has ratios of 40,
# above the 10 at which some clip them.
GIVEN_SCALES = (1e-9, 1e-5, 1.0, 1e-4)


def neutral(name, known, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    Weights twice as wide as usual, so that attention is not uniform; scales around one; no bias is
    zero, so that weight decay on one shows.
    """
    shape = known.shape
    if len(shape) == 2:
        return 2 * facts.INITIAL_DEVIATION * random.standard_normal(shape)
    if "norm" in name and name.endswith("weight"):
        return random.uniform(0.75, 1.25, shape)
    return 0.1 * random.standard_normal(shape)


def norm(gradients):
    """The norm of all gradients together."""
    return sum((each * each).sum() for each in gradients.values()) ** 0.5


class Optimizer(UpdateRule):
    """LAMB, after a clip by global norm.

    g *= min(1, CLIP_NORM / |g|); m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    u = m' / (sqrt(v') + epsilon) + decay w, m' = m / (1 - b1^t), v' = v / (1 - b2^t);
    w -= rate |w| / |u| u, a tensor by itself; the ratio is 1 where |w| or |u| is 0. Tensors of one
    dimension have neither decay nor ratio. You et al. 2019, algorithm 2, with the identity for phi;
    as tensorflow/addons optimizers/lamb.py has it, in NVIDIA's use. Settings are taken from the
    facts when it is made.
    """

    def __init__(self, weights, dimensions):
        self.clip_norm = facts.CLIP_NORM
        self.epsilon, self.decay, self.adaptive = facts.EPSILON, facts.WEIGHT_DECAY, facts.ADAPTIVE
        self.first = {name: 0.0 * weight for name, weight in weights.items()}
        self.second = {name: 0.0 * weight for name, weight in weights.items()}
        self.steps = 0
        self.norms = []  # before the clip, a step each

    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}; NumPy or PyTorch."""
        self.steps += 1
        length = float(norm(gradients))
        self.norms.append(length)
        scale = 1.0 if length <= self.clip_norm else self.clip_norm / length
        correction1 = 1 - facts.BETA1**self.steps
        correction2 = 1 - facts.BETA2**self.steps
        new = {}
        for name, weight in weights.items():
            # in place: of the 119 million weights, every copy counts
            gradient, m, v = scale * gradients[name], self.first[name], self.second[name]
            m *= facts.BETA1
            m += (1 - facts.BETA1) * gradient
            v *= facts.BETA2
            gradient *= gradient
            v += (1 - facts.BETA2) * gradient
            change = (v / correction2) ** 0.5
            change += self.epsilon
            change = (m / correction1) / change
            rate = learning_rate
            if len(weight.shape) > 1:
                change += self.decay * weight
                before, after = (float((each * each).sum()) ** 0.5 for each in (weight, change))
                if self.adaptive and before > 0 and after > 0:
                    rate = learning_rate * before / after
            change *= rate
            new[name] = weight - change
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
    dropouts=DROPOUTS,
)
