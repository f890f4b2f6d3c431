"""What spot runs of GPT are held to beside their replay: what all transformers are."""

from dlperf.workloads.encoders import spot

SPOT = spot.SPOT
