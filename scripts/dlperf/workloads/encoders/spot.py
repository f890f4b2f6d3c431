"""What spot runs of transformers are held to beside their replay, by precision."""

from dlperf.contract.spot import Spot

#: Of spot runs. Norms' scales move by a ten-thousandth of themselves in a step, where float32 has
#: seven digits: that is the worst tensor's distance.
SPOT = {
    "fp32": Spot(
        loss=3e-6,
        losses=1e-5,
        change=(2e-3, 2e-3),
        change_worst=(0.15, 0.15),
        norm=1e-3,
        norm_worst=0.1,
        long_change=0.01,
    ),
}
