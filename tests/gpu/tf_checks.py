"""What a step of TensorFlow 2 must keep to on a GPU, by its operations, and where one does not.

Each check has a control in tf_controls.py that breaks it.
"""

import collections
import re
from collections.abc import Iterable, Iterator

from tf_steps import BATCHED, Operation, Traced

#: Products that a page has in float32 under mixed precision: what comes behind InsightFace's
#: backbone, which are its only matrix products.
STATED = {"insightface": r"MatMul"}
#: What a page cannot have computed without the host's knowing a number: sizes that depend on
#: values, branches and loops, and Python.
HOST = re.compile(
    r"Where|Unique\w*|DynamicPartition|NonMaxSuppression\w*|Bincount|DenseBincount"
    r"|(Stateless)?(If|While|Case)|(Eager)?PyFunc\w*|Print\w*|Assert"
)
#: Transposes of a step: so many, and one for each product of attention.
TRANSPOSES = 4

Found = Iterator[tuple[str, str]]


def problems(made: Traced) -> dict[str, str]:
    """Kind -> what is wrong; {} of a step that keeps to all of it."""
    found: dict[str, str] = {}
    for check in (kernels, host, products, transposes):
        found.update(check(made))
    return found


def kernels(made: Traced) -> Found:
    """Each operation has a kernel for the GPU with its types, or XLA compiles it for one."""
    lacking = [each for each in made.operations if each["kernel"] not in ("GPU", "XLA")]
    if lacking:
        yield "kernels", listed(told(each) for each in lacking)


def host(made: Traced) -> Found:
    """The host queues a step, and waits for no number that the device computes. What XLA compiles
    has no host in it, but for a call of Python."""
    asked = [
        told(each)
        for each in made.operations
        if HOST.fullmatch(each["op"]) and (not each["compiled"] or "PyFunc" in each["op"])
    ]
    read = [
        f"{told(each)} reads {given}" for each in made.operations for given in each["from_device"]
    ]
    if asked or read:
        yield "host", listed([*asked, *read])


def products(made: Traced) -> Found:
    """Products are in the type that the precision asks for, and convolutions are of NHWC images."""
    precision = made.step.precision
    wanted = {"amp": "bfloat16", "amp_bf16": "bfloat16", "amp_fp16": "float16"}.get(
        precision, "float32"
    )
    stated = STATED.get(made.step.workload)
    others = [
        each
        for each in made.products
        if each["types"].get("T") != wanted
        and not (stated and re.fullmatch(stated, each["op"]) and each["types"]["T"] == "float32")
    ]
    if others:
        yield "types", listed(told(each) for each in others)
    first = [each for each in made.operations if each["layout"] == "NCHW"]
    if first:
        yield "layout", listed(told(each) for each in first)


def transposes(made: Traced) -> Found:
    """Few arrays are brought into another order."""
    count, most = made.count("Transpose"), TRANSPOSES + made.count(*BATCHED)
    if count > most:
        yield "transposes", f"{count}, at most {most}"


def told(each: Operation) -> str:
    """'GatherNd of int32, float32: loss/GatherNd'."""
    types = ", ".join(dict.fromkeys(each["types"].values()))
    return f"{each['op']} of {types}: {each['name']}"


def listed(lines: Iterable[str]) -> str:
    """How many, and the first few."""
    counted = collections.Counter(lines)
    return f"{counted.total()}: " + "; ".join(list(counted)[:3])
