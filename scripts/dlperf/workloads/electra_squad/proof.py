"""What proves equal work on SQuAD: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    SHOWN_BY_ALL,
    Proof,
    Step,
    Tolerances,
    UpdateRule,
)
from dlperf.workloads.electra_squad import facts

DIMENSIONS = {"sequence_length": 16}  # of certificates: the same layers and all parameters
BATCH_SIZE = 2
# Of batches: in the first one a window has an answer of several tokens and the other none, and one
# is padded; in the second another start is true. The last start that is tried in a test is apart
# from the next one by 0.09 or more in all four windows, so that rounding does not choose.
SEED = 806
LEARNING_RATE = 2.0**-14  # a power of two: some frameworks keep it in float32
SETTINGS = {  # what certificates change of the facts' constants, in every run
    "DROPOUT": 0.0,  # random numbers differ between frameworks
    "ATTENTION_DROPOUT": 0.0,
    # The norms of the first and the third step, 263 and 241, lie above this and are clipped; those
    # of the others, 3 to 209, lie below.
    "CLIP_NORM": 225.0,
}
DROPOUTS = ("DROPOUT", "ATTENTION_DROPOUT")  # each is shown by itself, in the timed step
# With an epsilon far above every gradient and a rate as large, Adam's first step is the gradient.
GRADIENT_SETTINGS = {"EPSILON": 2.0**20, "WEIGHT_DECAY": 0.0}
GRADIENT_LEARNING_RATE = 2.0**20

#: Tolerances in the precision that is timed: one step, and the optimiser alone. `amp`
#: holds for bfloat16 and `amp_fp16` for float16: the type that the process reports decides.
#: The clip divides by a norm over 110 million float32 gradients, which PyTorch on a CPU sums with
#: an error of up to 3e-4.
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
        outputs=1e-5,
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
        outputs=5e-3,
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
        outputs=0.05,
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
        outputs=0.01,
        optimizer=1e-2,
    ),
}
#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {"": (2.0621, 1.3897, 1.7241, 1.1272, 2.0267)}

# Of the gradients given to the optimiser alone, a step each: the second lies above the clip's norm,
# the others below; and an epsilon of 1e-6 shows beside the first.
GIVEN_SCALES = (1e-5, 1.0, 1e-4)


def neutral(name, known, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    Weights twice as wide as usual, so that attention is not uniform, but half as wide where a layer
    adds to its input: else all tokens become alike, and starts and ends too. Those that score a
    place are wider still, so that starts lie apart. Scales are around one; no bias is zero, so that
    weight decay on one shows.
    """
    shape = known.shape
    if len(shape) == 2:
        wide = 2 * facts.INITIAL_DEVIATION
        if name.endswith(("projection.weight", "ffn2.weight")):
            wide = facts.INITIAL_DEVIATION / 2
        if shape[0] == 1:
            wide = 8 * facts.INITIAL_DEVIATION
        return wide * random.standard_normal(shape)
    if "norm" in name and name.endswith("weight"):
        return random.uniform(0.75, 1.25, shape)
    return 0.1 * random.standard_normal(shape)


def norm(gradients):
    """The norm of all gradients together."""
    return sum((each * each).sum() for each in gradients.values()) ** 0.5


class Optimizer(UpdateRule):
    """AdamW with a rate that falls from layer to layer, after a clip by global norm.

    g *= min(1, CLIP_NORM / |g|); m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    w -= rate (m' / (sqrt(v') + epsilon) + decay w), m' = m / (1 - b1^t), v' = v / (1 - b2^t);
    decay on tensors of two dimensions; rate is facts.rate_share of the learning rate. Settings are
    taken from the facts when it is made.
    """

    def __init__(self, weights, dimensions):
        self.clip_norm = facts.CLIP_NORM
        self.epsilon, self.decay = facts.EPSILON, facts.WEIGHT_DECAY
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
            # in place: of the 111 million weights, every copy counts
            gradient, m, v = scale * gradients[name], self.first[name], self.second[name]
            m *= facts.BETA1
            m += (1 - facts.BETA1) * gradient
            v *= facts.BETA2
            gradient *= gradient
            v += (1 - facts.BETA2) * gradient
            change = (v / correction2) ** 0.5
            change += self.epsilon
            change = (m / correction1) / change
            if len(weight.shape) > 1:
                change += self.decay * weight
            change *= learning_rate * facts.rate_share(name)
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
