"""What GPUs did while a window ran, and where their ranks were: of a record's host.

In: a record. Out: the clock under load, the share of the window under the power cap, and the ranks
whose cores are on another side of the machine than their card. None, or nothing, where it was not
read: without NVML, and in records of a CPU.
"""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any


def _nodes(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    host = record["host"]
    return host.get("nodes") or [host]


def _cards(record: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """The readings of each card of each node."""
    for node in _nodes(record):
        yield from node.get("gpu_load") or []


def clock_mhz_within(record: Mapping[str, Any]) -> float | None:
    """The mean SM clock of all cards within the window: at its ends a card rests."""
    clocks = [
        reading["sm_clock_mhz"]
        for card in _cards(record)
        for reading in card
        if reading["moment"] == "within" and reading.get("sm_clock_mhz") is not None
    ]
    return statistics.fmean(clocks) if clocks else None


def power_capped_share(record: Mapping[str, Any]) -> float | None:
    """The share of the window in which the power cap held a card's clocks down: of the worst card.

    By NVML's counter (nvmlDeviceGetViolationStatus), which is read at both ends.
    """
    shares = []
    for card in _cards(record):
        ends = {reading["moment"]: reading for reading in card if reading["moment"] != "within"}
        if {"window", "end"} <= set(ends):
            first, last = ends["window"], ends["end"]
            before, after = (each.get("power_violation_seconds") for each in (first, last))
            spent = last["utc"] - first["utc"]
            if before is not None and after is not None and spent > 0:
                shares.append(min(1.0, max(0.0, (after - before) / spent)))
    return max(shares, default=None)


def far_ranks(record: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each rank with cores on another side than its card."""
    for node in _nodes(record):
        for each in node.get("placement") or []:
            if each["beside"] is False:
                yield f"rank {each['rank']}: cores on another side than its card ({each['by']})"
