"""Time stamps: found in a line, and put on one scale although many lack their year or their day.

A stamp without a date starts anew at midnight, one without a year at New Year: lines are taken to
follow each other within half of that. Time zones do not matter: only differences count.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime

DAY = 86400.0
YEAR = 365 * DAY

_CLOCK = r"(?P<h>\d{1,2}):(?P<m>\d{2}):(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?"


@dataclass(frozen=True)
class Stamp:
    seconds: float
    resolution: float  # seconds between two values that it can have
    period: float | None  # after which it starts anew


def _calendar(found: re.Match[str]) -> float:
    return date(int(found["Y"]), int(found["M"]), int(found["D"])).toordinal() * DAY


def _year_less(found: re.Match[str]) -> float:
    # the 29th of February counts as the 1st of March: a log that crosses it is refused, as its
    # time then runs backwards
    month, day = int(found["M"]), int(found["D"])
    month, day = (3, 1) if (month, day) == (2, 29) else (month, day)
    return date(2001, month, day).toordinal() * DAY


def _named_month(found: re.Match[str]) -> float:
    day = datetime.strptime(f"{found['M']} {found['D']} {found['Y']}", "%b %d %Y")
    return day.toordinal() * DAY


def _day_less(found: re.Match[str]) -> float:
    return 0.0


#: (pattern, seconds of its date, its period); of several kinds in a line the first counts.
_KINDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], float], float | None], ...] = (
    (
        re.compile(rf"(?P<Y>\d{{4}})[-/](?P<M>\d{{1,2}})[-/](?P<D>\d{{1,2}})[ T]{_CLOCK}"),
        _calendar,
        None,
    ),
    # ctime, as Open MPI --timestamp-output writes it: Sun May 29 14:55:59 2022
    (
        re.compile(rf"\b(?P<M>[A-Z][a-z]{{2}}) +(?P<D>\d{{1,2}}) {_CLOCK} (?P<Y>\d{{4}})\b"),
        _named_month,
        None,
    ),
    # absl and glog: I0817 09:25:06.123456
    (re.compile(rf"\b[IWEF](?P<M>\d\d)(?P<D>\d\d) {_CLOCK}"), _year_less, YEAR),
    (re.compile(rf"(?<![\d/])(?P<M>\d\d)/(?P<D>\d\d) {_CLOCK}"), _year_less, YEAR),
    # HugeCTR until 3.0; the day is that of the month, whose length the log does not say
    (re.compile(r"\d\dd(?P<h>\d\d)h(?P<m>\d\d)m(?P<s>\d\d)(?P<f>)s"), _day_less, DAY),
    (re.compile(rf"(?<![\d:.]){_CLOCK}(?![\d:])"), _day_less, DAY),
)
_UNIX = re.compile(r"(?<![\d.])(?P<s>\d{10})(?:\.(?P<f>\d+))?(?![\d.])")


def find(text: str) -> Stamp | None:
    """The last time stamp in a text, or None; the fullest kind that it has."""
    for pattern, day, period in _KINDS:
        *_, found = [None, *pattern.finditer(text)]
        if found is not None:
            return _stamp(found, day, period)
    *_, found = [None, *_UNIX.finditer(text)]
    return unix(found[0]) if found is not None else None


def unix(text: str) -> Stamp:
    """Seconds since 1970, as text."""
    decimals = len(text.partition(".")[2])
    return Stamp(float(text), 10.0**-decimals, None)


def _stamp(
    found: re.Match[str], day: Callable[[re.Match[str]], float], period: float | None
) -> Stamp | None:
    fraction = found["f"] or ""
    try:
        seconds = day(found) + 3600 * int(found["h"]) + 60 * int(found["m"]) + int(found["s"])
    except ValueError:  # such as the 31st of June: not a date
        return None
    return Stamp(seconds + float(f"0.{fraction}" or 0), 10.0 ** -len(fraction), period)


def unroll(stamps: Iterable[Stamp | None]) -> list[float | None]:
    """Seconds on one scale: each stamp that starts anew lies as near to the last as it can."""
    last: float | None = None
    times: list[float | None] = []
    for stamp in stamps:
        if stamp is None:
            times.append(None)
            continue
        seconds = stamp.seconds
        if stamp.period and last is not None:
            seconds += stamp.period * round((last - seconds) / stamp.period)
        last = seconds
        times.append(seconds)
    return times
