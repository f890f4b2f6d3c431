"""What proves ELECTRA's equal work: neutral weights, the optimiser as formulas, tolerances."""

from dlperf.contract.proof import Proof
from dlperf.workloads.electra import facts
from dlperf.workloads.encoders import proof as encoders
from dlperf.workloads.encoders.lamb import Lamb


def neutral(name, known, random):
    """Weights twice as wide as usual, so that attention is not uniform."""
    return encoders.neutral(2 * facts.INITIAL_DEVIATION, known, random)


class Optimizer(Lamb):
    """LAMB with the facts' constants, which counts its steps anew where sequences become longer.

    That is where positions behind those of the first phase have gradients for the first time.
    """

    def __init__(self, weights, dimensions):
        super().__init__(facts, weights, facts.CLIP_NORM)
        self.length, self.longer = dimensions["sequence_length"], False

    def update(self, weights, gradients, learning_rate):
        longer = bool((gradients["position_embedding"][self.length :] != 0).any())
        if longer and not self.longer:
            self.steps = 0
        self.longer = longer
        return super().update(weights, gradients, learning_rate)


PROOF = Proof(
    # The same layers and all parameters. To a quality, all steps but the first are of the second
    # phase: so its start shows where ranks exchange, too, in whose certificates there are two.
    # Batches of three there: another size, and one of which no half can be left out unseen.
    dimensions={
        "sequence_length": 16,
        "first_steps": 1,
        "second_length": 24,
        "second_batch_size": 3,
    },
    batch_size=2,
    # The first batch has a sentence of 9 tokens with 1 chosen place, so that there is padding, an
    # unused place, and 3 places in the first part beside 4 in the others; a chosen word that stays;
    # a true guess; and no sample so close to another that rounding decides (2.4 in the first step,
    # 0.05 in the others; to a quality 0.07 and 0.02).
    seed=4,
    learning_rate=2.0**-14,  # a power of two: some frameworks keep it in float32
    # The first step's norm, above 3,000, lies above this and is clipped; those of the others, 327
    # to 1,212, lie below (to a quality from 2,791 on, and 313 to 1,129): gradients that are summed
    # in place of averaged show there alone, as LAMB and the clip both hide a factor.
    settings={"CLIP_NORM": 2000.0},
    undrawn=dict(encoders.WITHOUT_DROPOUT, GIVEN_NOISE=True),
    gradient_settings=dict(encoders.GRADIENT_SETTINGS, ADAPTIVE=False),  # and no ratio
    gradient_learning_rate=encoders.GRADIENT_LEARNING_RATE,
    neutral=neutral,
    optimizer=Optimizer,
    # The third lies above the clip's norm, the others below; an epsilon of 1e-6 shows beside the
    # first two, and the first has ratios of 40, above the 10 at which some clip them.
    given_scales=(1e-9, 1e-5, 1.0, 1e-4),
    # Weights this wide make the discriminator's scores large, and its loss counts fifty times: in
    # bfloat16 the loss is 6e-3 to 0.0133 off (PyTorch, MXNet, TensorFlow, JAX), and 4.8e-3 where
    # dropout drops everything. Of float16, which has three digits more, an eighth.
    tolerances=encoders.tolerances(
        tf32={"step": {"loss": 1e-4}},
        amp={"step": {"loss": 0.04}, "dropout": 0.015},
        amp_fp16={"step": {"loss": 5e-3}, "dropout": 2e-3},
    ),
    #: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`
    long_runs={"": (27.3374, 27.3078, 28.5631, 28.1795, 27.5335)},
    dropouts=encoders.DROPOUTS,
)
