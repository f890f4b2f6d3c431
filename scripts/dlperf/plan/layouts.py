"""The layouts that a workload's section asks for, and the topologies that they fit.

In: a list of maps in the config. Out: a `Layout` for each, and problems: one that stands twice in
its list, or that fits none of the topologies of its section.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from dlperf.contract import layout as contract
from dlperf.contract.choices import Section
from dlperf.contract.layout import ZERO_STAGES
from dlperf.contract.problems import Problem
from dlperf.plan.values import PositiveInt, split_topology


class Layout(Section):
    """How a model is spread over devices, and what one update takes in."""

    data_parallel: PositiveInt | None = Field(
        default=None,
        description="Only on topologies with so many model replicas: devices / (tensor_parallel x "
        "pipeline_parallel). By default, on all topologies.",
        examples=[4],
    )
    tensor_parallel: PositiveInt = Field(
        default=1,
        description="The number of devices over which each matrix of a model replica is split, if "
        "the workload can be split.",
        examples=[8],
    )
    pipeline_parallel: PositiveInt = Field(
        default=1,
        description="The number of devices over which the layers of a model replica are split, if "
        "the workload can be split.",
        examples=[2],
    )
    zero_stage: int = Field(
        default=0,
        ge=ZERO_STAGES[0],
        le=ZERO_STAGES[-1],
        description="What model replicas shard instead of having a copy each (ZeRO): 0 nothing, 1 "
        "the optimiser's state, 2 also gradients, 3 also weights.",
        examples=[2],
    )
    accumulation: PositiveInt = Field(
        default=1,
        description="The number of micro-steps in an update: the gradients of so many batches are "
        "averaged before the weights change. The global batch is batch size x model replicas x "
        "accumulation.",
        examples=[8],
    )
    activation_checkpointing: bool = Field(
        default=False,
        description="Whether the backward pass computes activations again, which saves memory.",
        examples=[True],
    )

    @property
    def layout(self) -> contract.Layout:
        """The layout itself, whatever it is measured on."""
        return contract.Layout(**self.model_dump(exclude={"data_parallel"}))

    def is_planned(self, devices: int) -> bool:
        """Whether there are cases on so many devices; some of them may be unsupported."""
        return self.data_parallel is None or self.fits(devices)

    def fits(self, devices: int) -> bool:
        """Whether so many devices are split into replicas, as many as `data_parallel` says."""
        replicas, rest = divmod(devices, self.tensor_parallel * self.pipeline_parallel)
        return not rest and self.data_parallel in (None, replicas)


def doubled(place: str, layouts: Sequence[Layout]) -> Iterator[Problem]:
    """Layouts that stand twice in the list at `place`, standard values spelled out or not."""
    for index, asked in enumerate(layouts):
        if (first := layouts.index(asked)) < index:
            message = f"is the same layout as {place}[{first}]; leave one out"
            yield Problem(f"{place}[{index}]", _spelled(asked), message)


def fitting_nowhere(
    place: str, layouts: Sequence[Layout], topologies: Sequence[str]
) -> Iterator[Problem]:
    """Layouts of the list at `place` that fit none of these topologies."""
    counts = {topology: math.prod(split_topology(topology)) for topology in topologies}
    for index, asked in enumerate(layouts):
        if any(map(asked.fits, counts.values())):
            continue
        key, allowed = _to_change(asked, sorted(set(counts.values())))
        value = getattr(asked, key)
        found = ", ".join(f"{topology} ({count})" for topology, count in counts.items())
        message = f"fits no topology: the devices of {found} cannot be spread so"
        nearest = str(min(allowed, key=lambda each: (abs(each - value), each))) if allowed else ""
        yield Problem(
            f"{place}[{index}].{key}", str(value), message, tuple(map(str, allowed)), nearest
        )


def _to_change(asked: Layout, counts: Sequence[int]) -> tuple[str, list[int]]:
    """The key that has to change for a layout to fit, and the values with which it does.

    Where no single key helps, the values are right with all other keys left out.
    """
    keys = [key for key in ("data_parallel", *_REPLICA) if getattr(asked, key) not in (None, 1)]
    keys = keys or ["data_parallel"]
    for key in keys:
        if allowed := _fitting(asked, key, counts):
            return key, allowed
    return keys[-1], _fitting(Layout(), keys[-1], counts)


_REPLICA = ("tensor_parallel", "pipeline_parallel")


def _fitting(asked: Layout, key: str, counts: Sequence[int]) -> list[int]:
    """The values of `key` with which a layout fits any of these numbers of devices."""
    found = {value for count in counts for value in _divisors(count)}
    changed = (asked.model_copy(update={key: value}) for value in sorted(found))
    return [getattr(each, key) for each in changed if any(map(each.fits, counts))]


def _divisors(count: int) -> Iterator[int]:
    for small in range(1, math.isqrt(count) + 1):
        if count % small == 0:
            yield from {small, count // small}


def _spelled(asked: Layout) -> str:
    """'{accumulation: 8}': a layout as the config has it, standard values left out."""
    given: dict[str, Any] = asked.model_dump(exclude_defaults=True)
    return "{" + ", ".join(f"{key}: {str(value).lower()}" for key, value in given.items()) + "}"
