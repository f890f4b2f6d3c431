"""Checks of what ranks exchange in a step of PyTorch.

Averages of gradients keep to limits, and what a layout asks for besides is as its formulas have it
(torch_layouts.py). Each has a control in torch_controls.py that breaks it.
"""

import torch_layouts
from xla_checks import listed

from dlperf import workloads
from dlperf.contract.layout import Layout

HALF = {"amp": "bf16", "amp_fp16": "f16"}
FLOAT = 4  # bytes
#: Gradients are exchanged in buckets of so many bytes; the first one is smaller.
BUCKET_BYTES = 25 * 2**20
#: Buckets that may be full behind the last product: the last one, and that of an embedding table,
#: whose gradient is no product. A compiled part of the backward pass gives all its gradients when
#: it ends.
LATE_EXCHANGES = {"none": 2, "inductor": 3}


def exchanges(made):
    """Gradients are averaged whole, in float32 and in few exchanges, and products run beside all
    but the last ones. What else ranks exchange is what the layout asks for."""
    step, others = made.step, made.log.step.exchanges
    layout = Layout(**step.layout)
    if torch_layouts.is_split(step):
        wrong, others = apart(made)
        if wrong:
            yield "split", listed(wrong)
    if layout.zero_stage == 1:
        yield from updates(made)
    reduced = [each for each in others if each.kind == "all-reduce"]
    size = sum(each.bytes for each in reduced)
    is_averaged = layout.data_parallel(step.devices) > 1 and layout.zero_stage < 2
    if is_averaged and step.scenario == "train":
        least = FLOAT * made.facts["parameters"] if is_replicated(step) else 1
        if (size if is_replicated(step) else sum(each.bytes for each in others)) < least:
            yield "gradients", f"{size} bytes of {least} are exchanged"
        narrow = [f"{each.kind} of {each.type}" for each in reduced if each.type in HALF.values()]
        if narrow:
            yield "gradients", listed(narrow)
    if len(reduced) > buckets(size):
        yield "exchanges", f"{len(reduced)} all-reduces, at most {buckets(size)}"
    late = [each for each in reduced if not each.beside]
    if len(late) > LATE_EXCHANGES[step.compiler or "inductor"]:
        yield "waiting", f"{len(late)} all-reduces of {len(reduced)} behind the last product"


def is_replicated(step) -> bool:
    """Whether all replicas have all parameters, and gradients of all: not of rows alone, nor of
    classes that ranks divide."""
    workload, dimensions = workloads.of(step.workload), step.all_dimensions
    return not workload.sparse(dimensions) and dimensions.get("head", "data") == "data"


def buckets(size: int) -> int:
    """In how many exchanges so many bytes may be moved at most."""
    return 2 + -(-size // BUCKET_BYTES)


def apart(made):
    """(how exchanges differ from those that the layout asks for, averages of gradients)."""
    step = made.step
    narrow = HALF.get(step.precision, "f32")
    missing = torch_layouts.expected(step, narrow, made.facts["parameters"])
    layout = Layout(**step.layout)
    is_averaged = layout.data_parallel(step.devices) > 1 and layout.zero_stage < 2
    wrong, averages = [], []
    # from the end: stages sum the table that two of them have after its average, of the same size
    for each in reversed(made.log.step.exchanges):
        key = each.kind, each.type, each.bytes
        if missing[key]:
            missing[key] -= 1
        elif is_averaged and each.kind == "all-reduce":
            averages.append(each)
        else:
            wrong.append(f"not asked for: {' '.join(map(str, key))}")
    lacking = [f"missing: {' '.join(map(str, key))}" for key in missing.elements()]
    return lacking + wrong, averages


def updates(made):
    """ZeRO's stage 1: each replica sends the weights that it has updated to the others."""
    sent = [each for each in made.log.step.exchanges if each.kind == "broadcast"]
    size, whole = sum(each.bytes for each in sent), FLOAT * made.facts["parameters"]
    if size != whole or any(each.type != "f32" for each in sent):
        yield "split", f"{size} bytes of weights of {whole} are sent to other replicas"
    if len(sent) > buckets(whole):
        yield "exchanges", f"{len(sent)} broadcasts of weights, at most {buckets(whole)}"
