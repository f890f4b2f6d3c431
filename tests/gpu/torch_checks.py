"""What a step of PyTorch on the null device must keep to, and where one does not.

Limits are of the kind of work, not of one program. Each has a control in torch_controls.py that
breaks it.
"""

import re

from torch_exchanges import FLOAT, HALF, exchanges
from torch_steps import Driven
from xla_checks import CARD_BYTES, FLOPS_SHARE, KEPT_TIMES, listed

from dlperf import workloads
from dlperf.contract.layout import Layout

#: How many products a page has in float32 under mixed precision: of InsightFace those behind its
#: backbone, which are MobileFaceNet's last convolution, the dense layer and the classes.
STATED = {"insightface": 9}
#: What the device does in a step: so much for each product, with its norms, activations, dropout,
#: sums and casts; and some for lookups, the loss, the clip and the optimiser. By compiler.
WORK_A_PRODUCT, MORE_WORK = {"none": 6, "inductor": 4}, 64
#: LAMB takes a product with the weights for each tensor, and adds its change. InsightFace's
#: networks have three batch-norms for two convolutions, each of which is five kernels.
MORE_OF_A_WORKLOAD = {"electra": 1, "insightface": 2}
#: Rows of an embedding table that are updated alone are sorted, made unique and summed before.
MORE_WITH_ROWS = 48
#: Each gradient is brought into its bucket, where ranks exchange them.
MORE_WITH_RANKS = 2
#: What is exchanged within a layer is copied before; both are work of the device.
WORK_AN_EXCHANGE = 2
#: A micro-step more has lookups and a loss of its own, which of divided scores takes a maximum,
#: sums and masks.
MORE_A_MICRO_STEP = 24
#: What stays between steps beside weights, gradients and moments: batches, buckets, cuBLAS's own.
MORE_STATE_BYTES = 0.25e9
#: What the host launches where a step is captured: replays, and what stands outside of them.
CAPTURED_LAUNCHES = 32


def problems(made: Driven) -> dict[str, str]:
    """Kind -> what is wrong; {} of a step that keeps to all of it."""
    of_the_host = (answered, host, alike, launches, graphs)
    of_the_work = (products, work, exchanges, attention, memory, state)
    found: dict[str, str] = {}
    for check in (*of_the_host, *of_the_work):
        found.update(check(made))
    return found


def answered(made):
    """The device has all functions that the step calls."""
    if made.log.step.unanswered:
        yield "device", listed(made.log.step.unanswered)


def host(made):
    """The host queues a step, and never waits for the device."""
    waits = [each for step in made.log.steps for each in step.waits]
    if waits:
        yield "host", listed(waits)


def alike(made):
    """All steps of the window tell the device the same."""
    counts = {(step.work, step.launches, len(step.products)) for step in made.log.steps}
    if len(counts) > 1:
        yield "alike", f"(work, launches, products) of steps: {sorted(counts)}"


def products(made):
    """Products are in the types that the precision asks for, and convolutions are of NHWC images
    where these are narrow."""
    precision = made.step.precision
    there = made.log.step.products
    if not there:
        yield "work", "no products"
    if precision in HALF:
        others = [
            f"{each.what} {' '.join(each.types)}"
            for each in there
            if set(each.types[:2]) != {HALF[precision]}
        ]
        is_stated = all("f32 f32 f32" in each for each in others)
        if len(others) > STATED.get(made.step.workload, 0) or not is_stated:
            yield "types", listed(others)
        narrow = [each for each in there if each.is_convolution and "f32" not in each.types[:2]]
        first = [each.what for each in narrow if each.layout != "NHWC"]
        if first:
            yield "layout", listed(first)
        return
    others = [f"{each.what} {' '.join(each.types)}" for each in there if set(each.types) != {"f32"}]
    if others:
        yield "types", listed(others)
    kind, wrong = ("tf32", "tf32") if precision == "fp32" else ("exact", "exact")
    found = [each.what for each in there if each.rounding == wrong]
    if found:
        yield kind, listed(found)


def work(made):
    """Products multiply as often as the workload's own formula says, but for attention: one kernel
    has all its products."""
    whole = made.step.flops
    if whole:
        done = sum(each.flops for each in made.log.step.products)
        expected = whole - (attention_flops(made.step) if made.log.step.attention else 0)
        if abs(done / expected - 1) > FLOPS_SHARE:
            yield "work", f"{done / 1e12:.3f} TFLOP, the workload has {expected / 1e12:.3f}"


def attention_flops(step):
    """FLOPs of a step's products of queries, keys and values: two, and in training four more."""
    facts = workloads.facts(step.workload)
    length = step.all_dimensions.get("sequence_length", 0)
    width, layers = (
        step.all_dimensions.get(name, getattr(facts, name.upper(), 0))
        for name in ("width", "layers")
    )
    samples = step.batch * Layout(**step.layout).accumulation
    times = 3 if step.scenario == "train" else 1
    return samples * times * layers * 4 * length**2 * width


def launches(made):
    """What a card does one after the other is little more than its products."""
    each = WORK_A_PRODUCT[compiler(made.step)]
    each += MORE_OF_A_WORKLOAD.get(made.step.workload, 0)
    if made.step.devices > 1:
        each += MORE_WITH_RANKS
    count, there = made.log.step.work, len(made.log.step.products)
    layout = Layout(**made.step.layout)
    most = MORE_WORK + each * there + MORE_A_MICRO_STEP * (layout.accumulation - 1)
    if workloads.of(made.step.workload).sparse(made.step.all_dimensions):
        most += MORE_WITH_ROWS
    if layout.tensor_parallel > 1:
        most += WORK_AN_EXCHANGE * len(made.log.step.exchanges)
    if count > most:
        yield "launches", f"{count}, at most {most} for {there} products"


def graphs(made):
    """A compiled step of one rank is captured in CUDA graphs, and the host launches little else."""
    step, there = made.step, made.log.step
    micro_steps = Layout(**step.layout).accumulation
    if compiler(step) == "none" or step.devices > 1 or micro_steps > 1:
        return
    said = made.facts["parity"]["cuda_graphs"]
    if not there.graphs or not re.fullmatch(r"captured: [1-9]\d*, skipped: 0", said):
        yield "graphs", f"{there.graphs} replays in a step; {said}"
    elif there.launches > CAPTURED_LAUNCHES:
        yield "graphs", f"{there.launches} launches in a step, at most {CAPTURED_LAUNCHES}"


def attention(made):
    """Attention is one kernel in each layer, of whatever backend."""
    facts = workloads.facts(made.step.workload)
    if not hasattr(facts, "HEADS") and "heads" not in made.step.all_dimensions:
        return
    layers = made.step.layers or made.step.all_dimensions.get("layers") or facts.LAYERS
    layout = Layout(**made.step.layout)
    layers //= layout.pipeline_parallel
    there = made.log.step.attention.total()
    if there < layers * layout.accumulation:
        yield "attention", f"{there} kernels of attention for {layers} layers"
    said = made.facts["parity"]["attention"].partition(": ")[2]
    if said and not all(backend.startswith(said) for backend in made.log.step.attention):
        yield "attention", f"the record says {said}, and it is {listed(made.log.step.attention)}"


def memory(made):
    """What a step keeps beside its weights is little more than what the backward pass needs, and
    the step fits the card."""
    facts, limits = made.facts, made.step.limits
    taken = made.peak_bytes - facts["resident_bytes"]
    if limits and taken > KEPT_TIMES * limits["kept"]:
        most = f"{KEPT_TIMES * limits['kept'] / 1e9:.1f}, {KEPT_TIMES} times what products give"
        yield "memory", f"{taken / 1e9:.1f} GB, at most {most}"
    if facts["device_bytes"] > CARD_BYTES:
        yield "card", f"{facts['device_bytes'] / 1e9:.1f} GB"


def state(made):
    """Between steps a rank of a split model keeps its weights, their gradients and both moments,
    of which ZeRO's stages share the moments, then gradients, then weights over replicas."""
    step, layout = made.step, Layout(**made.step.layout)
    if layout.devices_per_replica == 1 and not layout.zero_stage:
        return
    shared = {0: 0, 1: 2, 2: 4, 3: 4}[layout.zero_stage]  # stage 2 as stage 3: between steps alone
    replicas = layout.data_parallel(step.devices)
    values = 4 - shared + shared / replicas
    most = FLOAT * values * made.facts["parameters"] + MORE_STATE_BYTES
    if made.facts["resident_bytes"] > most:
        yield "state", f"{made.facts['resident_bytes'] / 1e9:.2f} GB, at most {most / 1e9:.2f}"


def compiler(step):
    """ "none" or "inductor", which is the default on a GPU."""
    return step.compiler or "inductor"
