"""Whether a processor was slowed down while a repetition ran: by heat, or by a power brake.

In: a record. Out: what it shows of that, in words, a sentence a sign.
"""

from collections.abc import Iterator, Mapping
from typing import Any

#: NVML's reasons that slow a GPU against its owner's will: power brake, hardware and software
#: slowdown by heat, hardware slowdown. Idle, application clocks and the power cap are none of them.
THROTTLED = 0x80 | 0x40 | 0x20 | 0x08
#: Above this share of a repetition's time held below its clocks by heat, a GPU was throttled.
HOT_SHARE = 0.01
#: Below this share of its clock before, a CPU's clock after a repetition has fallen.
CLOCK_SHARE = 0.9


def signs(record: Mapping[str, Any]) -> Iterator[str]:
    """The signs on each of the record's nodes.

    Both readings are of an idle machine, before the ranks start and after they ended. A GPU's
    reasons of that moment show slowdowns that last; its counter (NVML's thermal violation time,
    nanoseconds since the driver was loaded) shows what happened between the readings. A CPU has no
    such counter: that its mean clock falls by more than 10 % is a sign of heat, or of a changed
    power limit. A virtual machine often shows a clock that never changes.
    """
    host = record["host"]
    nodes = host.get("nodes") or [host]
    for node in nodes:
        where = f"{node.get('hostname')}: " if len(nodes) > 1 else ""
        for sign in _of_node(node, record["provenance"].get("seconds_total")):
            yield where + sign


def _of_node(node: Mapping[str, Any], seconds: float | None) -> Iterator[str]:
    before, after = node.get("gpus_before") or [], node.get("gpus_after") or []
    for when, gpus in (("before", before), ("after", after)):
        for index, gpu in enumerate(gpus):
            reasons = (gpu.get("throttle_reasons") or 0) & THROTTLED
            if reasons:
                yield f"GPU {index} {when}: throttled (reasons {reasons:#x})"
    for index, (one, two) in enumerate(zip(before, after, strict=False)):
        first, last = (gpu.get("thermal_violation_seconds") for gpu in (one, two))
        if None not in (first, last) and seconds and last - first > HOT_SHARE * seconds:
            yield f"GPU {index}: held below its clocks by heat for {last - first:.1f} s"
    first, last = node.get("clock_mhz_before"), node.get("clock_mhz_after")
    if first and last and last < CLOCK_SHARE * first:
        yield f"the CPU's clock fell from {first:.0f} to {last:.0f} MHz"
