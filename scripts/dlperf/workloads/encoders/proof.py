"""What the proofs of encoders share: where dropout stands, neutral weights, tolerances."""

from dlperf.contract.proof import (
    FROM_NEUTRAL,
    FULL_PRECISION,
    MEDIAN_ALONE,
    NO_BATCH_NORM,
    SHOWN_BY_ALL,
    Step,
    Tolerances,
)
from dlperf.contract.tensor import SCALE

DROPOUTS = ("DROPOUT", "ATTENTION_DROPOUT")  # each is shown by itself, in the timed step
#: In every run of a certificate: random numbers differ between frameworks.
WITHOUT_DROPOUT = dict.fromkeys(DROPOUTS, 0.0)

#: With an epsilon far above every gradient and a rate as large, Adam's first step is the gradient;
#: and with a clip at a norm that none has, its scale shows too.
GRADIENT_SETTINGS = {"EPSILON": 2.0**20, "WEIGHT_DECAY": 0.0, "CLIP_NORM": 2.0**20}
GRADIENT_LEARNING_RATE = 2.0**20

#: BERT's in the precision that is timed: one step, and the optimiser alone. `amp` holds for
#: bfloat16 and `amp_fp16` for float16: the type that the process reports decides. The optimiser's
#: clip divides by a norm over 110 million float32 gradients, which PyTorch on a CPU sums with an
#: error of up to 3e-4.
TOLERANCES = {
    "fp32": Tolerances(
        step=Step(loss=1e-6, gradient=1e-4, gradient_median=5e-5, gradient_last=SHOWN_BY_ALL),
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


def tolerances(**changes):
    """TOLERANCES, some otherwise: by precision what `Tolerances.but` takes, measured elsewhere."""
    unknown = set(changes) - set(TOLERANCES)
    if unknown:
        raise TypeError("no tolerances of %s" % ", ".join(sorted(unknown)))
    return {name: each.but(**changes.get(name, {})) for name, each in TOLERANCES.items()}


def neutral(deviation, known, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    deviation: of this tensor, if it is a matrix. Scales are around one; no bias is zero, so that
    weight decay on one shows.
    """
    if known.is_matrix:
        return deviation * random.standard_normal(known.shape)
    if known.kind == SCALE:
        return random.uniform(0.75, 1.25, known.shape)
    return 0.1 * random.standard_normal(known.shape)
