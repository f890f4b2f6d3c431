"""What spot runs of the small model are held to beside their replay."""

from dlperf.contract.spot import Spot

SPOT = {
    "fp32": Spot(
        loss=1e-5,
        losses=1e-4,
        change=(0.01, 0.01),
        change_worst=(0.1, 0.1),
        norm=0.01,
        norm_worst=0.1,
        long_change=0.01,
    ),
}
