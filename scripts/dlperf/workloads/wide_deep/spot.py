"""What spot runs of Wide & Deep are held to beside their replay, by precision."""

from dlperf.contract.spot import Spot

#: In float32 losses differ by 1e-7, changes by 1e-6 and norms by 1e-7, after eight steps too; but
#: where rounding turns a ReLU, in one of fifty runs, changes do by up to 4e-3 after two steps (the
#: worst tensor's by 0.045) and 0.013 after eight, and norms by 6e-4 (210 runs of the formulas in
#: float32 beside float64, batches of 64 and 512).
#:
#: `amp` is bfloat16, at least three times the worst of spot runs in PyTorch, TensorFlow, JAX and
#: MXNet on a CPU, of batches of 64, 512 and 4096, 2 and 7 layers, windows of 3 to 10 steps: a loss
#: 7.9e-5 off, a second one 3.7e-4, changes 0.15 (the worst tensor's 0.34; 7 layers), norms 3.3e-3,
#: and a window's change 0.25. The worst norm, 0.089, is that of TensorFlow's bias of the output at
#: 4096, whose gradient it sums up in bfloat16; others' is 0.018. A first step of Adam goes by the
#: signs of gradients, so it shows each one that rounding turns. Half of a batch is 0.7 off (norms
#: 0.06), an epsilon of 1e-6 0.05 in norms; dropout that is left out, a beta2 of 0.99 (norms 9e-3)
#: and tables that are kept in bfloat16 do not show.
SPOT = {
    "fp32": Spot(
        loss=1e-6,
        losses=1e-4,
        change=(0.015, 0.015),
        change_worst=(0.15, 0.15),
        norm=1e-3,
        norm_worst=0.01,
        long_change=0.05,
    ),
    "amp": Spot(
        loss=1e-3,
        losses=3e-3,
        change=(0.5, 0.5),
        change_worst=(1.1, 1.1),
        norm=0.01,
        norm_worst=0.3,
        long_change=0.8,
    ),
}
