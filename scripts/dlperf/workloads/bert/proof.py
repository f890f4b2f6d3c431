"""What proves BERT's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    SHOWN_BY_ALL,
    Proof,
    Step,
    Tolerances,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.encoders.adamw import AdamW

DIMENSIONS = {"sequence_length": 16}  # of certificates: the same layers and all parameters
BATCH_SIZE = 2
# Of batches. In the first one a sentence has 9 tokens and 1 prediction: so there is padding, an
# empty place for a prediction, and 3 predictions in the first part beside 4 in the others.
SEED = 4
LEARNING_RATE = 2.0**-14  # a power of two: some frameworks keep it in float32
SETTINGS = {  # what certificates change of the facts' constants, in every run
    "DROPOUT": 0.0,  # random numbers differ between frameworks
    "ATTENTION_DROPOUT": 0.0,
    # The five steps' norms lie between 45 and 114: above this some are clipped, below it others
    # show that the norm is right.
    "CLIP_NORM": 64.0,
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
        step=Step(loss=4e-4, gradient=2e-2, gradient_median=1e-2, gradient_last=SHOWN_BY_ALL),
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
LONG_RUNS = {
    "": (10.5647, 10.3133, 11.2092, 10.3937, 10.4697),
    "clip0": (10.5633, 10.3335, 11.2241, 10.4071, 10.4196),
}
# a padded product is the same function
LONG_RUNS.update({"pad1": LONG_RUNS[""], "clip0-pad1": LONG_RUNS["clip0"]})

# Of the gradients given to the optimiser alone, a step each: the second lies above the clip's norm,
# the others below; and an epsilon of 1e-6 shows beside the first.
GIVEN_SCALES = (1e-5, 1.0, 1e-4)


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


class Optimizer(AdamW):
    """AdamW with the facts' constants, after a clip where the case asks for one."""

    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM if dimensions["clip"] else float("inf"))


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
