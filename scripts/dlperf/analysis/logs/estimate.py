"""From the window to figures: the wall clock first, the published estimators beside it.

Wall clock: samples of the window / (end of its last step - end of the last warm-up step), from
the lines' time stamps or, where there are none that are fine enough, from the durations that they
print. Published figures were often another thing, a mean of printed rates, which is biased high:
it stands beside the wall clock and never in its place (docs/logs.md).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dlperf.analysis.logs.case import Case
from dlperf.analysis.logs.entries import Entry
from dlperf.analysis.logs.window import Window
from dlperf.analysis.schema.files import AnalysisError

#: Rounding of the log's times: below the first not worth a word, above the second no figure.
_SAID, _REFUSED = 0.002, 0.05
#: Printed rates further from the wall clock than this are of another batch.
_OTHER_BATCH = 1.8
_FINE_STAMP = 0.01  # seconds; coarser ones give way to printed durations


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
    found = []
    if time is not None:
        found.append(_wall_clock(windows, time, case, measured))
    if rates:
        found.append(_mean_of_rates(windows, rates, case, time))
        if time is None:
            found.append(_harmonic(windows, rates))
    running = [_global(window.entries[-1], window, case, "running_rate") for window in windows]
    if None not in running:
        value = statistics.fmean(rate for rate in running if rate is not None)
        found.append(Estimate("printed", value, "the last line's mean since training began"))
    if time is not None and rates:
        _same_batch(windows, found[0].value, found[1].value, case)
    if not found:
        raise AnalysisError(
            f"{windows[0].read.log.path}: its lines have no times, durations or rates: no figure"
        )
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
        totals.append(math.fsum(seconds for seconds, _ in filter(None, each)))
        rounding = max(rounding, math.fsum(half for _, half in filter(None, each)))
    named = all(window.named for window in windows)
    seconds = max(totals) if named else statistics.fmean(totals)
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
    value = statistics.fmean(rate for each in rates for rate in each)
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
            seconds += covered / rate if rate else math.inf
    value = samples / seconds
    return Estimate("harmonic_mean_of_rates", value, "by steps; the log has no times")


def _same_batch(windows: Sequence[Window], clock: float, printed: float, case: Case) -> None:
    """Printed rates must be near the clock's: else the log is of another batch."""
    read = windows[0].read
    values = windows[0].entries[0].values
    if "rate" not in values or "epoch_samples" in values:
        return
    ratio = printed / clock
    if not math.isfinite(ratio) or 1 / _OTHER_BATCH < ratio < _OTHER_BATCH:
        return
    raise AnalysisError(
        f"{read.log.path}: the rates that it prints are {ratio:.2g} times what a global batch of "
        f"{case.global_batch_size} gives over the time that the window took: are batch_size, nodes "
        "and devices_per_node the log's?"
    )
