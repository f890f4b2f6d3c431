"""What a step that is compiled for a GPU must keep to, and where one does not.

Limits are of the kind of work, not of one program: so many kernels for each product, so many bytes
by the workload's own count. Each has a control in xla_controls.py that breaks it.
"""

import collections
import re

from xla_steps import Compiled

#: Products that a page has in float32 under mixed precision, by their place in it: ResNet-50's
#: dense layer; what comes behind the backbone of InsightFace.
STATED = {"resnet50": r"/fc/", "insightface": r"^(?!.*/(?:stem|depthwise|block\d*|last)\b)"}
#: Kernels of a step: so many for each convolution or matrix product, with its norms, activations,
#: dropout, sums and the optimiser's of its weights; and some for lookups and the loss.
KERNELS_A_PRODUCT, MORE_KERNELS = 8, 32
#: LAMB takes the norm of each tensor and of its change besides.
KERNELS_WITH_LAMB = {"electra": 10}
#: The share of all bytes that copies and transposes by themselves may move.
COPIES_SHARE = 0.06
#: XLA takes gradients together up to so many bytes.
COMBINED_BYTES = 30e6
#: How far a step's FLOPs may be from the workload's formula, which counts a gradient of the images
#: that nobody needs, and the most masked words that there can be.
FLOPS_SHARE = 0.015
#: What temporary arrays may take at one time, of what a micro-step's products give.
KEPT_TIMES = 2.5
CARD_BYTES = 84929347584  # h100.txtpb


def problems(made: Compiled) -> dict[str, str]:
    """Kind -> what is wrong; {} of a step that keeps to all of it."""
    found: dict[str, str] = {}
    for check in (host, products, work, kernels, copies, exchanges, traffic, memory):
        found.update(check(made))
    return found


def host(made):
    """The host queues a step, and neither computes in it nor waits for it."""
    if made.program.host:
        yield "host", listed(made.program.host)


def products(made):
    """Products are in the types that the precision asks for, and convolutions are of NHWC images
    where these are narrow."""
    program, precision = made.program, made.step.precision
    if precision.startswith("amp"):
        stated = STATED.get(made.step.workload)
        others = [
            f"{' x '.join(each.types)}: {each.where}"
            for each in program.products
            if set(each.types) != {"bf16"}
            and not (stated and set(each.types) == {"f32"} and re.search(stated, each.where))
        ]
        if others:
            yield "types", listed(others)
        convolutions = [each for each in program.products if each.kind == "convolution"]
        first = [
            f"{each.labels}: {each.where}" for each in convolutions if not each.is_channels_last
        ]
        if first:
            yield "layout", listed(first)
        return
    narrow = {kind for kind in program.types if re.fullmatch(r"bf16|f16|f8.*|f4.*", kind)}
    if narrow or program.rounds:
        yield "types", f"{', '.join(sorted(narrow))} in {precision}, or numbers that are rounded"
    others = [each.where for each in program.products if set(each.types) != {"f32"}]
    if others:
        yield "types", listed(others)
    if precision == "fp32":
        rounded = [each.where for each in program.products if each.is_tf32]
        if rounded:
            yield "tf32", listed(rounded)
    else:
        exact = [each.where for each in program.products if not each.is_tf32]
        if exact:
            yield "exact", listed(exact)


def work(made):
    """Products multiply as often as the workload's own formula says."""
    if made.flops:
        done = sum(each.flops for each in made.program.products)
        if abs(done / made.flops - 1) > FLOPS_SHARE:
            yield "work", f"{done / 1e12:.3f} TFLOP, the workload has {made.flops / 1e12:.3f}"


def kernels(made):
    """What a card runs one after the other is little more than its products."""
    count = made.program.kernels
    each = KERNELS_WITH_LAMB.get(made.step.workload, KERNELS_A_PRODUCT)
    most = MORE_KERNELS + each * len(made.program.products)
    if count > most:
        yield "kernels", f"{count}, at most {most} for {len(made.program.products)} products"


def copies(made):
    """Few bytes are moved from one layout into another and computed on by nobody."""
    count, moved = made.program.transposed
    share = moved / made.program.bytes
    if share > COPIES_SHARE:
        yield "copies", f"{count} move {share:.1%} of all bytes, at most {COPIES_SHARE:.0%}"


def exchanges(made):
    """Gradients are averaged by few exchanges, and kernels run beside them."""
    reduced = [each for each in made.program.collectives if each.kind == "all-reduce"]
    most = 2 + 2 * -(-sum(each.bytes for each in reduced) // COMBINED_BYTES)
    if len(reduced) > most:
        yield "exchanges", f"{len(reduced)} all-reduces, at most {most:.0f}"
    waiting = [each for each in made.program.collectives if not each.asynchronous]
    if waiting:
        kinds = collections.Counter(each.kind for each in waiting)
        yield "waiting", ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def traffic(made):
    """Bytes are between the least that the work takes and what separate kernels would move."""
    limits, moved = made.limits, made.program.bytes
    if limits and moved < limits["least"]:
        yield "less", f"{moved / 1e9:.1f} GB, the work takes {limits['least'] / 1e9:.1f}"
    if limits and moved > limits["eager"]:
        yield "bytes", f"{moved / 1e9:.1f} GB, separate kernels {limits['eager'] / 1e9:.1f}"


def memory(made):
    """Temporary arrays are few beside what the backward pass needs, and the step fits the card."""
    limits, taken = made.limits, made.temporary_bytes
    if limits and taken > KEPT_TIMES * limits["kept"]:
        most = f"{KEPT_TIMES * limits['kept'] / 1e9:.1f}, {KEPT_TIMES} times what products give"
        yield "memory", f"{taken / 1e9:.1f} GB, at most {most}"
    if taken + made.facts["argument_bytes"] > CARD_BYTES:
        yield "card", f"{(taken + made.facts['argument_bytes']) / 1e9:.1f} GB"


def listed(lines):
    """How many, and the first few."""
    return f"{len(lines)}: " + "; ".join(list(dict.fromkeys(lines))[:3])
