"""What spot runs on SQuAD are held to beside their replay, by precision."""

import dataclasses

from dlperf.workloads.encoders import spot as encoders

#: In one run in PyTorch the worst tensor's change was 0.14 from the replay's and its norm 0.05, the
#: median tensor's 5e-4; the worst ones may be three times as far.
SPOT = {
    "fp32": dataclasses.replace(encoders.SPOT["fp32"], change_worst=(0.45, 0.45), norm_worst=0.15)
}
