"""What proves BERT's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import Proof
from dlperf.workloads.bert import facts
from dlperf.workloads.encoders import proof as encoders
from dlperf.workloads.encoders.adamw import AdamW

#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {
    "": (10.5647, 10.3133, 11.2092, 10.3937, 10.4697),
    "clip0": (10.5633, 10.3335, 11.2241, 10.4071, 10.4196),
}
# a padded product is the same function
LONG_RUNS.update({"pad1": LONG_RUNS[""], "clip0-pad1": LONG_RUNS["clip0"]})


def neutral(name, known, random):
    """Weights twice as wide as usual, so that attention is not uniform."""
    return encoders.neutral(2 * facts.INITIAL_DEVIATION, known, random)


class Optimizer(AdamW):
    """AdamW with the facts' constants, after a clip where the case asks for one."""

    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM if dimensions["clip"] else float("inf"))


PROOF = Proof(
    dimensions={"sequence_length": 16},  # the same layers and all parameters
    batch_size=2,
    # In the first batch a sentence has 9 tokens and 1 prediction: so there is padding, an empty
    # place for a prediction, and 3 predictions in the first part beside 4 in the others.
    seed=4,
    learning_rate=2.0**-14,  # a power of two: some frameworks keep it in float32
    # The five steps' norms lie between 45 and 114: above this some are clipped, below it others
    # show that the norm is right.
    settings={"CLIP_NORM": 64.0},
    undrawn=encoders.WITHOUT_DROPOUT,
    gradient_settings=encoders.GRADIENT_SETTINGS,
    gradient_learning_rate=encoders.GRADIENT_LEARNING_RATE,
    neutral=neutral,
    optimizer=Optimizer,
    # The second lies above the clip's norm, the others below; and an epsilon of 1e-6 shows beside
    # the first.
    given_scales=(1e-5, 1.0, 1e-4),
    tolerances=encoders.TOLERANCES,
    long_runs=LONG_RUNS,
    dropouts=encoders.DROPOUTS,
)
