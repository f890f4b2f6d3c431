"""Formulas of what one rank of GPT exchanges in a step, split over ranks or with sharded weights.

In: a gpu_steps.Step. Out: how many exchanges there must be of each kind, type and size, by formulas
of Megatron-LM (Shoeybi et al. 2019, section 3; Narayanan et al. 2021, section 3) and of ZeRO
(Rajbhandari et al. 2020, section 7). Bytes are those of the whole array that is summed or gathered.
"""

import collections

from dlperf import workloads
from dlperf.contract.layout import Layout

FLOAT = 4  # bytes
#: Kind, type, bytes -> how many.
Exchanges = collections.Counter


def is_split(step) -> bool:
    """Whether the layout says what ranks exchange beside averages of gradients."""
    layout = Layout(**step.layout)
    return layout.is_split or layout.zero_stage == 2


def expected(step, narrow: str, parameters: int) -> Exchanges:
    """All exchanges of a rank's step but averages of gradients over replicas.

    narrow: the type of products. parameters: values of all weights.
    """
    layout = Layout(**step.layout)
    if layout.zero_stage:
        return sharded(step, parameters)
    found: Exchanges = Exchanges()
    place = layout.mesh(step.devices).coordinates(step.rank)
    if layout.tensor_parallel > 1:
        found += divided_layers(step, narrow, place.pipeline)
    if layout.pipeline_parallel > 1:
        found += between_stages(step, place.pipeline)
    # the norm of all gradients, over each side of the mesh
    splits = (layout.tensor_parallel > 1) + (layout.pipeline_parallel > 1)
    return found + Exchanges({("all-reduce", "f32", FLOAT): splits})


def divided_layers(step, narrow: str, stage: int) -> Exchanges:
    """All-reduces of activations in a tensor group, in all micro-steps of an update.

    In each layer two in the forward pass, in the type of products, which activation checkpointing
    repeats, and two in the backward pass, of gradients of what a norm gives, in float32. The table
    is divided over its rows, so vectors that are looked up are summed; the head is divided
    likewise, and the cross-entropy takes a maximum and two sums of each token.
    """
    layout, own = Layout(**step.layout), step.all_dimensions
    stages = layout.pipeline_parallel
    tokens = step.batch * own["sequence_length"]
    whole = tokens * own["width"] * FLOAT
    size = whole if narrow == "f32" else whole // 2
    layers = own["layers"] // stages
    counts: Exchanges = Exchanges()
    passes = 2 if layout.activation_checkpointing else 1
    counts["all-reduce", narrow, size] += 2 * layers * passes
    counts["all-reduce", "f32", whole] += 2 * layers + (stage == 0) + (stage == stages - 1)
    counts["all-reduce", "f32", tokens * FLOAT] += 3 * (stage == stages - 1)
    return times(layout.accumulation, counts)


def between_stages(step, stage: int) -> Exchanges:
    """Activations and their gradients between stages, in each micro-step, in float32; and once the
    gradient of the table that the first stage and the last one have."""
    layout, own = Layout(**step.layout), step.all_dimensions
    stages = layout.pipeline_parallel
    size = step.batch * own["sequence_length"] * own["width"] * FLOAT
    neighbours = (stage > 0) + (stage < stages - 1)
    counts = Exchanges({(kind, "f32", size): neighbours for kind in ("send", "receive")})
    counts = times(layout.accumulation, counts)
    if stage in (0, stages - 1):
        rows = workloads.facts(step.workload).VOCABULARY // layout.tensor_parallel
        counts["all-reduce", "f32", rows * own["width"] * FLOAT] += 1
    return counts


def sharded(step, parameters: int) -> Exchanges:
    """ZeRO's stages 2 and 3: in each micro-step the weights of each layer, and all others as one,
    are gathered before the forward pass, and in stage 3 before the backward pass again; gradients
    are summed where they are sharded, once. All in float32."""
    layout, own = Layout(**step.layout), step.all_dimensions
    width, layers = own["width"], own["layers"]
    # attention has 4 products, the inner layer is 4 times as wide; with biases and two norms
    layer = 12 * width**2 + 13 * width
    counts: Exchanges = Exchanges()
    gathers = layout.accumulation * (2 if layout.zero_stage == 3 else 1)
    for kind, count in (("all-gather", gathers), ("reduce-scatter", 1)):
        counts[kind, "f32", layer * FLOAT] += count * layers
        counts[kind, "f32", (parameters - layers * layer) * FLOAT] += count
    counts["all-reduce", "f32", FLOAT] += 1  # the norm of all gradients
    return counts


def times(count: int, each: Exchanges) -> Exchanges:
    return Exchanges({key: count * number for key, number in each.items()})
