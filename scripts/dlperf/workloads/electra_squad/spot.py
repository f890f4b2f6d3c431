"""What spot runs on SQuAD are held to beside their replay, by precision."""

import dataclasses

from dlperf.workloads.encoders import spot as encoders

#: In one run in PyTorch the worst tensor's change was 0.14 from the replay's and its norm 0.05, the
#: median tensor's 5e-4; the worst ones may be three times as far.
#:
#: `amp` is bfloat16, three times the worst of two spot runs each in PyTorch and TensorFlow and of
#: one each in MXNet and JAX on a CPU (64 tokens, batches of 2): losses are 1.2e-3 off, changes 0.11
#: (the worst tensor's 0.27), norms 5.6e-4 (0.05), a window's changes 0.041.
SPOT = {
    "fp32": dataclasses.replace(encoders.SPOT["fp32"], change_worst=(0.45, 0.45), norm_worst=0.15),
    "amp": dataclasses.replace(
        encoders.SPOT["amp"],
        loss=4e-3,
        losses=4e-3,
        change=(0.35, 0.35),
        change_worst=(0.75, 0.75),
        norm_worst=0.15,
    ),
}
