"""What spot runs of ELECTRA are held to beside their replay: what all transformers are."""

from dlperf.workloads.encoders import spot

SPOT = spot.SPOT
