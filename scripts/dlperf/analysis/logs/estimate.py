"""From the window to figures: the wall clock first, the published estimators beside it.

Wall clock: samples of the window / (end of its last step - end of the last warm-up step), from
the lines' time stamps or, where there are none that are fine enough, from the durations that they
print. Published figures were often another thing, a mean of printed rates, which is biased high:
it stands beside the wall clock and never in its place (docs/logs.md).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlperf.analysis.logs.case import Case
from dlperf.analysis.logs.entries import Entry
from dlperf.analysis.logs.window import Window, stall
from dlperf.analysis.schema.files import AnalysisError

#: Rounding of the log's times: below the first not worth a word, above the second no figure.
_SAID, _REFUSED = 0.002, 0.05
#: Printed rates further from the wall clock than this are of another batch.
_OTHER_BATCH = 1.8
_FINE_STAMP = 0.01  # seconds; coarser ones give way to printed durations
#: Durations that lines print, by the names of forms.py.
_DURATIONS = ("seconds", "milliseconds", "step_seconds", "step_milliseconds")
#: Words that a log puts beside a time or a rate, with the number and its unit.
_TIMED = re.compile(
    r"\b(?:\w*(?:cost|elapsed?|time|speed|ips|throughput|latency|per_?sec)\w*)[ :=]{1,3}"
    r"\d+(?:\.\d+)?(?: ?(?:ms|sec|s|[a-z]+/s(?:ec(?:ond)?)?)\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Estimate:
    estimator: str
    value: float  # samples a second, of all devices
    note: str


@dataclass(frozen=True)
class _Time:
    seconds: float
    rounding: float  # seconds by which it may be off
    how: str


def estimates(windows: Sequence[Window], case: Case, measured: int) -> list[Estimate]:
    """The estimates of a window, the wall clock first where the logs have times."""
    time = _time(windows)
    rates = _rates(windows, case)
    found: list[Estimate] = []
    if time is not None:
        found.append(_wall_clock(windows, time, case, measured))
    if rates:
        found.append(_mean_of_rates(windows, rates, case, time))
        if time is None:
            found.append(_harmonic(windows, rates))
    running = [_global(window.entries[-1], window, case, "running_rate") for window in windows]
    if None not in running:
        value = _mean([rate for rate in running if rate is not None])
        found.append(Estimate("printed", value, "the last line's mean since training began"))
    if time is not None:
        found = _held_against_the_clock(windows, found, time, case)
    if not found:
        raise AnalysisError(f"{windows[0].read.log.path}: {_why_no_figure(windows)}: no figure")
    broken = [
        each.estimator for each in found if not (math.isfinite(each.value) and each.value > 0)
    ]
    if "wall_clock" in broken:
        raise AnalysisError(f"{windows[0].read.log.path}: the window took no time")
    found = [each for each in found if each.estimator not in broken]
    if not found:
        raise AnalysisError(f"{windows[0].read.log.path}: its printed rates are no numbers")
    return found


def _time(windows: Sequence[Window]) -> _Time | None:
    stamps, durations = _by_stamps(windows), _by_durations(windows)
    if durations is None:
        durations = _by_running_means(windows, stamps)
    if durations is not None and (stamps is None or windows[0].read.source.durations_first):
        return durations
    if stamps is None:
        return None
    if durations is not None and stamps.rounding > _FINE_STAMP:
        return durations
    return stamps


def _by_stamps(windows: Sequence[Window]) -> _Time | None:
    """Last rank's end - first rank's start; of files, whose clocks may differ, the longest."""
    files: dict[int, list[tuple[Entry, Entry]]] = {}
    for window in windows:
        if window.start is None or window.start.time is None or window.entries[-1].time is None:
            return None
        files.setdefault(window.file, []).append((window.start, window.entries[-1]))
    longest = max(
        max(end.time or 0.0 for _, end in pairs) - min(start.time or 0.0 for start, _ in pairs)
        for pairs in files.values()
    )
    rounding = max(max(a.resolution, b.resolution) for pairs in files.values() for a, b in pairs)
    return _Time(longest, rounding, "time stamps of the window's first and last line")


def _by_durations(windows: Sequence[Window]) -> _Time | None:
    """The sum of what lines print; of ranks that can be told apart the longest, else the mean."""
    totals, rounding = [], 0.0
    for window in windows:
        each = [_duration(*pair) for pair in zip(window.entries, window.covered, strict=True)]
        if None in each:
            return None
        totals.append(_sum(seconds for seconds, _ in filter(None, each)))
        rounding = max(rounding, _sum(half for _, half in filter(None, each)))
    named = all(window.named for window in windows)
    seconds = max(totals) if named else _mean(totals)
    how = f"sum of {len(windows[0].entries)} printed durations"
    return _Time(seconds, rounding, how if named else f"{how}, mean of {len(windows)} ranks")


def _by_running_means(windows: Sequence[Window], stamps: _Time | None) -> _Time | None:
    """The window's part of what running means add up to; of ranks the longest.

    None where stamps say otherwise: then training stood still between steps, or the mean began
    elsewhere.
    """
    totals, rounding = [], 0.0
    for window in windows:
        since, end = window.read.form.running_since, window.entries[-1]
        if window.start is None or window.start.step < since:
            return None
        seconds = 0.0
        for entry, sign in ((end, 1), (window.start, -1)):
            mean = entry.number_of("running_step_seconds")
            if mean is None:
                return None
            steps = entry.step - since
            seconds += sign * steps * mean
            decimals = len(entry.values["running_step_seconds"].partition(".")[2])
            rounding = max(rounding, 2 * steps * 0.5 * 10.0**-decimals)
        totals.append(seconds)
    time = _Time(max(totals), rounding, "mean durations of a step, printed at both ends")
    if stamps and abs(time.seconds - stamps.seconds) > stamps.rounding + 0.02 * stamps.seconds:
        return None
    return time


def _duration(entry: Entry, covered: int) -> tuple[float, float] | None:
    """Seconds that a line's steps took, and by how much they may be off."""
    for name, factor in (
        ("seconds", 1.0),
        ("milliseconds", 1e-3),
        ("step_seconds", float(covered)),
        ("step_milliseconds", 1e-3 * covered),
    ):
        if name in entry.values:
            text = entry.values[name]
            decimals = 0 if "e" in text.lower() else len(text.partition(".")[2])
            return factor * float(text), factor * 0.5 * 10.0**-decimals
    return None


def _wall_clock(windows: Sequence[Window], time: _Time, case: Case, measured: int) -> Estimate:
    path = windows[0].read.log.path
    if not time.seconds > 0 or not math.isfinite(time.seconds):
        raise AnalysisError(f"{path}: the window takes {time.seconds:g} s ({time.how}): no figure")
    off = time.rounding / time.seconds
    if off > _REFUSED:
        raise AnalysisError(
            f"{path}: the window takes {time.seconds:g} s by {time.how}, which are rounded to "
            f"± {time.rounding:g} s: choose more steps (--measured)"
        )
    note = f"{time.how}: {time.seconds:.6g} s"
    if off > _SAID:
        note += f", rounded: ± {100 * off:.1f} %"
    return Estimate("wall_clock", _samples(windows[0], case) * measured / time.seconds, note)


def _samples(window: Window, case: Case) -> float:
    """Samples of what the log counts as a step."""
    return window.entries[-1].number_of("epoch_samples") or case.global_batch_size


def _rates(windows: Sequence[Window], case: Case) -> list[list[float]]:
    """Samples a second of all devices, by window and line; [] where lines have no rates."""
    found = []
    for window in windows:
        rates = [
            _interval_rate(entry, covered, window, case)
            for entry, covered in zip(window.entries, window.covered, strict=True)
        ]
        if None in rates:
            return []
        found.append([rate for rate in rates if rate is not None])
    return found


def _interval_rate(entry: Entry, covered: int, window: Window, case: Case) -> float | None:
    if (rate := _global(entry, window, case, "rate")) is not None:
        return rate
    if (steps := entry.number_of("step_rate")) is not None:
        return steps * _samples(window, case)
    if (tokens := _global(entry, window, case, "kilotoken_rate")) is not None:
        return 1000.0 * tokens / _sequence_length(window, case)
    duration = _duration(entry, covered)
    if duration is None or not duration[0] > 0:
        return None
    return _samples(window, case) * covered / duration[0]


def _global(entry: Entry, window: Window, case: Case, name: str) -> float | None:
    rate = entry.number_of(name)
    if rate is None:
        return None
    return rate * (case.replicas if window.read.form.printed_by == "rank" else 1)


def _sequence_length(window: Window, case: Case) -> int:
    if "sequence_length" not in case.dimensions:
        raise AnalysisError(
            f"{window.read.log.path}: rates in tokens, but {case.values['workload']} has no "
            "sequence_length"
        )
    return int(case.dimensions["sequence_length"])


def _mean_of_rates(
    windows: Sequence[Window], rates: Sequence[Sequence[float]], case: Case, time: _Time | None
) -> Estimate:
    value = _mean([rate for each in rates for rate in each])
    entry, printed_by = windows[0].entries[0], windows[0].read.form.printed_by
    if "kilotoken_rate" in entry.values:
        note = (
            f"printed tokens, without padding, as sequences of {_sequence_length(windows[0], case)}"
        )
    elif "step_rate" in entry.values:
        note = "printed steps a second x the global batch"
    elif "rate" not in entry.values:
        note = "global batch / printed durations"
    else:
        note = "printed rates"
    if printed_by == "rank" and "step_rate" not in entry.values:
        note += f"; one rank's x {case.replicas}"
    note = f"mean over {len(rates[0])} lines: {note}"
    return Estimate("mean_of_rates", value, note if time else f"{note}; the log has no times")


def _harmonic(windows: Sequence[Window], rates: Sequence[Sequence[float]]) -> Estimate:
    """What a wall clock would be if the lines' intervals leave no gap between them."""
    samples, seconds = 0.0, 0.0
    for window, each in zip(windows, rates, strict=True):
        for covered, rate in zip(window.covered, each, strict=True):
            samples += covered
            seconds += covered / rate if rate > 0 else math.inf
    value = samples / seconds if seconds else math.nan
    return Estimate("harmonic_mean_of_rates", value, "by steps; the log has no times")


def _held_against_the_clock(
    windows: Sequence[Window], found: Sequence[Estimate], time: _Time, case: Case
) -> list[Estimate]:
    """The estimates, none of which is far from the clock: else the log is of another batch.

    Stamps of the lines are held against their durations too, where the durations are the clock.
    Raises AnalysisError. Rates of work that was only queued (MLPerf), and of tokens without
    padding, say nothing of the batch: they are marked.
    """
    path, clock = windows[0].read.log.path, found[0].value
    batch = (
        f"what a global batch of {case.global_batch_size} gives over the time that the window "
        "took: are batch_size, nodes and devices_per_node the log's?"
    )
    stamps = _by_stamps(windows)
    if stamps is not None and time.how != stamps.how:
        if _apart(stamps.seconds, time.seconds, stamps.rounding + time.rounding) is not None:
            raise AnalysisError(
                f"{path}: the window takes {stamps.seconds:.6g} s by {stamps.how}, and "
                f"{time.seconds:.6g} s by {time.how}: they are not of the same steps"
            )
    kept = []
    values = windows[0].entries[0].values
    for each in found:
        if each.estimator == "mean_of_rates" and _of_rates(values):
            ratio = _apart(each.value, clock)
            loose = "epoch_samples" in values or ("kilotoken_rate" in values and each.value < clock)
            if ratio is not None and not loose:
                raise AnalysisError(
                    f"{path}: the rates that it prints are {ratio:.2g} times {batch}"
                )
            if ratio is not None:
                what = "padding" if "kilotoken_rate" in values else "work that was only queued"
                note = f"{each.note}; {ratio:.3g} times the clock's: is it {what}?"
                each = replace(each, note=note)
        elif each.estimator == "printed":
            ratio = _running_off(windows, case, time)
            if ratio is not None and not any(map(stall, windows)):
                raise AnalysisError(
                    f"{path}: the running mean that it prints is {ratio:.2g} times {batch}"
                )
            if ratio is not None:  # a mean of steps leaves out what lies between them
                note = f"in the window {ratio:.3g} times the clock's, as training stood still"
                each = replace(each, note=f"{each.note}; {note}")
        kept.append(each)
    return kept


def _of_rates(values: Mapping[str, str]) -> bool:
    """Whether a mean of rates is of printed ones, and not of the durations that are the clock."""
    return any(name in values for name in ("rate", "step_rate", "kilotoken_rate"))


def _apart(printed: float, clock: float, rounding: float = 0.0) -> float | None:
    """The factor between two numbers that is too large for one batch; None where it is not.

    Neither of a number that is none: it costs its own row only.
    """
    if not (math.isfinite(printed) and printed > 0 and math.isfinite(clock) and clock > 0):
        return None
    ratio = printed / clock
    if abs(printed - clock) <= rounding or 1 / _OTHER_BATCH < ratio < _OTHER_BATCH:
        return None
    return ratio


def _running_off(windows: Sequence[Window], case: Case, time: _Time) -> float | None:
    """How many times the clock's rate the window's part of printed running means is, if too far.

    n steps at a mean of r samples a second took n x batch / r. The window's part is the difference
    between its ends; the means' last digits say how far off it may be.
    """
    for window in windows:
        samples, end = _samples(window, case), window.entries[-1]
        since = window.read.form.running_since
        longest = shortest = 0.0
        for entry, sign in ((end, 1), (window.start, -1)):
            if entry is None or entry.step <= since:
                continue  # the mean begins in the window
            rate = _global(entry, window, case, "running_rate")
            if rate is None or not (math.isfinite(rate) and rate > 0):
                return None
            text = entry.values["running_rate"]
            half = 0.5 * 10.0 ** -len(text.partition(".")[2]) * rate / float(text)
            bounds = [
                (entry.step - since) * samples / max(rate + off, 0.1 * rate)
                for off in (-half, half)
            ]
            longest += max(bounds) if sign > 0 else -min(bounds)
            shortest += min(bounds) if sign > 0 else -max(bounds)
        if shortest <= time.seconds * _OTHER_BATCH and longest * _OTHER_BATCH >= time.seconds:
            continue
        return time.seconds / (0.5 * (shortest + longest))
    return None


def _why_no_figure(windows: Sequence[Window]) -> str:
    """What the lines of the window say of times and rates, and why it does not count."""
    for window in windows:
        everything = [*([window.start] if window.start else []), *window.entries]
        stamped = [entry for entry in everything if entry.time is not None]
        if stamped and window.start is None:
            return (
                f"its lines have time stamps, but none stands for the end of step "
                f"{window.entries[0].step - window.covered[0]}, where the window begins: choose "
                f"--warmup {window.entries[0].step}"
            )
        unstamped = [entry for entry in everything if entry.time is None]
        if stamped and unstamped:
            return (
                f"line {stamped[0].number} has a time stamp, but line {unstamped[0].number} (step "
                f"{unstamped[0].step}) has none"
            )
        for name in ("rate", "step_rate", "kilotoken_rate", *_DURATIONS):
            lacking = [entry for entry in window.entries if name not in entry.values]
            if 0 < len(lacking) < len(window.entries):
                return (
                    f"line {lacking[0].number} (step {lacking[0].step}) has no "
                    f"{name.replace('_', ' ')}, but other lines of the window have one"
                )
    entry = windows[0].entries[-1]
    said = list(dict.fromkeys(match[0] for match in _TIMED.finditer(entry.text)))
    if not said:
        return "its lines have no time stamps, durations or rates"
    why = windows[0].read.form.uncounted or "nothing says of which steps they are"
    return (
        f"line {entry.number} prints {', '.join(said[:6])}, which do not count: {why}; and the "
        "lines have no time stamps"
    )


def _sum(values: Iterable[float]) -> float:
    """The sum; no number where there is none, as of two infinities."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):
        return math.nan


def _mean(values: Sequence[float]) -> float:
    """The mean; no number where one of them is none, or below zero."""
    return _sum(values) / len(values) if all(value >= 0 for value in values) else math.nan
