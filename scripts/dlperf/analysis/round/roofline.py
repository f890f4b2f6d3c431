"""The least that a training step must compute and move, and how long a device needs for it.

In: a workload with its dimensions, batch size and precision; what a device reaches. Out: FLOPs and
bytes of a step, and seconds for each of them. After Williams, Waterman and Patterson 2009,
"Roofline": no step is faster than its arithmetic at the speed of products, nor than its traffic at
the speed of memory. A workload's facts count its kernels, in the three ways of contract/traffic.py.

Weights and optimiser are the same in all three: weights are read by both passes, gradients written
and read, weights and the optimiser's state, in fp32, read and written; where the passes have narrow
copies of the weights, these are written; and a clip reads the gradients once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlperf import workloads
from dlperf.contract.case import Case
from dlperf.contract.traffic import Kernels

FP32 = 4


@dataclass(frozen=True)
class Step:
    """What one device has to do in a training step."""

    kernels: tuple[Kernels, ...]

    @property
    def flops(self) -> float:
        return sum(each.flops for each in self.kernels)

    def bytes(self, count: str) -> float:
        return float(sum(getattr(each, count) for each in self.kernels))

    def seconds(self, tflops: float, gigabytes: float) -> dict[str, float]:
        """Seconds that a device of these speeds needs.

        arithmetic: of all products. least: of the least traffic. No step takes less than either.
        fused, eager: kernels one after the other, each at the slower of its arithmetic and its
        traffic. A step that is faster than `eager` has kernels that are fused.
        """
        found = {
            "arithmetic": self.flops / tflops / 1e12,
            "least": self.bytes("least") / gigabytes / 1e9,
        }
        for count in ("fused", "eager"):
            found[count] = sum(
                max(each.flops / tflops / 1e12, getattr(each, count) / gigabytes / 1e9)
                for each in self.kernels
            )
        return found


def of_case(case: Case) -> Step | None:
    """A training case's step; None where it is not counted, a model is split over devices, or its
    activations are computed twice."""
    layout = case.layout
    if (
        case.scenario != "train"
        or layout.devices_per_replica > 1
        or layout.activation_checkpointing
    ):
        return None
    count = layout.accumulation
    return step(case.workload, case.dimensions, case.batch_size * count, case.precision, count)


def step(
    workload: str,
    dimensions: Mapping[str, Any],
    samples: int,
    precision: str,
    micro_steps: int = 1,
) -> Step | None:
    """The step of one device that takes in `samples`; None of a workload that counts no kernels.

    In each micro-step both passes read the weights, and the gradients are written; they are read by
    the next one, which adds its own, and in the end by the optimiser.
    """
    own = workloads.of(workload) if workload in workloads.NAMES else None
    if own is None or own.kernels is None:
        return None
    width = 2 if precision.startswith("amp") else FP32
    weights = workloads.parameter_count(workload, dimensions)
    passes = micro_steps * (2 + 2) + int(bool(dimensions.get("clip"))) + int(width != FP32)
    fixed = weights * (width * passes + FP32 * 2 * (1 + own.optimizer_states))
    moved = (each.times(samples, width) for each in own.kernels(dimensions))
    return Step((Kernels(fixed, fixed, fixed), *moved))
