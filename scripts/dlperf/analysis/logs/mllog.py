"""MLPerf Training: `:::MLLOG {json}` lines, which tell when blocks of epochs and evaluations begin.

A stretch of training lasts from the beginning of a block to its evaluation: join() makes a line of
each. (Not from epoch_start to epoch_stop: work that was only queued is waited for before the
evaluation.) What a window counts is epochs, and samples where events count those: in BERT, and
where a block has `samples_count` for the number of its first epoch.
"""

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dlperf import workloads
from dlperf.analysis.logs.forms import Form, Source, Stated, WrongLine, regex
from dlperf.analysis.logs.lines import Line

_MARK = ":::MLLOG"
_EVENT = re.compile(rf"{_MARK} (?P<json>\{{.*\}})")
#: MLPerf's names of benchmarks whose events count samples, not epochs.
_IN_SAMPLES = {
    benchmark
    for workload in workloads.NAMES
    for benchmark in workloads.of(workload).mlperf_in_samples
}
#: What NVIDIA's scripts call an epoch's rate.
_RATES = ("imgs_sec", "throughput")
#: Events whose times or values are read.
_READ = (
    *("submission_benchmark", "train_samples", "block_start", "block_stop", "eval_start"),
    *("eval_stop", "eval_accuracy", "throughput", "tracked_stats"),
)
#: No time in milliseconds, count of samples or rate is as large.
_LARGEST = 1e15
#: Events without which no stretch of training is known.
_BEGINS, _ENDS = "block_start", ("eval_start", "block_stop")


@dataclass(frozen=True)
class _Event:
    """A record, its values checked; `time` in milliseconds."""

    line: Line
    key: str
    value: Any
    about: Mapping[str, Any]
    time: float

    def count(self, name: str, least: int = 0) -> int | None:
        """A number of epochs or samples of the metadata; None where they have none."""
        value = self.about.get(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None or number < least:
            raise WrongLine(
                self.line,
                f"{self.key}: {name}: {_cut(value)} is not a whole number, {least} or more",
            )
        return number


@dataclass
class _Run:
    """What a rank's events have said so far; times in milliseconds."""

    samples: float = 0.0  # of an epoch
    in_samples: bool = False  # BERT
    base: int | None = None  # the number of the first epoch
    block: tuple[int, int, float] | None = None  # first epoch, how many, when it began
    counted: tuple[int, float] | None = None  # samples before a block that counts them, its begin
    rates: list[float] = field(default_factory=list)  # of the block's epochs
    trained: tuple[int, float] | None = None  # BERT: samples, when the stretch after them began
    evaluating: bool = False

    def end(self, event: _Event) -> str:
        """The stretch of training that an event ends, in words; or ''."""
        key, value = event.key, event.value
        if key == "submission_benchmark":
            self.in_samples = isinstance(value, str) and value in _IN_SAMPLES
        elif key == "train_samples":
            number = _whole(value)
            if not number or number < 0:
                what = f"train_samples: {_cut(value)} is not a whole number, 1 or more"
                raise WrongLine(event.line, what)
            self.samples = float(number)
        elif self.in_samples:
            return self._samples(event)
        elif key == _BEGINS:
            self._begin(event)
        elif (rate := _rate(key, value)) is not None:
            self.rates.append(rate)
        elif key in _ENDS and self.counted:
            return self._end_of_samples(event)
        elif key in _ENDS and self.block and self.samples:
            (first, count, began), self.block = self.block, None
            step = first + count - (self.base or 0)
            mean = f" rate {statistics.fmean(self.rates)}" if self.rates else ""
            took = event.time - began
            return f"epoch {step} steps {count} milliseconds {took} of {self.samples}{mean}"
        return ""

    def _begin(self, event: _Event) -> None:
        """A block of epochs, or of samples where its event counts those."""
        first, samples = event.count("first_epoch_num"), event.count("samples_count")
        self.block = self.counted = None
        self.rates, self.evaluating = [], False
        if first is not None:
            self.base = first if self.base is None else self.base
            self.block = first, event.count("epoch_count", least=1) or 1, event.time
        elif samples is not None:
            self.counted = samples, event.time
        else:
            raise WrongLine(
                event.line,
                "block_start: its metadata have neither first_epoch_num nor samples_count, which "
                f"say where it begins [it has: {', '.join(map(str, event.about)) or 'nothing'}]",
            )

    def _end_of_samples(self, event: _Event) -> str:
        assert self.counted is not None  # as end() found it
        number = event.count("samples_count")
        if number is None:  # block_stop may say it, after the evaluation
            self.evaluating = True
            return ""
        (before, began), self.counted = self.counted, None
        if number <= before:
            raise WrongLine(
                event.line,
                f"{event.key}: samples_count: {number} is not above {before}, with which the block "
                "began",
            )
        how = " evaluated" if self.evaluating else ""
        took = event.time - began
        return f"trained {number} steps {number - before} milliseconds {took} of 1{how}"

    def _samples(self, event: _Event) -> str:
        key, time = event.key, event.time
        if key == _BEGINS and self.trained is None:
            self.trained = 0, time
        elif key == "eval_stop" and self.trained:
            self.trained = self.trained[0], time
        elif self.trained and (
            key == "eval_start" or (key == "eval_accuracy" and not self.evaluating)
        ):
            number = event.count("epoch_num")
            if not number:
                return ""
            self.evaluating = key == "eval_start"
            before, began = self.trained
            count = number - before
            if count > 1:  # some logs say the epoch here, against the rules
                self.trained = number, time
                how = "" if self.evaluating else " evaluated"
                return f"trained {number} steps {count} milliseconds {time - began} of 1{how}"
        return ""


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """All lines, and one of each stretch of training.

    Raises WrongLine for a value that cannot be.
    """
    runs: dict[int | None, _Run] = defaultdict(_Run)
    for line in lines:
        yield line
        event = _event(line)
        if event and (text := runs[line.rank].end(event)):
            yield replace(line, text=text)


def lacks(lines: Iterable[Line]) -> str:
    """Which events a log with :::MLLOG lines lacks, that no stretch of training is known."""
    marked = [line for line in lines if _MARK in line.text]
    events = [event for event in map(_event, marked) if event]
    if marked and not events:
        return (
            f"{len(marked)} of its lines have {_MARK}, but none a whole record of JSON with key, "
            f"value, metadata and time_ms after it; line {marked[0].number}: "
            f"{_short(marked[0].text)}"
        )
    if not marked:
        return ""
    first: dict[str, int] = {}
    for event in events:
        first.setdefault(event.key, event.line.number)
    groups = (("train_samples",), (_BEGINS,), _ENDS)
    missing = [" or ".join(group) for group in groups if not any(key in first for key in group)]
    if missing == ["train_samples"] and any(_of_samples(event) for event in events):
        missing = []
    if missing:
        why = f"but none says {' and '.join(missing)}"
    else:
        why = "but no block_start is followed by an eval_start or block_stop that says where it is"
    shown = [f"{_short(key)} (line {number})" for key, number in first.items()]
    said = ", ".join(shown[:20])
    return (
        f"{len(events)} of its lines are :::MLLOG records, {why}: a stretch of training lasts from "
        "block_start to eval_start, and counts epochs of train_samples, or samples_count; epochs' "
        f"own stops do not count, as work may only be queued then [it has: {said}]"
    )


def _of_samples(event: _Event) -> bool:
    return event.key == _BEGINS and "samples_count" in event.about


def _rate(key: str, value: Any) -> float | None:
    if key == "tracked_stats" and isinstance(value, dict):
        value = next((value[name] for name in _RATES if name in value), None)
    elif key != "throughput":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < _LARGEST else None


def _event(line: Line) -> _Event | None:
    """The record of a line; None where it has none that is whole."""
    match = _EVENT.search(line.text)
    try:
        record = json.loads(match["json"]) if match else {}
        key, value, time = record["key"], record["value"], record["time_ms"]
        about = record["metadata"] or {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # cut, or glued to another
    if not isinstance(key, str) or not isinstance(about, dict):
        return None  # no record of mlperf_logging
    if key not in _READ:
        return _Event(line, key, value, about, 0.0)
    number = isinstance(time, int | float) and not isinstance(time, bool)
    if not number or not 0 <= time < _LARGEST:
        what = f"{key}: time_ms: {_cut(time)} is not a time in milliseconds"
        raise WrongLine(line, what)
    return _Event(line, key, value, about, float(time))


def _whole(value: Any) -> int | None:
    """A whole number that a log may count; None of anything else."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) < _LARGEST or value != int(value):
        return None
    return int(value)


def _cut(value: Any) -> str:
    """A value as it is written, cut where a message would get too long."""
    return _short(json.dumps(value))


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _setting(key: str) -> re.Pattern[str]:
    return re.compile(rf'"key": "{key}", "value": (\d+)')


SOURCE = Source(
    title="MLPerf Training: :::MLLOG lines",
    upstream="""
        mlcommons/logging mlperf_logging/mllog/mllog.py: ":::MLLOG {json}" with time_ms, key, value,
        metadata; constants.py: block_start (first_epoch_num, epoch_count, or samples_count),
        block_stop,
        eval_start, eval_accuracy (epoch_num; of BERT the samples trained so far), train_samples,
        global_batch_size; NVIDIA's own keys: d_batch_size, throughput, tracked_stats""",
    forms=(
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^epoch (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples><N>)(?: rate (?P<rate><N>))?$"
            ),
            stated=(  # of BERT they are of packed sequences
                Stated("batch_size", _setting("d_batch_size")),
                Stated("accumulation", _setting("gradient_accumulation_steps")),
            ),
            note="a step is an epoch, evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples>1)$"
            ),
            note="a step is a sample, evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples>1) evaluated$"
            ),
            note="a step is a sample; evaluations are in the time, as the log does not tell them",
        ),
    ),
    stated=(Stated("global_batch_size", _setting("global_batch_size")),),
    durations_first=True,
    join=join,
    lacks=lacks,
)
