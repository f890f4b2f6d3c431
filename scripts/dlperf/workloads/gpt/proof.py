"""What proves GPT's equal work: neutral weights, the optimiser as formulas, tolerances."""

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
from dlperf.workloads.encoders.adamw import AdamW
from dlperf.workloads.gpt import facts

#: Of certificates: two stages of a layer each, two heads or four, all of the vocabulary.
DIMENSIONS = {"width": 64, "layers": 2, "heads": 4, "sequence_length": 64}
BATCH_SIZE = 2
SEED = 1  # of batches
LEARNING_RATE = 2.0**-14
SETTINGS = {  # what certificates change of the facts' constants, in every run
    "DROPOUT": 0.0,  # random numbers differ between frameworks
    "ATTENTION_DROPOUT": 0.0,
    # Norms lie between 2.5 and 2.9 on one batch, at 2.2 and 2.3 on two, 2.0 and 1.8 on four: so a
    # clip shows in each, and on four also that it leaves the second step alone.
    "CLIP_NORM": 1.9,
}
DROPOUTS = ("DROPOUT", "ATTENTION_DROPOUT")  # each is shown by itself, in the timed step
# With an epsilon far above every gradient and a rate as large, Adam's first step is the gradient;
# not clipped, so that its scale shows.
GRADIENT_SETTINGS = {"EPSILON": 2.0**20, "WEIGHT_DECAY": 0.0, "CLIP_NORM": 2.0**20}
GRADIENT_LEARNING_RATE = 2.0**20
GIVEN_SCALES = (1e-2, 1e-4, 1e-5)  # the first is clipped

#: fp32's and amp's are of measurements in PyTorch and JAX. Those of TF32 and float16 are BERT's, as
#: are amp's of several steps: no certificate of GPT has measured them yet.
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1e-6, gradient=2e-5, gradient_median=1e-5, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=FULL_PRECISION,
        statistics=NO_BATCH_NORM,
        dropout=1e-5,
        losses=1e-5,
        # DeepSpeed, which has no float64, measured 9e-5; a clip by each shard measures 2e-3
        update=1e-3,
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
    # measured in PyTorch and JAX: losses 6e-5, gradients 0.016, median 0.012, dropout 6e-5
    "amp": Tolerances(
        step=Step(loss=5e-4, gradient=0.06, gradient_median=0.05, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-3,
        statistics=NO_BATCH_NORM,
        dropout=5e-4,
        losses=2e-3,
        update=0.5,
        update_worst=MEDIAN_ALONE,
        outputs=0.05,
        optimizer=1e-2,
    ),
    "amp_fp16": Tolerances(
        step=Step(loss=1e-3, gradient=2e-2, gradient_median=1e-2, gradient_last=SHOWN_BY_ALL),
        neutral=FROM_NEUTRAL,
        least_error=1e-4,
        statistics=NO_BATCH_NORM,
        dropout=1e-3,
        losses=3e-3,
        update=0.3,
        update_worst=MEDIAN_ALONE,
        outputs=1e-2,
        optimizer=1e-2,
    ),
}
LONG_RUNS = {"": (11.1251, 11.1323, 11.1073, 11.0988, 11.1162)}


def neutral(name, shape, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    Products are of the size of their inputs, so that attention's shares differ from one another and
    GELU is far from linear; scales and biases differ from 1 and 0.
    """
    if len(shape) == 2:
        deviation = 0.1 if "embedding" in name else shape[1] ** -0.5
        return deviation * random.standard_normal(shape)
    if "norm" in name and name.endswith("weight"):
        return random.uniform(0.75, 1.25, shape)
    return 0.1 * random.standard_normal(shape)


class Optimizer(AdamW):
    """AdamW with the facts' constants."""

    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM)


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
