"""What spot runs are held to: each workload's spot.py ends with `SPOT`, a Spot a precision.

Apart from the proof: no process that is certified or timed imports it, so that a tolerance that is
set anew makes no certificate stale.
"""

import dataclasses
from typing import Tuple

from dlperf.contract.proof import SHOWN_BY_ALL, Inapplicable, Tolerance

OTHER_TYPE = Inapplicable("what float32 makes of the formulas says nothing of another type")


@dataclasses.dataclass(frozen=True)
class Spot:
    """What a spot run of one precision is held to beside its replay, all relative.

    loss: of a window's first step. losses: of the short window's second one. change,
    change_worst: how far what the short window adds is from the replay's, in the median tensor and
    in the worst one; of a window of one step, and of two. norm, norm_worst: how far the norm of
    what the long window adds is from that of the replay's. long_change: as `change`, of the long
    window, where rounding does not grow in it. change_last: as `change`, of the model's last tensor
    alone, where rounding drowns those before it: little lies between it and the loss.
    along: how far the change of the median matrix is along the weights that it began with, beside
    the replay's, of a window of one step, and of two: what decay adds goes that way.
    rounding: how far what a window adds may be from the replay's, in units of how far the formulas
    themselves are from it in float32: the median over tensors. An honest float32 is at 1 whatever
    the size, and a type of fewer digits is not.
    """

    loss: float
    losses: float
    change: Tuple[Tolerance, Tolerance]
    change_worst: Tuple[Tolerance, Tolerance]
    norm: float
    norm_worst: float
    long_change: Tolerance
    change_last: Tuple[Tolerance, Tolerance] = (SHOWN_BY_ALL, SHOWN_BY_ALL)
    along: Tuple[Tolerance, Tolerance] = (SHOWN_BY_ALL, SHOWN_BY_ALL)
    rounding: Tolerance = OTHER_TYPE
