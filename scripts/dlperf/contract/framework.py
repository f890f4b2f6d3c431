"""What a framework can do, free of the framework: each package's __init__.py ends with one
Framework.

What is missing, misspelt or contradicts itself is an error where the package is imported; what may
be left out has a default that says what it means.
"""

import dataclasses
from typing import Any, Callable, Mapping, Tuple

from dlperf.contract.layout import SPELLED
from dlperf.contract.workload import no_reason

DEVICES = ("cpu", "cuda")


@dataclasses.dataclass(frozen=True)
class Framework:
    """title: its name for people. compilers: name -> what that is in this framework; `none` is
    without one. default_compiler: by device (`cpu`, `cuda`), what its users mostly run. half: by
    device, the narrow types of its mixed precision, the best first; () where it has none.
    float64_compilers: those under which a certificate can run in float64, the preferred one first;
    () where none can. float64_exchange: whether ranks then exchange gradients, and micro-steps add
    them up, as when timed. shards_tables: whether its ranks can shard embedding tables.

    one_rank_a_node: one process drives all devices of a node; False: each device has its own.
    counted: its reader takes files, for which it has to be told how many steps there are.
    resets_peak: it can count the peak of device memory anew, before a window; False: its peak is
    the whole process's.
    keeps_losses: all losses of a window are there after it; False: the last one alone.
    optimizer_alone: its optimiser can be given gradients; False: a certificate has no tier of that.
    unsupported(case): why it cannot do a case (its identity, and the device), or ""; what it cannot
    do of one workload alone, that one's facts say. Left out: it can do all. ways: the fields of
    contract.layout.Layout, beside accumulation, that its pages can have other values of; (): it
    trains data parallel alone.
    compiles_into: environment variables that name folders into which it writes code that it
    compiles while it runs, beside TMPDIR. reaches: what its files and pages take from outside of
    their process, as measure/reached.py spells it -> why they must.
    """

    title: str
    compilers: Mapping[str, str]
    default_compiler: Mapping[str, str]
    half: Mapping[str, Tuple[str, ...]]
    float64_compilers: Tuple[str, ...]
    float64_exchange: bool
    shards_tables: bool
    one_rank_a_node: bool = False
    counted: bool = False
    resets_peak: bool = False
    keeps_losses: bool = True
    optimizer_alone: bool = True
    unsupported: Callable[[Mapping[str, Any]], str] = no_reason
    ways: Tuple[str, ...] = ()
    compiles_into: Tuple[str, ...] = ()
    reaches: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        compilers = set(self.compilers)
        self._refuse("compilers", {"none"} - compilers, "is missing")
        for name in ("default_compiler", "half"):
            self._refuse(name, set(DEVICES) ^ set(getattr(self, name)), "is missing, or no device")
        unknown = set(self.default_compiler.values()) - compilers
        self._refuse("default_compiler", unknown, "is none of its compilers")
        unknown = set(self.float64_compilers) - compilers
        self._refuse("float64_compilers", unknown, "is none of its compilers")
        unknown = set(self.ways) - (set(SPELLED) - {"accumulation"})
        self._refuse("ways", unknown, "is no field of a layout that a framework must know")

    def _refuse(self, field, words, why):
        for word in sorted(words):
            raise ValueError("%s: %s: %r %s" % (self.title, field, word, why))
