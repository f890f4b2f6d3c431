"""How values are written for readers: shares in percent, sizes in bytes, statuses in words."""

import math
from collections.abc import Callable
from typing import Any

Form = Callable[[Any], str]

STATUS = {
    "oom": "out of memory",
    "timeout": "timed out",
    "crashed": "crashed",
    "unsupported": "not supported",
    "missing": "not measured",
    "excluded": "no baseline",  # of a ratio alone: what it would be over is excluded from ranks
}


def status(value: str) -> str:
    return STATUS.get(value, value)


def plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def real(digits: int) -> Form:
    return lambda value: f"{value:.{digits}f}"


def significant(digits: int) -> Form:
    return lambda value: f"{value:.{digits}g}"


def number(value: float) -> str:
    """A measured value: two decimals, or three digits where those would hide it."""
    return f"{value:.2f}" if not value or abs(value) >= 0.1 else f"{value:.3g}"


def giga(value: float) -> str:
    return f"{value / 1e9:.4g}"


def percent(share: float, digits: int = 1) -> str:
    """0.75 -> '75 %', 0.96875 -> '96.9 %'."""
    text = f"{share * 100:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def factors(low: float, high: float, between: str = " – ") -> str:
    """The interval of a ratio: '1.05 – 1.20', '1.05 or more', '1.20 or less', 'unbounded'."""
    if low > 0 and math.isfinite(high):
        return f"{low:.2f}{between}{high:.2f}"
    return (
        f"{low:.2f} or more"
        if low > 0
        else f"{high:.2f} or less"
        if math.isfinite(high)
        else "unbounded"
    )


def fine_percent(share: float) -> str:
    """0.00125 -> '0.13 %', which percent() makes '0.1 %'."""
    return percent(share, 2)


def size(count: int | None) -> str:
    """Bytes for a reader: 996014336 -> '950 MiB'."""
    if count is None:
        return ""
    number = float(count)
    for name in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {name}"
        number /= 1024
    return f"{number:.1f} GiB"
