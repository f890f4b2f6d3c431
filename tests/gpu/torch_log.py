"""Reads what the null device was told to do (null_device/): its log, a line for each thing.

In: the log's text. Out: a Log of steps. Each line has four columns: the number of the graph whose
replay did it, or nothing; what it is; the stream; details. `mark` lines end steps.
"""

import collections
import functools
from dataclasses import dataclass

#: Kinds of lines that are work of the device, with a launch each where no graph has them.
WORK = ("kernel", "product", "cudnn", "copy", "fill", "exchange")
#: Kinds for which the host stops until the device is done. Taking memory is one of them, and so is
#: a copy from or to memory that is not pinned.
WAITS = ("wait", "allocate", "free", "capture")
#: Kernels of attention's forward pass: a part of their name, and the backend that it is of.
ATTENTION = {
    "fmha_cutlassF": "memory-efficient (CUTLASS)",
    "flash_fwd": "flash",
    "flash_attn": "flash",
}
#: The kind of operation that cuDNN's graph of attention has and no other has (CUDNN_BACKEND_
#: OPERATION_MATMUL_DESCRIPTOR).
MATMUL = "19"


@dataclass(frozen=True)
class Line:
    """graph: the number of the one whose replay did this, or "": the host told it."""

    graph: str
    kind: str
    stream: str
    text: str


@dataclass(frozen=True)
class Product:
    """A convolution, one of its gradients, or a matrix product. types: those of its factors and its
    result. rounding: of float32, whether it may be rounded to TF32 ("exact", "tf32", else "-").
    layout: the order of a convolution's sides."""

    what: str
    types: tuple[str, str, str]
    rounding: str
    layout: str
    flops: int

    @property
    def is_convolution(self) -> bool:
        return self.what.startswith("convolution")


@dataclass(frozen=True)
class Exchange:
    """An exchange between ranks. beside: products that were queued behind it, on another stream."""

    kind: str
    type: str
    bytes: int
    beside: int


class Told:
    """What the device was told in one step."""

    def __init__(self, lines: list[Line]):
        self.lines = lines

    def _of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line.kind in kinds]

    @property
    def kernels(self) -> collections.Counter:
        """Kernels of the framework's own and its compiler's, by their name in the binary."""
        return collections.Counter(line.text for line in self._of("kernel"))

    @functools.cached_property
    def work(self) -> int:
        """Kernels, products, copies and exchanges that the device does, in graphs and outside.

        A product counts once, though a library may take several kernels for it.
        """
        return len(self._of(*WORK))

    @property
    def launches(self) -> int:
        """What the host tells the device: the replay of a graph is one."""
        told = [line for line in self.lines if line.kind == "graph"]
        return len(told) + sum(not line.graph for line in self._of(*WORK))

    @property
    def graphs(self) -> int:
        """Replays of graphs."""
        return len(self._of("graph"))

    @functools.cached_property
    def products(self) -> list[Product]:
        return [_product(line.text) for line in self._of("product")]

    @functools.cached_property
    def exchanges(self) -> list[Exchange]:
        found = []
        for place, line in enumerate(self.lines):
            if line.kind == "exchange":
                behind = [
                    other
                    for other in self.lines[place:]
                    if other.kind == "product" and other.stream != line.stream
                ]
                kind, given, size = line.text.split()
                found.append(Exchange(kind, given, int(size), len(behind)))
        return found

    @property
    def waits(self) -> list[str]:
        """What the host waits for in the step; [] where it only queues."""
        found = [f"{line.kind} {line.text}" for line in self._of(*WAITS)]
        return found + [f"copy {line.text}" for line in self._of("copy") if "pageable" in line.text]

    @property
    def unanswered(self) -> list[str]:
        """Functions that the device does not have."""
        return [line.text for line in self._of("unanswered")]

    @property
    def attention(self) -> collections.Counter:
        """Forward passes of attention by one kernel each, by backend."""
        found: collections.Counter = collections.Counter()
        for line in self._of("kernel", "cudnn"):
            for part, backend in ATTENTION.items():
                if line.kind == "kernel" and part in line.text and "bwd" not in line.text:
                    found[backend] += 1
            if line.kind == "cudnn" and MATMUL in line.text.split():
                found["cuDNN"] += 1
        return found


class Log:
    """The steps of a window."""

    def __init__(self, text: str):
        self.steps: list[Told] = []
        lines: list[Line] = []
        for line in text.splitlines():
            read = Line(*line.split("\t", 3))
            if read.kind == "mark":
                self.steps.append(Told(lines))
                lines = []
            else:
                lines.append(read)
        if lines:
            raise ValueError(f"the log ends within a step: {lines[-1]}")

    @property
    def step(self) -> Told:
        """The last step: all are alike (torch_checks.alike)."""
        return self.steps[-1]


def _product(text):
    what, *types, rounding, layout, flops = text.split()
    return Product(what, tuple(types), rounding, layout, int(flops))
