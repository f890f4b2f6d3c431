"""Wrong settings, as changes of an implementation's source: a module a workload."""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    framework: str
    compiler: str
    old: str
    new: str
    layout: str = "1"
    more: str = ""  # put behind the source
    float64_only: bool = True  # enough to show it, in half the time
    precision: str = "fp32"
    tier: str = ""  # the first that shows it, where that is what the mutation is for


#: Of a mutation that float64 does not show.
TIMED = {"float64_only": False}
