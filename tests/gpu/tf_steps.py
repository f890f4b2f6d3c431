"""Steps of TensorFlow 2's pages, traced for a GPU that is not there, and what comes of them.

In: a gpu_steps.Step of one rank. Out: its Traced, made by tf_trace.py in a process of its own.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_steps import Step, made_by

HERE = Path(__file__).resolve().parent
#: Operations that multiply matrices or convolve images.
CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
DEPTHWISE = tuple(f"DepthwiseConv2dNative{of}" for of in ("", "BackpropInput", "BackpropFilter"))
BATCHED = ("BatchMatMulV2", "BatchMatMulV3")
PRODUCTS = (*CONVOLUTIONS, *DEPTHWISE, *BATCHED, "MatMul", "Einsum")

Operation = Mapping[str, Any]


class TraceError(Exception):
    """A step that cannot be traced; the text is the end of what was said."""


@dataclass(frozen=True)
class Traced:
    """A step and its operations (operations.json of tf_trace.py)."""

    step: Step
    operations: list[Operation]

    @property
    def products(self) -> list[Operation]:
        return [each for each in self.operations if each["op"] in PRODUCTS]

    def count(self, *kinds: str) -> int:
        return sum(each["op"] in kinds for each in self.operations)


def traced(step: Step, python: Path, seconds: float = 1800) -> Traced:
    """Trace a step under this Python. Raises TraceError."""
    with tempfile.TemporaryDirectory() as folder:
        trace_into(Path(folder), step, python, seconds)
        return read(Path(folder), step)


def trace_into(out: Path, step: Step, python: Path, seconds: float = 1800) -> None:
    """Write a step's operations.json into a folder. Raises TraceError."""
    if said := made_by(HERE / "tf_trace.py", python, out, step, seconds):
        raise TraceError(said)


def read(folder: Path, step: Step) -> Traced:
    """What trace_into wrote."""
    return Traced(step, json.loads((folder / "operations.json").read_text()))
